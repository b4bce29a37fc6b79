"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A Kafka broker, which all tests of a process share: each makes topics of its own, and leaves it running."""
    from tests.support.broker import running_broker  # most processes run no test that needs it

    with running_broker() as found:
        yield found
