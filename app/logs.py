"""Logging: one handler to standard error, as text or as JSON lines."""

import logging.config
import traceback
from datetime import UTC, datetime
from typing import Any

from flask import has_request_context, request

from app.settings import Settings

_LINE = "%(time)s %(levelname)s %(name)s %(request_id)s %(message)s"


def add_time_and_request_id(record: logging.LogRecord) -> bool:
    """A filter for handlers: adds the time (RFC 3339, as in nginx's log) and the request id to a record."""
    record.time = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds")
    if not hasattr(record, "request_id"):
        record.request_id = getattr(request, "id", "-") if has_request_context() else "-"
    return True


def drop_exception_text(record: logging.LogRecord) -> bool:
    """A filter for loggers: keeps an exception's class and traceback, but not its text, which can quote a visitor.

    The message can, too: Flask's has the path, gunicorn's the target.
    """
    if record.exc_info and record.exc_info[0]:
        where = request.endpoint if has_request_context() else None
        frames = "".join(traceback.format_tb(record.exc_info[2]))
        record.msg, record.args = "unhandled %s in %s\n%s", (record.exc_info[0].__name__, where, frames.rstrip())
        record.exc_info = None
    return True


def drop_request_line(record: logging.LogRecord) -> bool:
    """A filter for the logger of Flask's own server: drops its request lines, which show what a visitor typed."""
    return not str(record.msg).endswith(('] "%s" %s %s', "] code %d, message %s"))


def logging_config(settings: Settings) -> dict[str, Any]:
    """The configuration for logging.config.dictConfig; gunicorn's own lines use it, too."""
    level = settings.log_level.upper()
    names = {"levelname": "level", "name": "logger"}
    json = {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": _LINE, "rename_fields": names}
    line = json | {"json_ensure_ascii": False} if settings.log_format == "json" else {"format": _LINE}
    handler = {"class": "logging.StreamHandler", "formatter": "line", "filters": [add_time_and_request_id]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": line},
        "handlers": {"stderr": handler},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # Its debug lines show request targets, which can hold personal data.
            "gunicorn.error": {"level": "INFO" if level == "DEBUG" else level, "propagate": True},
            # It shows what a visitor typed. This entry removes the handlers of gunicorn's own options.
            "gunicorn.access": {"level": "CRITICAL"},
            # Its lines below a warning show origins and paths.
            "flask_cors": {"level": "WARNING"},
            "werkzeug": {"filters": [drop_request_line]},
        },
    }


def ensure_logging(settings: Settings) -> None:
    """Configure logging, unless the server has done so."""
    if not logging.getLogger().handlers:
        logging.config.dictConfig(logging_config(settings))
