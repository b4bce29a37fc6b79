"""What commands are given and write: queries, tables, and modules with users' own code; errors name the file.

Importing a module registers the operators that it has, and finds its functions.
"""

from __future__ import annotations

import ast
import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from trimtab.errors import InputError, QueryError, TrimtabError

_HINT = "write it as in an import: package.module, without .py"


def add_query_and_tables(parser: ArgumentParser, table_help: str) -> None:
    """Add the argument `query` and the options `--table` and `--operators`."""
    parser.add_argument("query", type=Path, help="a file with one SELECT")
    parser.add_argument("--table", action="append", default=[], metavar="NAME=FILE", help=table_help)
    operators = "a Python module with operators of your own, as in import MODULE, from here or installed"
    parser.add_argument("--operators", action="append", default=[], metavar="MODULE", help=operators)


@contextmanager
def query_file(path: Path) -> Iterator[str]:
    """The text of a query; mistakes found in it inside the block name the file."""
    with _file_errors(path, "read"):
        text = path.read_text(encoding="utf-8")
    try:
        yield text
    except QueryError as error:
        error.where = str(path)
        raise


def read_schemas(pairs: Iterable[str]) -> dict[str, pa.Schema]:
    """The schemas of tables given as name=file."""
    return {name: _schema(path) for name, path in _pairs(pairs)}


def read_tables(pairs: Iterable[str]) -> dict[str, pa.Table]:
    """The tables given as name=file."""
    return {name: _table(path) for name, path in _pairs(pairs)}


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format that the file's name ends in."""
    write = pa_csv.write_csv if _is_csv(path) else pa_parquet.write_table
    with _file_errors(path, "written"):
        write(table, path)


def _pairs(pairs: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for pair in pairs:
        name, _, file = pair.partition("=")
        if not (name and file):
            raise InputError("input.file", f"--table {pair} has no file", "write --table ticks=ticks.parquet")
        yield name, Path(file)


def _schema(path: Path) -> pa.Schema:
    if _is_csv(path):
        return _table(path).schema
    with _file_errors(path, "read"):
        return pa_parquet.read_schema(path)


def _table(path: Path) -> pa.Table:
    read = pa_csv.read_csv if _is_csv(path) else pa_parquet.read_table
    with _file_errors(path, "read"):
        return read(path)


def _is_csv(path: Path) -> bool:
    """Whether a file is CSV and not Parquet; raises InputError `input.file` if it is neither."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError("input.file", f"{path} is neither .parquet nor .csv")
    return path.suffix == ".csv"


@contextmanager
def _file_errors(path: Path, verb: str) -> Iterator[None]:
    """Raise errors of files inside the block as an InputError that names the file; `verb`: "read" or "written"."""
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n", 1)[0]
        raise InputError("input.file", f"{path} can't be {verb}: {reason}") from error


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
