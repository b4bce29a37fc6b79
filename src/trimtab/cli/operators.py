"""The modules with users' own operators: importing one registers the operators in it."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

from trimtab.errors import InputError, TrimtabError


def add_option(parser: ArgumentParser) -> None:
    """Add `--operators`."""
    parser.add_argument(
        "--operators",
        action="append",
        default=[],
        metavar="MODULE",
        help="a Python module with operators of your own, as in import MODULE, from here or installed",
    )


def import_operators(modules: Iterable[str]) -> None:
    """Import the modules; the current folder is on the path.

    Raises InputError `input.module`.
    """
    here = str(Path.cwd())
    for name in modules:
        if here not in sys.path:
            sys.path.insert(0, here)
        try:
            importlib.import_module(name)
        except TrimtabError:
            raise
        except Exception as error:  # the module's code may raise anything
            message = f"{name} can't be imported: {type(error).__name__}: {error}"
            raise InputError(
                "input.module", message, "write it as in an import: package.module, without .py"
            ) from error
