"""Temporary folders for feeds, checkpoints and output, removed when the process ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    """A new folder."""
    folder = Path(tempfile.mkdtemp(prefix="trimtab-lab-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
