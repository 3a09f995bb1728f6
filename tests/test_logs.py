"""What the service writes to standard error, as text and as JSON lines."""

from __future__ import annotations

import json
import logging.config
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.logs import MAX_WAITING, ensure_logging
from tests.conftest import Configure, LogLines, MakeApp
from tests.factories import LOG_TIME, make_settings

ROOT = Path(__file__).parents[1]
LEVELS = ["debug", "info", "warning", "error", "critical"]


TEXT_LINE = rf"{LOG_TIME} WARNING app\.test - mensaje número 7"


class TestText:
    @pytest.mark.parametrize("environ", [{}, {"LOG_FORMAT": "text"}], ids=["default", "text"])
    def test_a_line_has_time_level_logger_and_message(
        self, environ: dict[str, str], configure_logging: Configure, log_lines: LogLines
    ) -> None:
        configure_logging(**environ)

        logging.getLogger("app.test").warning("mensaje número %d", 7)

        (line,) = log_lines()
        assert re.fullmatch(TEXT_LINE, line)


def test_the_lines_of_flasks_own_server_stay_those_of_requests_excepted(
    configure_logging: Configure, log_lines: LogLines
) -> None:
    configure_logging()

    logging.getLogger("werkzeug").info(" * Debugger PIN: %s", "123-456-789")
    logging.getLogger("werkzeug").info(
        '127.0.0.1 - - [now] "%s" %s %s', "GET /?email=ana@example.com HTTP/1.1", "200", "-"
    )

    (line,) = log_lines()
    assert line.endswith(" * Debugger PIN: 123-456-789")


class TestJson:
    def test_a_line_has_time_level_logger_and_message(self, configure_logging: Configure, log_lines: LogLines) -> None:
        configure_logging(LOG_FORMAT="json")

        logging.getLogger("app.test").warning("mensaje número %d", 7)

        (record,) = map(json.loads, log_lines())
        assert re.fullmatch(LOG_TIME, record.pop("time"))
        assert record == {"level": "WARNING", "logger": "app.test", "request_id": "-", "message": "mensaje número 7"}

    def test_letters_beyond_ascii_stay_readable(self, configure_logging: Configure, log_lines: LogLines) -> None:
        configure_logging(LOG_FORMAT="json")

        logging.getLogger("app.test").warning("Ñandú")

        assert "Ñandú" in log_lines()[0]

    def test_a_record_is_one_line_whatever_it_holds(self, configure_logging: Configure, log_lines: LogLines) -> None:
        configure_logging(LOG_FORMAT="json")

        logging.getLogger("app.test").warning('first\nsecond "quoted"')
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("app.test").exception("unforeseen")

        first, second = map(json.loads, log_lines())
        assert first["message"] == 'first\nsecond "quoted"'
        assert second["message"] == "unforeseen"
        assert "ValueError: broken" in second["exc_info"]


class TestLevel:
    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("logger", ["app.test", "gunicorn.error"])
    def test_what_is_below_it_is_not_written(
        self, logger: str, level: str, configure_logging: Configure, log_lines: LogLines
    ) -> None:
        configure_logging(LOG_LEVEL=level)

        for name in LEVELS:
            getattr(logging.getLogger(logger), name)("%s", name)

        # gunicorn's debug lines show what a client asked for.
        lowest = "info" if (logger, level) == ("gunicorn.error", "debug") else level
        assert [line.rpartition(" ")[2] for line in log_lines()] == LEVELS[LEVELS.index(lowest) :]


@pytest.mark.parametrize("log_format", ["text", "json"])
class TestTheServersOwnLines:
    def test_they_go_the_same_way_and_once(
        self, log_format: str, configure_logging: Configure, log_lines: LogLines
    ) -> None:
        configure_logging(LOG_FORMAT=log_format)

        logging.getLogger("app.test").info("Listening")
        logging.getLogger("gunicorn.error").info("Listening")

        ours, theirs = log_lines()
        assert re.sub(LOG_TIME, "", theirs) == re.sub(LOG_TIME, "", ours.replace("app.test", "gunicorn.error"))


