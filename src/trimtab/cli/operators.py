"""The modules with users' own code: importing one registers the operators that it has, and finds its functions."""

from __future__ import annotations

import ast
import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from trimtab.errors import InputError, TrimtabError

_HINT = "write it as in an import: package.module, without .py"


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


def look_for(folder: Path, name: str, *, is_function: bool = False) -> None:
    """Check that `import_from` would find the module and its function, without running any of its code.

    Raises InputError `input.module`.
    """
    module_name, function_name = _parts(name, is_function=is_function)
    spec, places = None, [str(folder), *sys.path]
    for count, _ in enumerate(parts := module_name.split("."), 1):
        # Not importlib's own search: it imports the packages around a module.
        spec = PathFinder.find_spec(".".join(parts[:count]), places)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if spec is None:
        if _is_loaded_elsewhere(parts[0]):
            return
        raise InputError("input.module", f"there is no module {module_name}", _HINT)
    if is_function and spec.origin is not None and spec.origin.endswith(".py"):
        names = _names_in(Path(spec.origin))
        if names is not None and function_name not in names:
            raise InputError("input.module", f"{module_name} has no function {function_name}")


def _is_loaded_elsewhere(top: str) -> bool:
    """Whether a module has a finder of its own, as packages that are installed for development have."""
    finders = [each for each in sys.meta_path if each is not PathFinder]
    return any(each.find_spec(top, None) is not None for each in finders)


def _names_in(file: Path) -> set[str] | None:
    """The names that a module defines at its top; None if only running it can tell."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
    return None if "*" in names or "__getattr__" in names else names


def import_from(folder: Path, name: str, *, is_function: bool = False) -> Callable[..., Any] | None:
    """Import a module, or with `is_function` the function that "module:function" names; the folder is on the path.

    Raises InputError `input.module`.
    """
    module_name, function_name = _parts(name, is_function=is_function)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except TrimtabError:
        raise
    except Exception as error:  # the module's code may raise anything
        message = f"{module_name} can't be imported: {type(error).__name__}: {error}"
        raise InputError("input.module", message, _HINT) from error
    if not is_function:
        return None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError("input.module", f"{module_name} has no function {function_name}")
    found: Callable[..., Any] = function
    return found


def _parts(name: str, *, is_function: bool) -> tuple[str, str]:
    module_name, _, function_name = name.partition(":")
    if is_function and not function_name:
        raise InputError("input.module", f'"{name}" names no function', 'write "module:function"')
    return module_name, function_name
