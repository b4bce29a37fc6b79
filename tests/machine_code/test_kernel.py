from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.machine_code import kernels_to_test
from tests.machine_code.kernels_to_test import double, doubled_sum, factorial
from trimtab.machine_code import missing, shelf
from trimtab.machine_code.compiler import compile_noted
from trimtab.machine_code.fingerprint import fingerprint
from trimtab.machine_code.kernel import Kernel, kernel
from trimtab.machine_code.missing import Missing, NotCompiledError, if_missing
from trimtab.machine_code.shelf import Entry, Folder, digest_of

REAL_CACHE = shelf.cache.__wrapped__
"""Where the cache is, asked anew each time."""


@pytest.fixture(autouse=True)
def empty_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing installed, nothing cached, and nothing loaded in this process."""
    for name in ("installed", "cache"):
        folder = Folder(tmp_path / name)
        monkeypatch.setattr(shelf, name, lambda folder=folder: folder)
    for each in (double, doubled_sum, factorial):
        each.__dict__.pop("machine", None)
    monkeypatch.setattr(shelf, "_offered", shelf._Offered())
    missing.take_notes()


def fresh(old: Kernel) -> Kernel:
    """The kernel as in a process that has loaded nothing yet."""
    return Kernel(old.function, old.name)


def test_a_kernel_is_compiled_where_that_is_allowed_and_kept() -> None:
    assert doubled_sum(np.arange(4)) == 12
    assert [entry.name for entry in shelf.cache().entries()] == ["tests.machine_code.kernels_to_test.doubled_sum"]


def test_where_it_may_not_be_compiled_it_runs_as_plain_python_and_is_noted() -> None:
    with if_missing(Missing.PLAIN):
        assert doubled_sum(np.arange(4)) == 12
        assert factorial(5) == 120
    assert {note.function for note in missing.take_notes()} == {
        (kernels_to_test.__name__, "doubled_sum"),
        (kernels_to_test.__name__, "factorial"),
    }
    assert not list(shelf.cache().entries())
    assert "machine" not in double.__dict__


def test_under_refuse_missing_machine_code_is_an_error() -> None:
    with if_missing(Missing.REFUSE), pytest.raises(NotCompiledError):
        doubled_sum(np.arange(4))
    doubled_sum(np.arange(4))
    with if_missing(Missing.REFUSE):
        assert doubled_sum(np.arange(5)) == 20
        with pytest.raises(NotCompiledError):
            doubled_sum(np.arange(4.0))  # of other types


def test_a_noted_function_is_compiled_for_just_the_noted_types() -> None:
    with if_missing(Missing.PLAIN):
        doubled_sum(np.arange(4.0))
    notes = missing.take_notes()
    assert pickle.loads(pickle.dumps(notes)) == notes
    compile_noted(notes)
    with if_missing(Missing.REFUSE):
        assert fresh(doubled_sum)(np.arange(4.0)) == 12.0


def test_machine_code_of_the_shelf_is_used_instead_of_compiling() -> None:
    doubled_sum(np.arange(4))
    with if_missing(Missing.REFUSE):
        assert fresh(doubled_sum)(np.arange(4)) == 12


def test_a_damaged_file_counts_as_missing() -> None:
    doubled_sum(np.arange(4))
    (file,) = shelf.cache().path.iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with if_missing(Missing.REFUSE), pytest.raises(NotCompiledError):
        fresh(doubled_sum)(np.arange(4))


def by_another_user(folder: Folder, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del file
    monkeypatch.setattr(folder, "_owners", {os.geteuid() + 1})


def writable_file(folder: Folder, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del folder, monkeypatch
    file.chmod(0o664)


def writable_folder(folder: Folder, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del file, monkeypatch
    folder.path.chmod(0o757)


def link(folder: Folder, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del folder, monkeypatch
    elsewhere = file.parent.parent / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


@pytest.mark.parametrize("make_foreign", [by_another_user, writable_file, writable_folder, link])
def test_machine_code_that_somebody_else_may_have_written_is_not_loaded(
    make_foreign: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading is unpickling, so a foreign file with a right digest of its own would run anything."""
    doubled_sum(np.arange(4))
    (entry,) = shelf.cache().entries()
    ran: list[str] = []
    monkeypatch.setattr("tests.machine_code.kernels_to_test.RAN", ran, raising=False)
    shelf.cache().write(entry, pickle.dumps(Runs()))
    (file,) = shelf.cache().path.iterdir()
    make_foreign(shelf.cache(), file, monkeypatch)
    assert shelf.cache().read(entry) is None
    with if_missing(Missing.PLAIN):
        assert fresh(doubled_sum)(np.arange(4)) == 12
    assert ran == []


class Runs:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return exec, ("from tests.machine_code import kernels_to_test; kernels_to_test.RAN.append('ran')",)


def test_a_folder_of_somebody_elses_is_not_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TRIMTAB_CACHE_DIR", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = REAL_CACHE()
    assert found.path != shared
    assert found.is_own()
    assert f"{shared} belongs to another user, or others may write to it" in caplog.text
    shared.chmod(0o755)
    assert REAL_CACHE().path == shared


