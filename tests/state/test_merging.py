"""Merges that one task does together: the state is the same as if each had a file of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.state.model import array, model_of, random_key, same, slot, tables_of
from trimtab.state.bundle import to_bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.compaction import Merge, merges_of_recent
from trimtab.state.files import Folder
from trimtab.state.manifest import QueryState, SegmentFile, StateRun
from trimtab.state.merging import Merged, Work, include_merges, run_merges, together
from trimtab.state.runs import Reader
from trimtab.state.segment import open_run, write_segment

GROUPS = 8
DICE = np.random.default_rng(5)


def run_of(query: str, size_bytes: int) -> StateRun:
    return StateRun("s", query, 1, False, 0, GROUPS, 10, 10, size_bytes)


def work_of(merge: Merge, folder: Folder, files: dict[str, SegmentFile]) -> Work:
    return Work(merge, folder, {run.segment: files[run.segment] for run in merge.runs}, "c0ffee00")


def test_merges_are_done_together_as_far_as_they_read_little() -> None:
    folder = Folder("/nowhere")
    sizes = {"a": 1, "b": 2, "c": 9, "d": 1, "e": 1}
    merges = [Merge(name, (run_of(name, size),) * 2, 0, GROUPS, False, ()) for name, size in sizes.items()]
    groups = together([Work(each, folder, {}, "") for each in merges], most_bytes=6)
    assert [[each.merge.query for each in group] for group in groups] == [["a", "b"], ["c"], ["d", "e"]]
    assert together([]) == []


def test_merges_of_several_queries_write_one_file_and_change_nothing(tmp_path: Path) -> None:
    folder, files = Folder(str(tmp_path)), dict[str, SegmentFile]()
    names, slots = ("first", "second", "nothing"), [slot(group, rest) for group in range(GROUPS) for rest in range(5)]
    queries = {name: QueryState("", (), "") for name in names}
    models = {name: {at: (random_key(DICE),) for at in slots} for name in names[:2]}
    for batch in range(3):
        chosen = {name: {at: keys for at, keys in model.items() if at % 3 == batch} for name, model in models.items()}
        parts = {name: to_bundle(tables_of(model), array(model)) for name, model in chosen.items()}
        file, sizes = write_segment(folder, segment_name(batch, "e0", "c0ffee00", 0), parts)
        files[file.name] = file
        for name, size in sizes.items():
            run = StateRun(file.name, name, batch, False, 0, GROUPS, *size)
            queries[name] = QueryState("", (run, *queries[name].runs), "")
    merges = [each for name in names for each in merges_of_recent(name, queries[name].runs, (), GROUPS, 2)]
    done = run_merges([work_of(each, folder, files) for each in merges])
    assert [each.merge for each in done] == merges
    written = {each.segment.name for each in done if each.segment is not None}
    assert len(written) == 1
    assert [each.segment is None for each in done] == [each.merge.query == "nothing" for each in done]
    after, added = include_merges(queries, done)
    files |= {file.name: file for file in added}
    for name, model in models.items():
        assert {run.segment for run in after[name].runs} == written
        reader = Reader([(run, open_run(folder, files, run)) for run in after[name].runs], GROUPS)
        assert same(model_of(reader.load(array(model))), model)


def test_merges_that_leave_nothing_write_no_file(tmp_path: Path) -> None:
    merge = Merge("q", (), 0, GROUPS, False, ())
    assert run_merges([Work(merge, Folder(str(tmp_path)), {}, "")]) == [Merged(merge, (), None)]
    assert not list(tmp_path.iterdir())
