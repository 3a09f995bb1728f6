"""Fixtures of the tests over HTTP."""

from collections.abc import Iterator

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from tests.api.exchanges import NOW


@pytest.fixture(scope="module")
def frozen() -> Iterator[FrozenDateTimeFactory]:
    """Held for a whole module, because to stop the clock takes longer than most requests."""
    with freeze_time(NOW) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        yield frozen


@pytest.fixture
def clock(frozen: FrozenDateTimeFactory) -> FrozenDateTimeFactory:
    """A clock that stands at NOW when the test begins."""
    frozen.move_to(NOW)
    return frozen
