"""What the service writes to standard error, as text and as JSON lines."""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import TracebackType

import pytest
from flask import Flask

from app.logs import drop_exception_text, ensure_logging
from tests.conftest import Configure, LogLines, MakeApp
from tests.factories import LOG_TIME, make_settings

LEVELS = ["debug", "info", "warning", "error", "critical"]
ID = "f" * 32
TYPED = "ana@example.com"

LINES: dict[str, tuple[str, str, tuple[object, ...], dict[str, str]]] = {
    "letters beyond ASCII and arguments": ("app.test", "mensaje número %d", (7,), {}),
    "of gunicorn": ("gunicorn.error", "Listening", (), {}),
    "of Flask's own server": ("werkzeug", " * Running", (), {}),
    "of a request": ("app.test", "answered", (), {"request_id": ID}),
    "several lines and quotes": ("app.test", 'first\n"second" \\', (), {}),
}
"""Loggers and what they are told."""


@pytest.mark.parametrize("log_format", ["", "text", "json"])
@pytest.mark.parametrize(("logger", "message", "arguments", "extra"), LINES.values(), ids=LINES)
def test_a_line_has_time_level_logger_request_and_message(
    configure_logging: Configure,
    log_lines: LogLines,
    log_format: str,
    logger: str,
    message: str,
    arguments: tuple[object, ...],
    extra: dict[str, str],
) -> None:
    configure_logging(LOG_FORMAT=log_format)

    logging.getLogger(logger).warning(message, *arguments, extra=extra)

    output, text = "\n".join(log_lines()), message % arguments
    parts = {"level": "WARNING", "logger": logger, "request_id": "-"} | extra
    if log_format == "json":
        written = json.loads(output)  # no string of JSON has a line break in it
        assert re.fullmatch(LOG_TIME, written.pop("time"))
        assert written == parts | {"message": text}
        assert json.dumps(text, ensure_ascii=False) in output  # readable without a decoder
    else:
        assert re.fullmatch(f"{LOG_TIME} {re.escape(' '.join([*parts.values(), text]))}", output)


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("werkzeug", '127.0.0.1 - - [now] "%s" %s %s'),
        ("werkzeug", "127.0.0.1 - - [now] code %d, message %s"),
        ("gunicorn.access", "GET /?email=ana@example.com"),
        ("flask_cors", "Request to 'ana@example.com' matches"),
    ],
)
def test_the_lines_of_others_that_quote_a_visitor_are_not_written(
    configure_logging: Configure, log_lines: LogLines, logger: str, message: str
) -> None:
    logging.getLogger(logger).setLevel(logging.NOTSET)
    configure_logging(LOG_LEVEL="debug")

    logging.getLogger(logger).info(message, *(message.count("%") * (5,)))

    assert log_lines() == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("logger", ["app.test", "gunicorn.error"])
def test_what_is_below_the_level_is_not_written(
    configure_logging: Configure, log_lines: LogLines, logger: str, level: str
) -> None:
    configure_logging(LOG_LEVEL=level)

    for name in LEVELS:
        getattr(logging.getLogger(logger), name)("%s", name)

    # gunicorn's debug lines show what a client asked for.
    lowest = "info" if (logger, level) == ("gunicorn.error", "debug") else level
    assert [line.rpartition(" ")[2] for line in log_lines()] == LEVELS[LEVELS.index(lowest) :]


def failure() -> tuple[type[BaseException], BaseException, TracebackType | None]:
    try:
        raise ValueError(TYPED) from KeyError(TYPED)
    except ValueError as error:
        error.add_note(TYPED)
        return type(error), error, error.__traceback__


@pytest.mark.parametrize("message", ["Exception on %s [GET]", "Error handling request %s"])
@pytest.mark.parametrize(("path", "endpoint"), [("", "None"), (f"/rooms/{TYPED}", "room")])
def test_of_an_exception_class_endpoint_and_place_stay_and_no_text(message: str, path: str, endpoint: str) -> None:
    """Its text, and the messages of Flask and gunicorn, can quote a visitor."""
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, message, (TYPED,), failure())
    app = Flask(__name__)
    app.add_url_rule("/rooms/<name>", endpoint="room")

    with app.test_request_context(path) if path else nullcontext():
        assert drop_exception_text(record)

    line = logging.Formatter().format(record)
    assert line.startswith(f"unhandled ValueError in {endpoint}\n")
    assert "test_logs.py" in line
    assert "in failure" in line
    assert TYPED not in line


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
    "three quarters ahead": ("2026-11-22T23:36:24", "Asia/Kathmandu", "2026-11-23T05:21:24.000+05:45"),
    "half an hour behind": ("2026-11-22T01:36:25.999", "America/St_Johns", "2026-11-21T22:06:25.999-03:30"),
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


@pytest.mark.parametrize("is_configured", [False, True])
def test_a_server_that_has_configured_the_log_keeps_its_own(
    tmp_path: Path, configure_logging: Configure, log_lines: LogLines, *, is_configured: bool
) -> None:
    configure_logging(LOG_FORMAT="text")
    if not is_configured:
        logging.getLogger().handlers.clear()

    ensure_logging(make_settings(tmp_path / "mail", LOG_FORMAT="json"))
    logging.getLogger("app.test").warning("ready")

    assert log_lines()[0].startswith("{") is not is_configured


SERVER = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": "9", "SALES_EMAIL": "v@example.com", "MAIL_FROM": "w@example.com"}
STARTS: dict[str, tuple[dict[str, str], str, str]] = {
    "a folder": ({}, "WARNING", "SMTP_HOST is not set: messages are stored in {}/mail and not sent"),
    "a mail server": (SERVER, "INFO", "messages are sent through 127.0.0.1:9"),
}


@pytest.mark.parametrize(("environ", "level", "line"), STARTS.values(), ids=STARTS)
def test_the_log_says_at_start_where_messages_go(
    make_app: MakeApp, tmp_path: Path, caplog: pytest.LogCaptureFixture, environ: dict[str, str], level: str, line: str
) -> None:
    caplog.set_level(logging.INFO)

    make_app(collaborators={"mailer": None}, first_check=0, **environ)

    said = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert ("app.mail.mailer", level, line.format(tmp_path)) in said
