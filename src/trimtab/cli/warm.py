"""`trimtab warm`: build the machine code that belongs to an installation, once, before any job needs it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from trimtab.errors import InputError
from trimtab.machine_code import shelf

_BUILD = """
from trimtab.machine_code import shelf
from trimtab.cli.prebuilding import PARTS
PARTS[{part!r}]()
print(*(entry.file for entry in shelf.touched), sep="\\n")
"""


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "warm",
        help="build machine code for windows and planners ahead of the first job",
        description="Compile everything that doesn't depend on a query, and keep it in this Python environment. Jobs "
        "run without it, too: as plain Python, until a process beside them has compiled what they use.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these parts; `engines` are those of engines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Build the parts, as many at once as there are cores; return the exit status."""
    from trimtab.cli.prebuilding import ENGINE_PARTS, PARTS

    chosen = [part for name in options.parts for part in (ENGINE_PARTS if name == "engines" else (name,))]
    for part in chosen:
        if part not in PARTS:
            raise InputError("input.part", f"there is no part {part!r}", f"there are engines, {', '.join(PARTS)}")
    folder = _writable(shelf.installed().path)
    began = time.monotonic()
    built = _build(chosen or list(PARTS), folder, began)
    if not chosen and None not in built.values():
        files = {file for names in built.values() for file in names or ()}
        for entry in shelf.installed().entries():
            if entry.file not in files:  # left by an earlier version
                (folder / entry.file).unlink(missing_ok=True)
    count = sum(1 for _ in shelf.installed().entries())
    print(f"{count} kernels are ready, after {time.monotonic() - began:.0f} s")
    return 1 if None in built.values() else 0


def _writable(folder: Path) -> Path:
    try:
        shelf.Folder(folder).make()
    except OSError as error:
        hint = "run it as the owner of this Python environment, or name a folder in TRIMTAB_INSTALLED_DIR"
        raise InputError("input.folder", f"{folder} can't be written: {error.strerror}", hint) from error
    return folder


def _build(parts: Sequence[str], folder: Path, began: float) -> dict[str, list[str] | None]:
    """The files of each part, None where it failed; each is built in a process whose cache is the installation."""
    environment = {**os.environ, "TRIMTAB_CACHE_DIR": str(folder), "TRIMTAB_INSTALLED_DIR": str(folder)}
    waiting, building = list(parts), dict[str, subprocess.Popen[str]]()
    built: dict[str, list[str] | None] = {}
    with Console().status("compiling") as status:
        while waiting or building:
            while waiting and len(building) < (os.cpu_count() or 1):
                part = waiting.pop(0)
                command = [sys.executable, "-c", _BUILD.format(part=part)]
                building[part] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            spent_s = time.monotonic() - began
            status.update(f"compiling {', '.join(building)}; {len(waiting)} parts left; {spent_s:.0f} s")
            time.sleep(0.1)
            for part in [part for part, process in building.items() if process.poll() is not None]:
                process = building.pop(part)
                files, _ = process.communicate()
                built[part] = None if process.returncode else files.split()
                print(f"{part}: {'compiled' if not process.returncode else 'failed; jobs run without'}", flush=True)
    return built