def test_the_cache_is_made_so_that_only_its_user_writes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIMTAB_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    before = os.umask(0o002)
    try:
        assert REAL_CACHE().is_own()
        REAL_CACHE().path.chmod(0o775)  # as an earlier version made it
        assert REAL_CACHE().is_own()
        assert REAL_CACHE().path == tmp_path / "home" / "trimtab" / "machine-code"
    finally:
        os.umask(before)


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "inside")
    folder.make()
    Folder(tmp_path).write(Entry("outside", "1"), b"code")
    assert Folder(tmp_path).read(Entry("outside", "1")) == b"code"
    assert folder.read(Entry("../outside", "1")) is None


def test_a_worker_runs_cached_machine_code_only_if_its_digest_is_the_one_that_the_driver_sent() -> None:
    doubled_sum(np.arange(4))
    (entry,) = shelf.cache().entries()
    code = shelf.cache().read(entry)
    assert code is not None
    shelf.accept({}, dict)
    with if_missing(Missing.REFUSE), pytest.raises(NotCompiledError):
        fresh(doubled_sum)(np.arange(4))
    shelf.accept({entry: digest_of(b"something else")}, lambda: {entry: b"not that either"})
    with if_missing(Missing.REFUSE), pytest.raises(NotCompiledError):
        fresh(doubled_sum)(np.arange(4))
    assert shelf.cache().read(entry) == code  # sent code with another digest than the offered one isn't kept
    shelf.accept({entry: digest_of(code)}, lambda: pytest.fail("it is there already"))
    with if_missing(Missing.REFUSE):
        assert fresh(doubled_sum)(np.arange(4)) == 12


def test_code_that_a_machine_lacks_is_fetched_once_and_kept() -> None:
    doubled_sum(np.arange(4))
    (entry,) = shelf.cache().entries()
    code = shelf.cache().read(entry)
    assert code is not None
    (shelf.cache().path / entry.file).unlink()
    shelf.accept({entry: digest_of(code)}, lambda: {entry: code})
    assert shelf.cache().read(entry) == code
    shelf.accept({entry: digest_of(code)}, lambda: pytest.fail("fetched twice"))
    with if_missing(Missing.REFUSE):
        assert fresh(doubled_sum)(np.arange(4)) == 12


def test_installed_code_needs_no_offer() -> None:
    doubled_sum(np.arange(4))
    (entry,) = shelf.cache().entries()
    code = shelf.cache().read(entry)
    assert code is not None
    shelf.installed().write(entry, code)
    shelf.accept({}, dict)
    with if_missing(Missing.REFUSE):
        assert fresh(doubled_sum)(np.arange(4)) == 12


def test_the_fingerprint_follows_what_is_called_and_nothing_else() -> None:
    def made(inner: str, comment: str = "", module: str = "made") -> str:
        names: dict[str, object] = {"kernel": kernel, "__name__": module}
        exec(f"@kernel\ndef inner(x):\n    return {inner}\n", names)
        exec(f"{comment}\n@kernel\ndef outer(x):\n    return inner(x) + 1\n", names)
        outer = names["outer"]
        assert isinstance(outer, Kernel)
        return outer.fingerprint

    assert made("x * 2") == made("x * 2", "# another line")
    assert made("x * 2") != made("x * 3")
    assert made("x * 2") != made("x * 2", module="moved"), "machine code finds its module by name"


def test_fingerprints_are_the_same_in_every_process() -> None:
    code = "from tests.machine_code.kernels_to_test import doubled_sum; print(doubled_sum.fingerprint)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=None)
    assert found.stdout.strip() == doubled_sum.fingerprint
    assert fingerprint(double.function, lambda _: None) != doubled_sum.fingerprint


def test_importing_kernels_does_not_import_numba() -> None:
    code = (
        "import sys, trimtab.engine.match.run.matcher, trimtab.engine.windows.grouped, trimtab.engine.windows.over, "
        "trimtab.planning, trimtab.deciding.coordinator; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "argument",
    [
        3,
        2.5,
        True,
        "text",
        np.int32(4),
        (np.arange(3), 1),
        np.zeros((2, 3), np.float32),
        np.arange(6)[::2],
        np.zeros(2, [("a", np.int64), ("b", np.float64)]),
    ],
)
def test_arguments_are_described_so_that_an_example_has_their_type(argument: object) -> None:
    numba = pytest.importorskip("numba")
    example = missing.example_of(pickle.loads(pickle.dumps(missing.type_of(argument))))
    assert numba.typeof(example) == numba.typeof(argument)


def test_arrays_that_may_not_be_written_to_are_a_type_of_their_own() -> None:
    numba = pytest.importorskip("numba")
    array = np.arange(3)
    array.flags.writeable = False
    assert numba.typeof(missing.example_of(missing.type_of(array))) == numba.typeof(array)


def test_an_entry_is_found_by_the_name_of_its_file(tmp_path: Path) -> None:
    folder, entry = Folder(tmp_path / "x"), Entry("a.b.c", "0f")
    assert not folder.has("a.b.c")
    folder.write(entry, b"code")
    assert list(folder.entries()) == [entry]
    assert folder.has("a.b.c")
    assert not folder.has("a.b")
    os.utime(folder.path, (1.0, 1.0))  # nothing has changed for long: the listing is kept
    assert folder.has("a.b.c")
    (folder.path / entry.file).rename(tmp_path / entry.file)
    os.utime(folder.path, (1.0, 1.0))
    assert folder.has("a.b.c")
    folder.write(Entry("d", "1"), b"code")
    assert folder.has("d")
    assert not folder.has("a.b.c")