@pytest.fixture
def travel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Gives the process a time, in UTC, and a time zone, until the test is over."""

    def travel(now: str, zone: str) -> None:
        seconds = datetime.fromisoformat(f"{now}+00:00").timestamp()
        monkeypatch.setattr(time, "time", lambda: seconds)  # freezegun does not know the hour that comes twice
        monkeypatch.setattr(time, "time_ns", lambda: round(seconds * 1e6) * 1000)  # logging's, from Python 3.13 on
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield travel
    monkeypatch.undo()
    time.tzset()


TIMES = {
    "UTC": ("2026-11-22T12:36:22.123", "UTC", "2026-11-22T12:36:22.123+00:00"),
    "half an hour ahead": ("2026-11-22T23:36:23.007", "Asia/Kolkata", "2026-11-23T05:06:23.007+05:30"),
    "three quarters ahead": ("2026-11-22T12:36:24", "Asia/Kathmandu", "2026-11-22T18:21:24.000+05:45"),
    "half an hour behind": ("2026-11-22T01:36:25.999", "America/St_Johns", "2026-11-21T22:06:25.999-03:30"),
    "the same in summer": ("2026-07-22T12:36:26.1", "America/St_Johns", "2026-07-22T10:06:26.100-02:30"),
    "less than an hour behind": ("2026-11-22T12:36:27.5", "<-0045>+00:45", "2026-11-22T11:51:27.500-00:45"),
    "the hour that comes twice": ("2026-10-25T00:59:59.9995", "Europe/Madrid", "2026-10-25T02:59:59.999+02:00"),
    "and its second time": ("2026-10-25T01:00:00", "Europe/Madrid", "2026-10-25T02:00:00.000+01:00"),
}


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(("now", "zone", "shown"), TIMES.values(), ids=TIMES)
def test_a_time_has_milliseconds_and_the_offset_of_its_zone(
    configure_logging: Configure,
    log_lines: LogLines,
    travel: Callable[[str, str], None],
    log_format: str,
    now: str,
    zone: str,
    shown: str,
) -> None:
    configure_logging(LOG_FORMAT=log_format)
    travel(now, zone)

    logging.getLogger("app.test").warning("ready")

    (line,) = log_lines()
    assert (json.loads(line)["time"] if log_format == "json" else line.split()[0]) == shown


@pytest.mark.usefixtures("configure_logging")
class TestEnsureLogging:
    def test_it_configures_a_process_that_nobody_has(self, tmp_path: Path, log_lines: LogLines) -> None:
        logging.getLogger().handlers.clear()

        ensure_logging(make_settings(tmp_path / "mail", LOG_FORMAT="json"))
        logging.getLogger("app.test").warning("ready")

        assert json.loads(log_lines()[0])["message"] == "ready"

    def test_it_leaves_the_servers_configuration_alone(
        self, tmp_path: Path, configure_logging: Configure, log_lines: LogLines
    ) -> None:
        configure_logging(LOG_FORMAT="text")

        ensure_logging(make_settings(tmp_path / "mail", LOG_FORMAT="json"))
        logging.getLogger("app.test").warning("mensaje número %d", 7)

        assert re.fullmatch(TEXT_LINE, log_lines()[0])


def test_what_is_no_text_is_written_all_the_same(configure_logging: Configure, log_lines: LogLines) -> None:
    configure_logging()

    logging.getLogger("app.test").warning("años %s", "\ud800")

    assert log_lines()[0].endswith(" años \\ud800")


def test_a_line_keeps_the_request_id_that_it_brings(configure_logging: Configure, log_lines: LogLines) -> None:
    configure_logging()

    logging.getLogger("app.test").info("answered", extra={"request_id": "f" * 32})

    assert log_lines()[0].endswith(f" app.test {'f' * 32} answered")


LOGGING = """
import atexit, fcntl, logging.config, os, sys, threading, time
from app.logs import MAX_WAITING, logging_config
from app.settings import Settings

