"""The seats of the workers: each has files of its own, the next one counts on in them, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.multiprocess import MultiProcessCollector

from app.metrics.files import ROOM, clear_free_seats

ROOT = Path(__file__).parents[2]

WORKER = """
import errno, os, signal, sys
from pathlib import Path
from app.metrics import files
from prometheus_client import Counter, Gauge

directory = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])

def seated():
    files.take_seat(directory)
    forms = Counter("forms", "Forms.", registry=None)
    return forms, Gauge("open", "Open.", multiprocess_mode="livesum", registry=None)

def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")

def until_told():
    print("ready", flush=True)
    sys.stdin.read()
"""
"""What comes before the scripts below, each of which is a process of its own, as a worker is."""

COUNT = "forms, opened = seated(); forms.inc(); opened.inc(); "


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return tmp_path


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", WORKER + script], cwd=ROOT, check=True, timeout=120)


@pytest.fixture
def living() -> Iterator[ExitStack]:
    """Ends the workers that a test has started."""
    with ExitStack() as stack:
        yield stack


def start(living: ExitStack, script: str = COUNT + "until_told()") -> subprocess.Popen[bytes]:
    """A worker that is ready, and waits until it is told to end."""
    command = [sys.executable, "-c", WORKER + script]
    worker = living.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    living.callback(worker.kill)
    assert worker.stdout
    assert worker.stdout.readline() == b"ready\n"
    return worker


def shown() -> dict[str, float]:
    collector = MultiProcessCollector(None)  # type: ignore[no-untyped-call]
    metrics = collector.collect()  # type: ignore[no-untyped-call]
    return {sample.name: sample.value for metric in metrics for sample in metric.samples}


def seats(directory: Path, kind: str = "counter") -> set[str]:
    return {file.stem.rpartition("_")[2] for file in directory.glob(f"{kind}_*.db")}


def test_a_worker_counts_on_where_the_one_before_it_has_ended(directory: Path) -> None:
    for _ in range(3):
        run(COUNT)

    assert shown() == {"forms_total": 3, "open": 1}
    assert seats(directory) == {"0"}


def test_workers_that_live_at_once_have_files_of_their_own(directory: Path, living: ExitStack) -> None:
    for _ in range(3):
        start(living)

    assert shown() == {"forms_total": 3, "open": 3}
    assert seats(directory) == {"0", "1", "2"}


def test_workers_that_begin_at_the_same_moment_have_files_of_their_own(directory: Path, living: ExitStack) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start, [living] * 6))

    assert shown() == {"forms_total": 6, "open": 6}
    assert seats(directory) == set("012345")


def test_a_worker_that_is_killed_leaves_its_seat(directory: Path, living: ExitStack) -> None:
    first, _ = start(living), start(living)
    first.send_signal(signal.SIGKILL)
    first.wait()

    start(living)

    assert shown() == {"forms_total": 3, "open": 2}
    assert seats(directory) == {"0", "1"}


def test_the_state_of_a_worker_that_has_ended_goes_and_what_it_has_counted_stays(
    directory: Path, living: ExitStack
) -> None:
    run(COUNT)
    clear_free_seats(directory)
    assert shown() == {"forms_total": 1}

    start(living)
    clear_free_seats(directory)

    assert shown() == {"forms_total": 2, "open": 1}
    assert seats(directory, "gauge_livesum") == {"0"}


def test_a_worker_knows_nothing_of_the_state_of_the_one_before_it() -> None:
    """gunicorn may start it before it hears of the end of that one."""
    run(COUNT + "opened.inc(5)")

    run("seated()")

    assert shown() == {"forms_total": 1, "open": 0}


def test_the_files_do_not_grow_with_the_workers_that_have_ended(directory: Path) -> None:
    """Each new worker begins before the one before it ends, as in a reload."""
    run("""
seated_end, seated_begin = os.pipe()
before = None
for number in range(100):
    if not (child := os.fork()):
        forms, opened = seated()
        forms.inc()
        os.write(seated_begin, b"x")
        signal.pause()
    os.read(seated_end, 1)
    if before:
        os.kill(before, signal.SIGKILL)
        os.waitpid(before, 0)
        files.clear_free_seats(directory)
    before = child
os.kill(before, signal.SIGKILL)
""")

    assert shown()["forms_total"] == 100
    assert seats(directory) <= {"0", "1"}
    assert len([*directory.iterdir()]) <= 2 * 7


def test_a_worker_that_is_killed_while_it_counts_harms_no_number(living: ExitStack) -> None:
    before = 0.0
    for _ in range(10):
        script = "forms, opened = seated()\nprint('ready', flush=True)\nwhile True: forms.inc()"
        worker = start(living, script)
        assert shown()["forms_total"] >= before
        worker.kill()
        worker.wait()
        before = shown()["forms_total"]


def test_the_files_have_room_for_all_that_is_written(directory: Path) -> None:
    run(COUNT)

    made = [*directory.glob("*.db")]
    assert len(made) == 6
    for file in made:
        status = file.stat()
        assert status.st_size == ROOM <= status.st_blocks * 512


def test_on_a_full_disk_a_seat_is_left_for_the_next_one_and_no_file_is_half_made(directory: Path) -> None:
    run("""
os.posix_fallocate = full
try:
    files.take_seat(directory)
except OSError as error:
    sys.exit(error.errno != errno.ENOSPC)
sys.exit(1)
""")
    assert [*directory.glob("*.db")] == []

    run(COUNT)

    assert shown() == {"forms_total": 1, "open": 1}
    assert seats(directory) == {"0"}


def test_whatever_happened_to_the_files_gunicorn_goes_on(directory: Path) -> None:
    run(COUNT)
    (directory / "seat_1").mkdir()
    clear_free_seats(directory)
    assert shown() == {"forms_total": 1}

    clear_free_seats(directory / "missing")
