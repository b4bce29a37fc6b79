"""Errors of trimtab's own that are raised in a task reach the driver as what they are.

Spark gives the driver only the text of an exception. So a task adds the whole exception to that text, and the driver
takes it out again: a job whose source has lost rows then ends with `source.lost`, and not with a Python traceback.
"""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.errors import TrimtabError

_CARRIED = re.compile(r"\[trimtab error ([A-Za-z0-9+/=]+)\]")


@contextmanager
def carrying() -> Iterator[None]:
    """In a task: let an error of trimtab's own be carried to the driver."""
    try:
        yield
    except TrimtabError as error:
        raise RuntimeError(f"{error} [trimtab error {base64.b64encode(pickle.dumps(error)).decode()}]") from error


@contextmanager
def unpacking() -> Iterator[None]:
    """In the driver: raise an error that a task carried, and any other as it is."""
    try:
        yield
    except Exception as error:
        if (found := _CARRIED.search(str(error))) is None:
            raise
        carried: TrimtabError = pickle.loads(base64.b64decode(found[1]))
        raise carried from None
