"""The files in which workers leave their numbers. gunicorn.conf.py gives each worker its files after the fork.

They are those of prometheus_client's multiprocess mode, named by the worker's seat in place of its process id. A new
worker takes the first free seat and counts on in its files. So there are only files for as many as live at once.
"""

import fcntl
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

ROOM = 128 * 1024
"""Bytes of a file. All values that the metrics can have take less than 80 KB in one, so none grows."""

_KINDS = ("counter", "histogram", "gauge_livemostrecent", "gauge_livemin", "gauge_livesum", "gauge_liveall")


def take_seat(directory: Path) -> None:
    """Let the metrics of this process have their values in the files of a free seat, until it ends; raises OSError.

    The files have room for all that is written. The kernel would end a process that uses a part without any.
    """
    seat = next(seat for seat in count() if _lock(directory / f"seat_{seat}") is not None)
    mark_process_dead(seat, str(directory))  # type: ignore[no-untyped-call]
    for kind in _KINDS:
        file = directory / f"{kind}_{seat}.db"
        made = file.with_suffix(".new")  # nobody reads a file without its first bytes
        if not file.exists():
            with made.open("wb") as opened:
                os.posix_fallocate(opened.fileno(), 0, ROOM)
            made.rename(file)
    values.ValueClass = values.MultiProcessValue(lambda: seat)  # type: ignore[no-untyped-call]


def clear_free_seats(directory: Path) -> None:
    """Remove the gauges of the workers that have ended. What they have counted stays. Raises no OSError."""
    for seat in directory.glob("seat_*"):
        with suppress(OSError):
            if (lock := _lock(seat)) is not None:
                mark_process_dead(seat.name.removeprefix("seat_"), str(directory))  # type: ignore[no-untyped-call]
                os.close(lock)


def _lock(seat: Path) -> int | None:
    """A descriptor that holds the seat until it is closed or the process ends; None when another one holds it."""
    descriptor = os.open(seat, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
