"""`trimtab`: the command and its subcommands.

A user's mistake is printed without a traceback, and the exit status is 1. Another package adds
commands by naming their modules in the entry points `trimtab.commands`, as trimtab-lab does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import trimtab
from trimtab.cli import evaluate, explain, replay, run, state, tune, warm
from trimtab.errors import TrimtabError, places_of

COMMANDS = (explain, evaluate, run, state, replay, tune, warm)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except TrimtabError as error:
        where = places_of(error)
        print(f"{error}\n  where: {where}" if where else error, file=sys.stderr)
    except BrokenPipeError:  # `trimtab explain query.sql | head` isn't a mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trimtab", description="Patterns in event streams with SQL.")
    parser.add_argument("--version", action="version", version=f"trimtab {trimtab.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (*COMMANDS, *(each.load() for each in entry_points(group="trimtab.commands"))):
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
