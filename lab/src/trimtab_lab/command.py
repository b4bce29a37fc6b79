"""`trimtab lab`: run the papers' experiments again, compare claims with results, make the page of both."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the lab imports Numba and the planners: it is imported when the command runs
    from trimtab_lab.experiment import Experiment

LIST, ALL, PAGE = "list", "all", "page"
INTERRUPTED = 130  # the exit status of shells for an interrupt


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "lab",
        help="run the papers' experiments and compare",
        description="Run experiments of the papers that trimtab is built on: a seeded workload, the paper's figures "
        "beside ours, a verdict, a picture. Ends with status 1 if a claim doesn't hold.",
    )
    parser.add_argument(
        "what",
        nargs="+",
        metavar="ID",
        help=f"an experiment such as cg-fig4; `{LIST}` shows them, `{ALL}` runs all of them, `{PAGE}` makes the page "
        "of documentation from the files in --out",
    )
    parser.add_argument("--seed", type=_at_least(0), default=1, metavar="N", help="of the workloads (default: 1)")
    parser.add_argument("--reduced", action="store_true", help="less data, seconds instead of minutes")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("lab-results"),
        metavar="FOLDER",
        help="where the files go (default: lab-results)",
    )
    parser.add_argument(
        "--jobs",
        type=_at_least(1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many experiments run at a time (default: as many as there are cores)",
    )
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), metavar="FOLDER", help=f"for `{PAGE}`: where it goes (default: docs)"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of progress bars")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List, run, or make the page; return the exit status."""
    from trimtab_lab import catalogue
    from trimtab_lab.view import console, experiment_list

    known = catalogue.experiments(catalogue.MODULES)
    match options.what:
        case [word] if word == LIST:
            console().print(experiment_list(list(known.values())))
            return 0
        case [word] if word == PAGE:
            return _make_page(known, options.out, options.docs)
    return _run(_chosen(options.what, known), known, options)


def _run(ids: Sequence[str], known: Mapping[str, Experiment], options: argparse.Namespace) -> int:
    from trimtab_lab import catalogue
    from trimtab_lab.experiment import Scale
    from trimtab_lab.files import make_folder
    from trimtab_lab.running import Found, Happening, Order, run_apart, run_here
    from trimtab_lab.view import console, summary, view

    make_folder(options.out)
    scale = Scale.REDUCED if options.reduced else Scale.FULL
    orders = [Order(id_, catalogue.MODULES, scale, options.seed, options.out) for id_ in ids]
    screen = console()
    ends: dict[str, Happening] = {}
    try:
        with view(screen, len(orders), plain=options.plain) as report:

            def note(happening: Happening) -> None:
                ends[happening.id] = happening  # the last one of each is how it ended
                report(happening)

            if len(orders) == 1 or options.jobs == 1:
                run_here(orders, note)
            else:
                run_apart(orders, options.jobs, [id_ for id_ in ids if known[id_].alone], note)
    except KeyboardInterrupt:
        print("stopped; what was found so far is in the files", file=sys.stderr)
        return INTERRUPTED
    found = [end for end in (ends[id_] for id_ in ids) if isinstance(end, Found)]
    if len(ids) > 1:
        screen.print(summary(found, [id_ for id_ in ids if not isinstance(ends[id_], Found)]))
    return 0 if len(found) == len(ids) and all(each.record.verdict.holds for each in found) else 1


def _make_page(known: Mapping[str, Experiment], results: Path, docs: Path) -> int:
    from trimtab.errors import BalanceError
    from trimtab_lab.files import copy_small, make_folder, read_records, write_page
    from trimtab_lab.page import PICTURES, page

    kept = docs / PICTURES
    make_folder(kept)
    new = read_records(results, known)
    for record in new:
        copy_small(record, results, kept)
    records = read_records(kept, known)
    if not records:
        raise BalanceError("lab.empty", f"there are no results in {results}", f"run `trimtab lab {ALL}` first")
    missing = [id_ for id_ in known if id_ not in {record.id for record in records}]
    path = write_page(page(records, missing), docs)
    print(f"{path}: {len(records)} experiments, {len(new)} of them from {results}")
    if missing:
        print(f"never run: {', '.join(missing)}")
    return 0


def _chosen(words: Sequence[str], known: Mapping[str, Experiment]) -> list[str]:
    """The ids that the words stand for, each once, in the order of the catalogue.

    Raises BalanceError `lab.unknown`.
    """
    from trimtab.errors import BalanceError
    from trimtab.language.mistakes import did_you_mean

    if list(words) == [ALL]:
        return list(known)
    for word in words:
        if word in (LIST, ALL, PAGE):
            raise BalanceError("lab.unknown", f"`{word}` stands alone", f"write trimtab lab {word}")
        if word not in known:
            hint = did_you_mean(word, known, otherwise=f"`trimtab lab {LIST}` shows the experiments")
            raise BalanceError("lab.unknown", f"there is no experiment {word}", hint)
    return [id_ for id_ in known if id_ in words]


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} on")
        return int(text)

    return number
