"""The modules with users' own code: importing one registers the operators that it has, and finds its functions."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
    """Import the modules; the current folder is on the path. Raises InputError `input.module`."""
    for name in modules:
        import_from(Path.cwd(), name)


def import_from(folder: Path, name: str, *, is_function: bool = False) -> Callable[..., Any] | None:
    """Import a module, or with `is_function` the function that "module:function" names; the folder is on the path.

    Raises InputError `input.module`.
    """
    module_name, _, function_name = name.partition(":")
    if is_function and not function_name:
        raise InputError("input.module", f'"{name}" names no function', 'write "module:function"')
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except TrimtabError:
        raise
    except Exception as error:  # the module's code may raise anything
        message = f"{module_name} can't be imported: {type(error).__name__}: {error}"
        raise InputError("input.module", message, "write it as in an import: package.module, without .py") from error
    if not is_function:
        return None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError("input.module", f"{module_name} has no function {function_name}")
    found: Callable[..., Any] = function
    return found
