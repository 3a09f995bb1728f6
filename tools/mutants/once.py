"""A plugin of pytest: one failure in a file is enough, so the rest of the file is skipped."""

from __future__ import annotations

import pytest

_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the file of a test that has failed."""
    if report.failed:
        _failed.add(_file(report.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose file has killed the mutant."""
    if _file(item.nodeid) in _failed:
        pytest.skip("its file has killed the mutant")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
