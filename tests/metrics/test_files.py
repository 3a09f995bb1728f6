"""The files of the workers: those of workers that have ended are added up, and nothing is counted twice or lost."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

from app.metrics.files import ROOM, forget, make, reading

LIVING = os.getpid()
ENDED = 1 << 22
"""No process of Linux has this id or a higher one."""


def write(directory: Path, kind: str, process: int, **values: float) -> Path:
    """Write a file as a worker does: the value of a metric by the value of its label."""
    file = directory / f"{kind}_{process}.db"
    numbers = MmapedDict(str(file))  # type: ignore[no-untyped-call]
    for label, value in values.items():
        key = json.dumps(["forms", "forms_total", {"kind": label}, "Forms."], sort_keys=True)
        numbers.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]
    numbers.close()  # type: ignore[no-untyped-call]
    return file


def shown(directory: Path) -> dict[str, float]:
    collector = MultiProcessCollector(None, str(directory))  # type: ignore[no-untyped-call]
    (metric,) = collector.collect()  # type: ignore[no-untyped-call]
    return {sample.labels["kind"]: sample.value for sample in metric.samples}


def names(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir()}


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_ended_workers_have_counted_is_added_up_in_one_file(tmp_path: Path, rounds: int) -> None:
    write(tmp_path, "counter", LIVING, demo=1)
    for number in range(rounds):
        write(tmp_path, "counter", ENDED + number, demo=2, ventas=3)
        write(tmp_path, "counter", ENDED + 10 + number, ventas=4)

        forget(tmp_path)

    assert names(tmp_path) == {"counter_0.db", f"counter_{LIVING}.db"}
    assert shown(tmp_path) == {"demo": 1 + 2 * rounds, "ventas": 7 * rounds}


def test_the_state_of_an_ended_worker_goes(tmp_path: Path) -> None:
    write(tmp_path, "gauge_livesum", LIVING, demo=1)
    write(tmp_path, "gauge_livesum", ENDED, demo=5)

    forget(tmp_path)

    assert names(tmp_path) == {f"gauge_livesum_{LIVING}.db"}


def test_an_id_that_another_user_has_now_is_no_worker_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    write(tmp_path, "gauge_livesum", LIVING, demo=1)

    forget(tmp_path)

    assert names(tmp_path) == set()


def test_nothing_is_added_up_while_somebody_reads(tmp_path: Path) -> None:
    write(tmp_path, "counter", ENDED, demo=2)
    with reading(tmp_path), reading(tmp_path):
        forget(tmp_path)
        assert names(tmp_path) == {f"counter_{ENDED}.db"}

    forget(tmp_path)

    assert names(tmp_path) == {"counter_0.db"}
    assert shown(tmp_path) == {"demo": 2}


@pytest.mark.parametrize("content", [b"", b"\0\0", b"\xff\0\0\0" + b"\xff" * 100], ids=["empty", "cut", "other bytes"])
def test_a_file_that_cannot_be_read_goes_and_harms_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / f"counter_{ENDED + 1}.db").write_bytes(content)
    write(tmp_path, "counter", ENDED, demo=2)

    with caplog.at_level(logging.WARNING):
        forget(tmp_path)

    assert names(tmp_path) == {"counter_0.db"}
    assert shown(tmp_path) == {"demo": 2}
    assert len(caplog.records) == 1


def test_files_are_made_with_room_for_all_that_is_written(tmp_path: Path) -> None:
    make(tmp_path, LIVING)

    write(tmp_path, "counter", LIVING, demo=1)

    assert shown(tmp_path) == {"demo": 1}
    assert len(names(tmp_path)) == 6
    for file in tmp_path.iterdir():
        status = file.stat()
        assert status.st_size == ROOM <= status.st_blocks * 512


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    return monkeypatch


@pytest.mark.usefixtures("full")
def test_on_a_full_disk_nothing_is_left_half_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        make(tmp_path, LIVING)

    assert names(tmp_path) == set()


def test_on_a_full_disk_the_numbers_stay_where_they_are_until_there_is_room(
    tmp_path: Path, full: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "counter", ENDED, demo=2)
    forget(tmp_path)
    assert shown(tmp_path) == {"demo": 2}
    full.undo()

    forget(tmp_path)

    assert names(tmp_path) == {"counter_0.db"}
    assert shown(tmp_path) == {"demo": 2}


def test_whatever_happened_to_the_files_gunicorn_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "no-number.db").touch()
    forget(tmp_path)
    shutil.rmtree(tmp_path)
    forget(tmp_path)

    assert [record.args for record in caplog.records] == [("ValueError",), ("FileNotFoundError",)]
