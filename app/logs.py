"""Logging: one handler to standard error, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import logging.config
import time
import traceback
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from app.settings import Settings
from app.stderr import standard_error

_LINE = "{asctime} {levelname} {name} {request_id} {message}"
_ISO_TIME = "%Y-%m-%dT%H:%M:%S%z"

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the request that the current thread serves; every line that it logs carries it."""


class RequestIdFilter(logging.Filter):
    """Puts the request id into a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record through with its id."""
        record.request_id = request_id.get()
        return True


def logging_config(settings: Settings) -> dict[str, Any]:
    """The configuration for logging.config.dictConfig; gunicorn's own lines go the same way."""
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {"format": _LINE, "style": "{"},
            "json": {
                "()": "pythonjsonlogger.json.JsonFormatter",
                "fmt": _LINE,
                "style": "{",
                "datefmt": _ISO_TIME,
                "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
                "json_ensure_ascii": False,
            },
        },
        "filters": {"request_id": {"()": RequestIdFilter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": standard_error,
                "formatter": settings.log_format,
                "filters": ["request_id"],
            },
        },
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # Its debug lines show the targets of requests, which can hold anything.
            "gunicorn.error": {"level": "INFO" if level == "DEBUG" else level, "propagate": True},
        },
    }


class RequestLog:
    """Writes the line of each request, in the form of all other lines but past ``logging``.

    A record on its way through ``logging`` takes longer than everything else that the service does for a GET.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.enabled = settings.log_level in ("debug", "info")
        """Whether there is anything to write."""
        self._name = name
        self._render = self._json if settings.log_format == "json" else self._text

    def write(self, message: str, fields: dict[str, Any]) -> None:
        """Write a line; ``fields`` is what machines read of it."""
        standard_error.write(self._render(message, fields))

    def _text(self, message: str, _: dict[str, Any]) -> str:
        second, fraction = divmod(time.time(), 1)
        asctime = f"{_local(int(second), logging.Formatter.default_time_format)},{int(fraction * 1000):03d}"
        line = _LINE.format(
            asctime=asctime, levelname="INFO", name=self._name, request_id=request_id.get(), message=message
        )
        return line + "\n"

    def _json(self, message: str, fields: dict[str, Any]) -> str:
        line = {
            "time": _local(int(time.time()), _ISO_TIME),
            "level": "INFO",
            "logger": self._name,
            "request_id": request_id.get(),
            "message": message,
        }
        return json.dumps(line | fields, ensure_ascii=False) + "\n"


@lru_cache(maxsize=1)
def _local(second: int, form: str) -> str:
    return time.strftime(form, time.localtime(second))


def log_unforeseen(logger: logging.Logger, error: BaseException, where: str | None) -> None:
    """Log an exception that nobody expected, without its text, which can quote what a visitor typed."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unforeseen %s in %s\n%s", type(error).__name__, where, frames)


def ensure_logging(settings: Settings) -> None:
    """Configure logging, unless the server that runs the app has."""
    if not logging.getLogger().handlers:
        logging.config.dictConfig(logging_config(settings))
