"""The files in which the workers leave their numbers, so that each of them can answer with those of all.

They are those of prometheus_client's multiprocess mode: for each process one for counters, one for histograms, and one
for each mode of gauges. The name of a file ends with the process id.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

ROOM = 128 * 1024
"""Bytes of a file. All values that the metrics can have take less than 80 KB in one, so none grows."""

_KINDS = ("counter", "histogram", "gauge_livemostrecent", "gauge_livemin", "gauge_livesum", "gauge_liveall")

_TOTAL = 0
"""In place of the process id: the numbers of all workers that have ended."""

logger = logging.getLogger(__name__)


def process_of(file: Path) -> int:
    """The id of the process that writes the file."""
    return int(file.stem.rpartition("_")[2])


def make(directory: Path, process: int) -> None:
    """Make the files of a process before it uses them, with room for all that it can write; raises OSError.

    With a full disk, the kernel would end the process when it uses a part of them for the first time.
    """
    for kind in _KINDS:
        _make(directory / f"{kind}_{process}.db")


def _make(file: Path) -> None:
    made = file.with_suffix(".new")  # nobody reads a file without its first bytes
    try:
        with made.open("wb") as opened:
            os.posix_fallocate(opened.fileno(), 0, ROOM)
        made.rename(file)
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Keep the files as they are. Several may read them at once."""
    with _locked(directory, fcntl.LOCK_SH):
        yield


def forget(directory: Path) -> None:
    """Delete the files of the workers that have ended. Their counters and histograms are added up in others first.

    While somebody reads the files, or when there is no room, that is left for the next time. Raises no exception: the
    process that calls this is gunicorn's first one, and would end.
    """
    try:
        _forget(directory)
    except Exception as error:  # noqa: BLE001
        logger.warning("the numbers of workers that have ended are not added up: %s", type(error).__name__)


def _forget(directory: Path) -> None:
    ended = [file for file in directory.glob("*.db") if process_of(file) != _TOTAL and _has_ended(process_of(file))]
    counted = [file for file in ended if not file.name.startswith("gauge")]
    for file in {*ended} - {*counted}:
        file.unlink(missing_ok=True)
    with suppress(BlockingIOError), _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
        for file in counted:
            try:
                values = [*MmapedDict.read_all_values_from_file(file)]  # type: ignore[no-untyped-call]
            except Exception as error:  # noqa: BLE001 - a worker can be killed while it writes
                logger.warning("the numbers of a worker that has ended are lost: %s", type(error).__name__)
            else:
                _add_up(values, file.with_name(f"{file.stem.rpartition('_')[0]}_{_TOTAL}.db"))
            file.unlink()


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)  # a signal of no effect
    except OSError:  # also when the id is that of somebody else's process by now
        return True
    return False


def _add_up(values: list[tuple[str, float, float, int]], file: Path) -> None:
    if not file.exists():
        _make(file)
    total = MmapedDict(str(file))  # type: ignore[no-untyped-call]
    for key, value, *_ in values:
        total.write_value(key, total.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]
    total.close()  # type: ignore[no-untyped-call]


@contextmanager
def _locked(directory: Path, operation: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
