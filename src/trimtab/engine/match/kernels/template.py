"""Source from templates: lines with conditions, blocks with names, and names for numbers.

A line of a template is `condition | code`. It is used if all words of its condition hold (`!` negates a word; without
words it always is). A line whose code is the name of a block stands for that block, indented as the name is. A block is
a template itself, or a list of lines that are used unchanged: they may have text of a query in them, which must not be
mistaken for names.

Adjacent lines that begin with `banks` are about the integers of threads, and stand also for the same lines about their
floats and their objects; those that begin with `used` only where a query has such registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trimtab.engine.match.compile.registers import Bank

Block = str | Sequence[str]
_LINES_FOR_BANKS = re.compile(r"(?m)^(banks|used).*\n(?:\1.*\n)*")


def _for_each_bank(found: re.Match[str]) -> str:
    lines = re.sub(r"(?m)^\w+", "ints" if found[1] == "used" else "", found[0])
    return "".join(lines.replace("int", bank.value).replace("INT", bank.value.upper()) for bank in Bank)


def fill(template: str, flags: Mapping[str, bool], blocks: Mapping[str, Block], names: Mapping[str, object]) -> str:
    """The source that a template stands for.

    >>> outline = '''
    ...      |if ready:
    ...      |    WORK
    ... loud |print(LIMIT)
    ... '''
    >>> print(fill(outline, {"loud": False}, {"WORK": "|x = LIMIT"}, {"LIMIT": 3}))
    if ready:
        x = 3
    """
    pattern = re.compile(r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\b")

    def named(code: str) -> str:
        return pattern.sub(lambda found: str(names[found[0]]), code)

    def lines_of(block: Block) -> Iterator[str]:
        if not isinstance(block, str):
            yield from block
            return
        for line in _LINES_FOR_BANKS.sub(_for_each_bank, block.strip("\n") + "\n").splitlines():
            condition, _, code = line.partition("|")
            if not all(flags[word.removeprefix("!")] != word.startswith("!") for word in condition.split()):
                continue
            if (word := code.strip()) in blocks:
                indent = code.removesuffix(word)
                yield from (indent + inner for inner in lines_of(blocks[word]))
            else:
                yield named(code)

    return "\n".join(lines_of(template))
