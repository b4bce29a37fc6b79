"""Odd statements for the compiler: token soup, mutated queries, deep nesting, text that never ends.

For every text, `compile_query` returns or raises a `TrimtabError`. Run a long search from the command line:

    python -m tests.support.fuzz --count 100000 --seed 1
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tests.support.cases import parse_file
from tests.support.query_cases import SCHEMA, random_case
from trimtab.errors import TrimtabError
from trimtab.language.compile import compile_query

CORPUS = (
    "SELECT k, x + 1 AS y FROM t WHERE s LIKE 'a%' AND b IS NOT NULL",
    "SELECT k, count(*) AS n FROM t GROUP BY k, window(ts, '1 minute')",
    "SELECT k, session_window.start, sum(x) FROM t GROUP BY k, session_window(ts, '5 seconds')",
    "SELECT x, avg(y) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM t",
    "SELECT sum(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS a FROM t",
    "WITH u AS (SELECT ts, x * 2 AS x FROM t) SELECT * FROM u MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))",
    *(random_case(seed).sql for seed in range(60)),
)
"""Valid statements to start from, over the table `t` of `query_cases.SCHEMA`."""

_WORD_TEXT = """
    SELECT FROM WHERE GROUP BY ORDER PARTITION MEASURES PATTERN DEFINE SUBSET WITHIN AFTER MATCH SKIP TO NEXT PAST LAST
    FIRST ROW ROWS PER ONE ALL SHOW OMIT EMPTY MATCHES UNMATCHED WITH AS AND OR NOT NULL IS IN BETWEEN CASE WHEN THEN
    ELSE END CAST INTERVAL SECOND MINUTE MONTH RUNNING FINAL PREV CLASSIFIER MATCH_NUMBER MATCH_RECOGNIZE PERMUTE
    TIMEOUT OVER RANGE PRECEDING FOLLOWING UNBOUNDED CURRENT window session_window count sum avg min max array_agg
    stddev max_by coalesce concat abs DISTINCT FILTER LATERAL VIEW EXPLODE UNION JOIN ON USING LIMIT HAVING VALUES
    EXISTS ANY SOME TRUE FALSE LIKE RLIKE ESCAPE date timestamp decimal struct map array lambda t k ts x y s d b A B C U