logging.config.dictConfig(logging_config(Settings.from_env({})))
logger = logging.getLogger("app.test")

def log_much():
    for number in range(2 * MAX_WAITING):
        logger.info("number %d", number)

"""
"""What comes before the scripts below, each of which is a process of its own."""


def run(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """What the script leaves behind. Its standard error is a pipe that is read."""
    command = [sys.executable, "-c", LOGGING + script]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, cwd=ROOT, text=True, timeout=60, check=False, **piped)


def numbers(log: str) -> list[int]:
    return [int(said) for said in re.findall(r"number (\d+)$", log, re.MULTILINE)]


ENDS = {
    "end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "exception": ("raise RuntimeError", 1),
    "atexit": ("atexit.register(logger.info, 'number 5000')", 0),
    "a thread that goes on": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", 0),
}


@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_what_is_logged_before_the_end_of_a_process_is_written(end: str, status: int) -> None:
    ended = run(f"for number in range(5000): logger.info('number %d', number)\n{end}")

    assert ended.returncode == status
    assert numbers(ended.stderr) == list(range(5001 if "5000" in end else 5000))


def test_the_lines_of_many_threads_are_whole() -> None:
    ended = run("""
def log(number):
    for _ in range(50):
        logger.info("%s", str(number) * 10_000)

