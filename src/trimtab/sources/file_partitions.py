"""Which partition of a source a file belongs to: a folder of it, or names that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from trimtab.errors import JobError
from trimtab.sources.file_store import Found

ALL = "files"
"""The name of the one partition that a source has if none are declared."""
_WILD = re.compile(r"[*?\[]")


def checked(partitions: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the partitions, each a folder or a pattern. Raises JobError `job.source`."""
    if partitions is None:
        return ()
    names = (partitions,) if isinstance(partitions, str) else tuple(partitions)
    hint = 'give folders below the path or patterns of names, such as ["north", "south"] or ["*-a.csv", "*-b.csv"]'
    for name in names:
        if not name.strip("/") or "**" in name or ".." in name.split("/"):
            raise JobError("job.source", f"{name!r} is no partition of files", hint)
    if not names or len(set(names)) < len(names):
        raise JobError("job.source", f"partitions={list(names)!r} are none, or have one twice", hint)
    return names


def assigned(files: Iterable[Found], partitions: Sequence[str]) -> dict[str, list[Found]]:
    """The files of each partition, in the order that they have; the first partition that fits gets a file.

    Without partitions `ALL` gets them. Files that fit none are left out.
    """
    if not partitions:
        return {ALL: list(files)}
    parts: dict[str, list[Found]] = {name: [] for name in partitions}
    rules = [(name, rule(name)) for name in partitions]
    for found in files:
        for name, fits in rules:
            if fits(found.path):
                parts[name].append(found)
                break
    return parts


def rule(partition: str) -> Callable[[str], bool]:
    """Whether a path fits: a folder has all that is below it; a pattern is one of names, with a slash of whole paths.

    >>> [rule(each)("north/a-1.csv") for each in ("north", "nor", "a-*", "*/a-?.csv", "*.csv", "*/b*")]
    [True, False, True, True, True, False]
    """
    name = partition.strip("/")
    if not _WILD.search(name):
        return lambda path: path.startswith(f"{name}/")
    parts = [re.compile(translate(part)) for part in name.split("/")]

    def fits(path: str) -> bool:
        names = path.split("/") if len(parts) > 1 else [path.rpartition("/")[2]]
        return len(names) == len(parts) and all(map(re.Pattern.match, parts, names))

    return fits
