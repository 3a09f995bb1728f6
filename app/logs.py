"""Logging: one handler to standard error, as text or as JSON lines."""

from __future__ import annotations

import logging
import logging.config
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import click
from flask import has_request_context, request
from flask.cli import ScriptInfo

from app.settings import Settings
from app.stderr import standard_error

logger = logging.getLogger(__name__)

_LINE = "{time} {levelname} {name} {request_id} {message}"

_FORMATTERS: dict[str, dict[str, Any]] = {
    "text": {"format": _LINE, "style": "{"},
    "json": {
        "()": "pythonjsonlogger.json.JsonFormatter",
        "fmt": _LINE,
        "style": "{",
        "rename_fields": {"levelname": "level", "name": "logger"},
        "json_ensure_ascii": False,
    },
}
"""The formatters for logging.config.dictConfig, by LOG_FORMAT."""


class RequestIdFilter(logging.Filter):
    """Puts the id of the request that the current thread serves into a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record through with its id."""
        record.request_id = getattr(request, "id", "-") if has_request_context() else "-"
        return True


def add_time(record: logging.LogRecord) -> bool:
    """A filter for handlers: puts the time of a log record into it, in the form of RFC 3339."""
    record.time = _rfc3339(record.created)
    return True


def logging_config(settings: Settings) -> dict[str, Any]:
    """The configuration for logging.config.dictConfig; gunicorn's own lines go the same way."""
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": _FORMATTERS[settings.log_format]},
        "filters": {"request_id": {"()": RequestIdFilter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": standard_error,
                "formatter": "line",
                "filters": ["request_id", add_time],
            },
        },
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # Its debug lines show the targets of requests, which can hold personal data.
            "gunicorn.error": {"level": "INFO" if level == "DEBUG" else level, "propagate": True},
            # gunicorn's access log shows addresses and what a visitor typed. Named here, it loses the handlers that
            # gunicorn's own options give it. The service writes a line of its own for each request.
            "gunicorn.access": {"level": "CRITICAL"},
            "werkzeug": {"filters": [drop_request_line]},
        },
    }


class RequestLogger:
    """Writes the line of each request in the form of all other lines, but without ``logging``.

    To log one line with ``logging`` takes longer than all other work for a GET.
    """

    def __init__(self, name: str, message: str, parts: Sequence[str], settings: Settings) -> None:
        """``message`` has a %s for each of its parts, whose names are those in JSON."""
        self.enabled = settings.log_level in ("debug", "info")
        """False where nothing is to be written."""
        self._line = {"name": name, "levelname": "INFO", "msg": message}
        self._parts = parts
        self._text = _LINE.format(time="%s", levelname="INFO", name=name, request_id="%s", message=message) + "\n"
        self._formatter = None
        if settings.log_format == "json":
            self._formatter = logging.config.DictConfigurator({}).configure_formatter(dict(_FORMATTERS["json"]))

    def write(self, request_id: str, values: tuple[object, ...]) -> None:
        """Write a line with the values of the parts."""
        now = _rfc3339(time.time())
        if self._formatter:
            named = dict(zip(self._parts, values, strict=True))
            own = {"time": now, "request_id": request_id, "args": values}
            record = logging.makeLogRecord(self._line | named | own)
            standard_error.write(self._formatter.format(record) + "\n")
        else:
            standard_error.write(self._text % (now, request_id, *values))


def _rfc3339(seconds: float) -> str:
    """An epoch time as local time, such as ``2026-11-22T12:36:22.123+00:00``. nginx's log has the same form."""
    second, millisecond = divmod(int(seconds * 1000), 1000)
    return _any_millisecond(second) % millisecond


@lru_cache(maxsize=1)
def _any_millisecond(second: int) -> str:
    """The form of all times in that second, with ``%03d`` in place of the milliseconds."""
    local = datetime.fromtimestamp(second, UTC).astimezone()
    return local.isoformat(timespec="milliseconds").replace(".000", ".%03d")


def drop_exception_text(record: logging.LogRecord) -> bool:
    """A filter for loggers: drops the text of an exception, which can quote a visitor. Class and place stay."""
    if record.exc_info and record.exc_info[1]:
        record.exc_text = _frames(record.exc_info[1]) + type(record.exc_info[1]).__name__
        record.exc_info = None
    return True


def log_transport(settings: Settings) -> None:
    """Log where messages go, unless the app is made for a flask command that does not serve, such as ``mail list``."""
    command = click.get_current_context(silent=True)
    if command and command.find_object(ScriptInfo) and command.info_name != "run":
        return
    if settings.smtp_host is None:
        logger.warning("SMTP_HOST is not set: messages are stored in %s and not sent", settings.mail_dir)
    else:
        logger.info("messages are sent through %s:%d", settings.smtp_host, settings.smtp_port)


def drop_request_line(record: logging.LogRecord) -> bool:
    """A filter for the logger of Flask's own server: drops its lines of requests, which show what a visitor typed.

    The service writes a line of its own, unless the request is malformed. The address of the server and the debugger's
    PIN stay.
    """
    return not str(record.msg).endswith(('] "%s" %s %s', "] code %d, message %s"))


def log_unforeseen(logger: logging.Logger, error: BaseException, where: str | None) -> None:
    """Log the class and the place of an unexpected exception. Its text is left out, because it can quote a visitor."""
    logger.error("unforeseen %s in %s\n%s", type(error).__name__, where, _frames(error))


def _frames(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__))


def ensure_logging(settings: Settings) -> None:
    """Configure logging, unless the server has done so."""
    if not logging.getLogger().handlers:
        logging.config.dictConfig(logging_config(settings))