"""
_MARK_TEXT = """
    ( ) [ ] { } {- -} { } , . ; : :: + - * / % = <> != < <= > >= <=> -> => | || & ^ ~ ? ?? *? +? $ $$ @ # ! \\ ' " ` ''
    "" `` -- /* */ /*+ {2} {,} {2,1} {0} {99999999999} 0 1 -1 1.5 1e400 0x1F 1e-400 .5 5. 1L 1BD X'0g' 'a' 'é' r'x'
    'it''s' 999999999999999999999999999999999999999 1.000000000000000000000000000000000000001 :name ?1 ${x} a.b.c.d
    é ß \u0661 名 🙂 \u00a0 \u200b \u2028 \ufeff \x00 \x07 \ud7ff i̇ ﬁ
"""
_WORDS, _MARKS = _WORD_TEXT.split(), _MARK_TEXT.split(" ")


@dataclass(slots=True)
class Tally:
    """The outcomes of the statements; `escaped` are those that raised anything else, with the error's name."""

    statements: int = 0
    compiled: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    escaped: list[tuple[str, str]] = field(default_factory=list)


def fuzz(
    count: int,
    seed: int,
    *,
    corpus: Sequence[str] = CORPUS,
    tables: Mapping[str, pa.Schema] | None = None,
    progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Compile `count` odd statements over the tables, by default the table `t` of `query_cases.SCHEMA`."""
    known = {"t": SCHEMA} if tables is None else tables
    tally = Tally()
    for sql in statements(count, seed, corpus):
        tally.statements += 1
        try:
            compile_query(sql, known)
            tally.compiled += 1
        except TrimtabError as error:
            str(error)  # printing it must not fail either
            tally.refused[error.code] += 1
        except Exception as error:  # any other exception is what the search is for
            tally.escaped.append((type(error).__name__, sql))
        if progress is not None and tally.statements % 5000 == 0:
            progress(tally)
    return tally


def statements(count: int, seed: int, corpus: Sequence[str] = CORPUS) -> Iterator[str]:
    """`count` odd statements; the same seed and corpus give the same ones."""
    dice = random.Random(seed)
    makers: tuple[Callable[[random.Random, Sequence[str]], str], ...] = (
        *(_mutated,) * 4,
        *(_with_another_token,) * 6,
        *(_with_odd_characters,) * 3,
        *(_with_odd_pattern,) * 3,
        _soup,
        _crossed,
        _unfinished,
        _nested,
    )
    for _ in range(count):
        yield dice.choice(makers)(dice, corpus)


def _piece(dice: random.Random) -> str:
    return dice.choice(_WORDS if dice.random() < 0.6 else _MARKS)


def _soup(dice: random.Random, _: Sequence[str]) -> str:
    """Tokens in any order, often after a valid beginning."""
    begin = dice.choice(
        ["", "SELECT ", "SELECT * FROM t ", "SELECT * FROM t MATCH_RECOGNIZE (", "SELECT * FROM t WHERE "]
    )
    return begin + " ".join(_piece(dice) for _ in range(dice.randrange(25)))


def _tokens(sql: str) -> list[str]:
    return re.findall(r"\s+|\w+|'[^']*'|`[^`]*`|.", sql, re.DOTALL)


def _mutated(dice: random.Random, corpus: Sequence[str]) -> str:
    """A statement with some tokens deleted, doubled, swapped, replaced or put in."""
    tokens = _tokens(dice.choice(corpus))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        at, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
        match dice.randrange(6):
            case 0:
                del tokens[at : at + dice.choice((1, 1, 2, 9))]
            case 1:
                tokens[at:at] = tokens[at : at + dice.choice((1, 2, 9))]
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = _piece(dice)
            case 4:
                tokens.insert(at, f" {_piece(dice)} ")
            case _:
                tokens[at] = tokens[other]
        tokens = tokens or [" "]
    return "".join(tokens)


def _with_another_token(dice: random.Random, corpus: Sequence[str]) -> str:
    """A statement with a token or two of another statement, in places of their kind: it often still compiles."""
    tokens, others = _tokens(dice.choice(corpus)), _tokens(dice.choice(corpus))
    for _ in range(dice.choice((1, 1, 2))):
        at = dice.randrange(len(tokens))
        alike = [token for token in others if _kind(token) == _kind(tokens[at])]
        tokens[at] = dice.choice(alike or tokens)
    return "".join(tokens)


def _kind(token: str) -> str:
    if token.isspace() or token.isdigit() or token in "()[]{}.,":
        return token[:1]
    return "word" if token.isidentifier() else "other"


def _with_odd_characters(dice: random.Random, corpus: Sequence[str]) -> str:
    """A statement with some characters changed."""
    characters = list(dice.choice(corpus))
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(characters))
        odd = dice.choice("'\"`()[]{}\\;,.|-+*?^$/#@:\n\t\x00é名🙂0 ")
        characters[at : at + dice.randrange(2)] = [odd] * dice.randrange(3)
        characters = characters or [" "]
    return "".join(characters)


def _with_odd_pattern(dice: random.Random, corpus: Sequence[str]) -> str:
    """A statement whose pattern is garbage."""
    pieces = [
        "A",
        "B",
        "c",
        "(",
        ")",
        "|",
        "*",
        "+",
        "?",
        "??",
        "{2}",
        "{2,}",
        "{,3}",
        "{1,2}?",
        "{-",
        "-}",
        "^",
        "$",
        "()",
    ]
    pieces += [
        "PERMUTE(",
        ",",
        "TIMEOUT",
        "`a b`",
        "{0}",
        "{9,1}",
        "{99999}",
        "/*",
        "--",
        "'",
        '"',
        "\n",
        "é",
        "7",
        ";",
        "::",
    ]
    garbage = " ".join(dice.choice(pieces) for _ in range(dice.randrange(14)))
    sql = dice.choice(corpus)
    return re.sub(r"PATTERN \([^\n]*", lambda _: f"PATTERN ({garbage})", sql, count=1)


def _crossed(dice: random.Random, corpus: Sequence[str]) -> str:
    """The beginning of one statement and the end of another."""
    first, second = _tokens(dice.choice(corpus)), _tokens(dice.choice(corpus))
    return "".join(first[: dice.randrange(len(first))] + second[dice.randrange(len(second)) :])


def _unfinished(dice: random.Random, corpus: Sequence[str]) -> str:
    """A statement that is cut off, or in which a text, name or comment never ends."""
    sql = dice.choice(corpus)
    at = dice.randrange(len(sql) + 1)
    return sql[:at] + dice.choice(["", "'", '"', "`", "/*", "--", "'\\", "(", "{-", "$$"]) + dice.choice(["", sql[at:]])


def _nested(dice: random.Random, corpus: Sequence[str]) -> str:
    """Something inside itself, over and over."""
    depth = dice.choice((2, 20, 60, 150, 400))
    around, core = dice.choice(
        [
            (("(", ")"), "x"),
            (("NOT (", ")"), "b"),
            (("-(", ")"), "x"),
            (("abs(", ")"), "x"),
            (("coalesce(x, ", ")"), "1"),
            (("CASE WHEN b THEN ", " END"), "x"),
            (("[", "]"), "x"),
            (("x + ", ""), "1"),
            (("b AND ", ""), "b"),
            (("- ", ""), "x"),
        ]
    )
    expression = around[0] * depth + core + around[1] * depth
    match dice.randrange(5):
        case 0:
            return f"SELECT {expression} FROM t"
        case 1:
            return f"SELECT * FROM t WHERE {expression}"
        case 2:
            return "SELECT * FROM (" * depth + "SELECT * FROM t" + ")" * depth
        case 3:
            opening, closing = dice.choice(
                [("(", ")"), ("(A ", ")*"), ("{-", "-}"), ("PERMUTE(A, ", ")"), ("(A|", ")")]
            )
            return f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({opening * depth}B{closing * depth}))"
        case _:
            return dice.choice(corpus).replace("DEFINE", f"DEFINE Z AS {expression},", 1)


def in_files(paths: Sequence[pathlib.Path]) -> tuple[list[str], dict[str, pa.Schema]]:
    """The statements of case files, with those of `CORPUS`, and the tables that they read."""
    cases = [case for path in paths for case in parse_file(path)]
    schemas = {name: table.schema for case in cases for name, table in case.tables.items()}
    return [*CORPUS, *(case.sql for case in cases)], {**schemas, "t": SCHEMA}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz from the command line; 1 if anything but a `TrimtabError` was raised."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=main.__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many statements")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=pathlib.Path, nargs="*", default=[], help="case files to take statements from")
    options = parser.parse_args(arguments)
    corpus, tables = in_files(options.corpus)
    began = time.monotonic()

    def progress(tally: Tally) -> None:
        spent_s = time.monotonic() - began
        sys.stdout.write(f"{tally.statements:,} statements, {tally.compiled:,} compiled, {spent_s:.0f} s\n")
        sys.stdout.flush()

    tally = fuzz(options.count, options.seed, corpus=corpus, tables=tables, progress=progress)
    progress(tally)
    for code, number in tally.refused.most_common():
        sys.stdout.write(f"  {number:8,} {code}\n")
    for name, sql in tally.escaped:
        sys.stdout.write(f"{name}: {sql!r}\n")
    sys.stdout.write(f"{len(tally.escaped)} escaped\n")
    return 1 if tally.escaped else 0


if __name__ == "__main__":
    sys.exit(main())
