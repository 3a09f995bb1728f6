"""What the service writes to standard error, as text and as JSON lines."""

from __future__ import annotations

import json
import logging.config
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from app.logs import RequestLogger, ensure_logging, logging_config
from tests.conftest import MakeApp
from tests.factories import LOG_TIME, make_settings

LEVELS = ["debug", "info", "warning", "error", "critical"]


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Puts logging back to what it was, for it is the whole process's."""
    loggers = [logging.getLogger(name) for name in ("", "app.test", "gunicorn.error", "werkzeug")]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


Configure = Callable[..., None]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def configure(**environ: str) -> None:
        logging.config.dictConfig(logging_config(make_settings(tmp_path / "mail", **environ)))

    return configure


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    def lines() -> list[str]:
        captured = capfd.readouterr()
        assert captured.out == ""
        return captured.err.splitlines()

    return lines


Lines = Callable[[], list[str]]
TEXT_LINE = rf"{LOG_TIME} WARNING app\.test - mensaje número 7"


class TestText:
    @pytest.mark.parametrize("environ", [{}, {"LOG_FORMAT": "text"}], ids=["default", "text"])
    def test_a_line_has_time_level_logger_and_message(
        self, environ: dict[str, str], configure: Configure, lines: Lines
    ) -> None:
        configure(**environ)

        logging.getLogger("app.test").warning("mensaje número %d", 7)

        (line,) = lines()
        assert re.fullmatch(TEXT_LINE, line)


def test_the_lines_of_flasks_own_server_stay_those_of_requests_excepted(configure: Configure, lines: Lines) -> None:
    configure()

    logging.getLogger("werkzeug").info(" * Debugger PIN: %s", "123-456-789")
    logging.getLogger("werkzeug").info(
        '127.0.0.1 - - [now] "%s" %s %s', "GET /?email=ana@example.com HTTP/1.1", "200", "-"
    )

    (line,) = lines()
    assert line.endswith(" * Debugger PIN: 123-456-789")


class TestJson:
    def test_a_line_has_time_level_logger_and_message(self, configure: Configure, lines: Lines) -> None:
        configure(LOG_FORMAT="json")

        logging.getLogger("app.test").warning("mensaje número %d", 7)

        (record,) = map(json.loads, lines())
        assert re.fullmatch(LOG_TIME, record.pop("time"))
        assert record == {"level": "WARNING", "logger": "app.test", "request_id": "-", "message": "mensaje número 7"}

    def test_letters_beyond_ascii_stay_readable(self, configure: Configure, lines: Lines) -> None:
        configure(LOG_FORMAT="json")

        logging.getLogger("app.test").warning("Ñandú")

        assert "Ñandú" in lines()[0]

    def test_a_record_is_one_line_whatever_it_holds(self, configure: Configure, lines: Lines) -> None:
        configure(LOG_FORMAT="json")

        logging.getLogger("app.test").warning('first\nsecond "quoted"')
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("app.test").exception("unforeseen")

        first, second = map(json.loads, lines())
        assert first["message"] == 'first\nsecond "quoted"'
        assert second["message"] == "unforeseen"
        assert "ValueError: broken" in second["exc_info"]


class TestLevel:
    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("logger", ["app.test", "gunicorn.error"])
    def test_what_is_below_it_is_not_written(self, logger: str, level: str, configure: Configure, lines: Lines) -> None:
        configure(LOG_LEVEL=level)

        for name in LEVELS:
            getattr(logging.getLogger(logger), name)("%s", name)

        # gunicorn's debug lines show what a client asked for.
        lowest = "info" if (logger, level) == ("gunicorn.error", "debug") else level
        assert [line.rpartition(" ")[2] for line in lines()] == LEVELS[LEVELS.index(lowest) :]


@pytest.mark.parametrize("log_format", ["text", "json"])
class TestTheServersOwnLines:
    def test_they_go_the_same_way_and_once(self, log_format: str, configure: Configure, lines: Lines) -> None:
        configure(LOG_FORMAT=log_format)

        logging.getLogger("app.test").info("Listening")
        logging.getLogger("gunicorn.error").info("Listening")

        ours, theirs = lines()
        assert re.sub(LOG_TIME, "", theirs) == re.sub(LOG_TIME, "", ours.replace("app.test", "gunicorn.error"))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_line_of_a_request_has_the_form_of_all_others(
    log_format: str, configure: Configure, lines: Lines, tmp_path: Path
) -> None:
    configure(LOG_FORMAT=log_format)
    parts = {"method": "GET", "status": 200}

    logging.getLogger("app.test").info("GET ñ 200", extra=parts)
    settings = make_settings(tmp_path / "mail", LOG_FORMAT=log_format)
    RequestLogger("app.test", "%s ñ %s", ["method", "status"], settings).write("-", ("GET", 200))

    ours, theirs = (re.sub(LOG_TIME, "now", line) for line in lines())
    assert ours == theirs
    assert "now" in ours


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


# Each at a second of its own, because the form of one second is kept.
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
    configure: Configure,
    lines: Lines,
    tmp_path: Path,
    travel: Callable[[str, str], None],
    log_format: str,
    now: str,
    zone: str,
    shown: str,
) -> None:
    configure(LOG_FORMAT=log_format)
    travel(now, zone)

    logging.getLogger("app.test").warning("ready")
    RequestLogger("app.test", "ready", [], make_settings(tmp_path / "mail", LOG_FORMAT=log_format)).write("-", ())

    assert [json.loads(line)["time"] if log_format == "json" else line.split()[0] for line in lines()] == [shown] * 2


class TestEnsureLogging:
    def test_it_configures_a_process_that_nobody_has(self, tmp_path: Path, lines: Lines) -> None:
        logging.getLogger().handlers.clear()

        ensure_logging(make_settings(tmp_path / "mail", LOG_FORMAT="json"))
        logging.getLogger("app.test").warning("ready")

        assert json.loads(lines()[0])["message"] == "ready"

    def test_it_leaves_the_servers_configuration_alone(
        self, tmp_path: Path, configure: Configure, lines: Lines
    ) -> None:
        configure(LOG_FORMAT="text")

        ensure_logging(make_settings(tmp_path / "mail", LOG_FORMAT="json"))
        logging.getLogger("app.test").warning("mensaje número %d", 7)

        assert re.fullmatch(TEXT_LINE, lines()[0])


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

    assert ("app.logs", level, line.format(tmp_path=tmp_path)) in [
        (record.name, record.levelname, record.getMessage()) for record in caplog.records
    ]