threads = [threading.Thread(target=log, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""")

    logged = Counter(line.rpartition(" ")[2] for line in ended.stderr.splitlines())
    assert logged == {str(number) * 10_000: 50 for number in range(8)}


def test_each_process_writes_its_own_lines_once() -> None:
    ended = run("""
for number in range(1000):
    logger.info("number %d", number)
child = os.fork()
for number in range(1000, 2000):
    logger.info("number %d of %s", number, "parent" if child else "child")
if child:
    os.waitpid(child, 0)
""")

    assert numbers(ended.stderr) == list(range(1000))
    for process in ("parent", "child"):
        logged = [int(said) for said in re.findall(rf"number (\d+) of {process}$", ended.stderr, re.MULTILINE)]
        assert logged == list(range(1000, 2000))


def test_a_child_that_logs_nothing_does_not_wait_at_its_end() -> None:
    ended = run("""
wait = threading.Event.wait
threading.Event.wait = lambda event, seconds: wait(event, 600 * seconds)  # longer than the test may take
logger.info("begun")
if child := os.fork():
    sys.exit(os.waitpid(child, 0)[1])
""")

    assert ended.returncode == 0


def test_a_new_configuration_ends_the_thread_of_the_one_before() -> None:
    """gunicorn's first process reads it anew in each reload."""
    ended = run("""
for number in range(5):
    logging.config.dictConfig(logging_config(Settings.from_env({})))
    logger.info("number %d", number)
while threading.active_count() > 2:
    time.sleep(0.01)
""")

    assert ended.returncode == 0
    assert numbers(ended.stderr) == list(range(5))


@pytest.fixture(params=["pipe", "socket"])
def unread(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The two ends of what nobody reads: of a pipe, or of a socket as systemd gives a service one of the journal."""
    if request.param == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_log_that_nobody_reads_stops_no_thread_and_no_process(unread: tuple[int, int]) -> None:
    _, writing = unread

    ended = run("log_much()\natexit.register(print, time.monotonic())", stderr=writing)

    assert ended.returncode == 0
    assert time.monotonic() - float(ended.stdout) < 5


def test_lines_that_nobody_reads_are_dropped_and_counted_and_this_is_said_once_a_minute(
    unread: tuple[int, int],
) -> None:
    reading, writing = unread
    ended = run(
        f"""
handler, = logging.getLogger().handlers
monotonic = time.monotonic

def read_all():
    read = bytearray()
    while not read.endswith(b" until here\\n"):
        read.extend(os.read({reading}, 1 << 20))
    print(read.decode(), end="")

def log_until_dropped_and_read():
    logger.info("%s", "more than a pipe or a socket holds" * 30_000)
    while handler.queue.qsize():
        time.sleep(0.01)
    log_much()
    reader = threading.Thread(target=read_all)
    reader.start()
    while handler.queue.qsize():
        time.sleep(0.01)
    logger.info("read again")
    logger.info("until here")
    reader.join()

log_until_dropped_and_read()
log_until_dropped_and_read()
time.monotonic = lambda: monotonic() + 61
log_until_dropped_and_read()
""",
        stderr=writing,
        pass_fds=(reading,),
    )

    log = re.sub(rf"{LOG_TIME} ", "", ended.stdout)
    first, second, third, rest = log.split("INFO app.test - until here\n")
    dropped = [2 * MAX_WAITING - len(numbers(part)) for part in (first, second, third)]
    assert dropped == [MAX_WAITING, MAX_WAITING, MAX_WAITING]
    said = "WARNING app.logs - standard error was not read: {} lines have been dropped since the start\n"
    assert rest == ""
    assert numbers(first) == sorted(numbers(first))
    assert first.endswith(said.format(dropped[0]) + "INFO app.test - read again\n")
    assert "dropped" not in second
    assert third.count("dropped") == 1
    assert third.startswith(said.format(sum(dropped[:2])))


def test_a_line_that_is_not_taken_at_once_is_written_in_parts() -> None:
    """Who gives the service its standard error may have told the pipe that nobody waits for it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    read = bytearray()

    def read_slowly() -> None:
        while some := os.read(reading, 4096):
            read.extend(some)
            time.sleep(0.001)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    run("for letter in 'ab': logger.info('%s', letter * 200_000)", stderr=writing)
    os.close(writing)
    reader.join()
    os.close(reading)

    assert [line.rpartition(" ")[2] for line in read.decode().splitlines()] == ["a" * 200_000, "b" * 200_000]


NOT_WRITABLE = {
    "full disk": "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
    "closed": "os.close(2)",
    "nobody at the other end": "ends = os.pipe(); os.dup2(ends[1], 2); os.close(ends[0])",
}


@pytest.mark.parametrize("descriptor", NOT_WRITABLE.values(), ids=NOT_WRITABLE)
def test_a_log_that_cannot_be_written_stops_nobody(descriptor: str) -> None:
    ended = run(f"{descriptor}\nlog_much()\natexit.register(print, time.monotonic())")

    assert ended.returncode == 0
    assert time.monotonic() - float(ended.stdout) < 5


def test_a_regular_file_has_all_lines(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        run("for number in range(5000): logger.info('number %d', number)", stderr=log)

    assert numbers((tmp_path / "log").read_text()) == list(range(5000))


@pytest.mark.parametrize(
    ("environ", "level", "line"),
    [
        ({}, "WARNING", "SMTP_HOST is not set: messages are stored in {tmp_path}/mail and not sent"),
        (
            {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": "9", "SALES_EMAIL": "v@example.com", "MAIL_FROM": "w@example.com"},
            "INFO",
            "messages are sent through 127.0.0.1:9",
        ),
    ],
    ids=["a folder", "a mail server"],
)
def test_the_log_says_at_start_where_messages_go(
    make_app: MakeApp, tmp_path: Path, caplog: pytest.LogCaptureFixture, environ: dict[str, str], level: str, line: str
) -> None:
    caplog.set_level(logging.INFO)

    make_app(collaborators={"mailer": None}, first_check=0, **environ)

    assert ("app.mail.mailer", level, line.format(tmp_path=tmp_path)) in [
        (record.name, record.levelname, record.getMessage()) for record in caplog.records
    ]
