"""How the service logs: one handler to standard error, as text or as JSON lines."""

from __future__ import annotations

import logging
import logging.config
import os
import traceback
from contextvars import ContextVar
from typing import Any

from app.settings import Settings

_FIELDS = "%(asctime)s %(levelname)s %(name)s %(request_id)s %(message)s"

_STDERR = 2

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the request that the current thread serves; every line that it logs carries it."""


class StderrHandler(logging.Handler):
    """Writes each line to standard error with one system call, which the kernel keeps apart from the others.

    logging's own handler holds a lock while it waits for that call, and every other thread with a line waits too.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record that the filters let through, without logging's lock."""
        passed = bool(self.filter(record))
        if passed:
            self.emit(record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; as with every handler, one that cannot be written stops nothing."""
        try:
            os.write(_STDERR, f"{self.format(record)}\n".encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001 - what logging asks of a handler
            self.handleError(record)


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
            "text": {"format": _FIELDS},
            "json": {
                "()": "pythonjsonlogger.json.JsonFormatter",
                "fmt": _FIELDS,
                "datefmt": "%Y-%m-%dT%H:%M:%S%z",
                "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
                "json_ensure_ascii": False,
            },
        },
        "filters": {"request_id": {"()": RequestIdFilter}},
        "handlers": {
            "stderr": {
                "class": "app.logs.StderrHandler",
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


def log_unforeseen(logger: logging.Logger, error: BaseException, where: str | None) -> None:
    """Log an exception that nobody expected, without its text, which can quote what a visitor typed."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unforeseen %s in %s\n%s", type(error).__name__, where, frames)


def ensure_logging(settings: Settings) -> None:
    """Configure logging, unless the server that runs the app has."""
    if not logging.getLogger().handlers:
        logging.config.dictConfig(logging_config(settings))
