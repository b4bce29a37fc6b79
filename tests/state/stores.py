"""Object stores for tests: in memory, with conditional writes as real ones have them, or below a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

from trimtab.state import objects
from trimtab.state.files import Folder


def remote_folder(monkeypatch: pytest.MonkeyPatch, root: Path | None = None) -> Folder:
    """s3://bucket/here, in memory, or below `root`, where tests can damage it; a local store has no `update`."""
    store: Any = MemoryStore() if root is None else LocalStore(root)
    monkeypatch.setattr(objects, "_open_store", lambda *_: store)
    objects.open_objects.cache_clear()
    return Folder("s3://bucket/here")
