"""Logging: one handler to standard error, as text or as JSON lines."""

import logging.config
import os
import time
import traceback
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from threading import Event
from typing import Any

from flask import has_request_context, request

from app.settings import Settings

MAX_WAITING = 10_000
"""Lines that wait for the reader of standard error. Further lines are dropped and counted."""

_JSON = "pythonjsonlogger.json.JsonFormatter"
_LINE = "%(time)s %(levelname)s %(name)s %(request_id)s %(message)s"


class StandardErrorHandler(QueueHandler):
    """Finishes a line in the thread that logs. Another thread writes it, so nobody waits for who reads the log."""

    queue: SimpleQueue[bytes | Event]
    _process = 0

    def prepare(self, record: logging.LogRecord) -> bytes:
        """The line of a record."""
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def enqueue(self, record: Any) -> None:
        """Pass a line on, or drop it. At most once a minute the log says how many were dropped."""
        if self._process != os.getpid():  # a fork leaves the thread behind, and the queue in any state
            self.queue = SimpleQueue()
            self._dropped, self._said, self._say_from = 0, 0, 0.0
            self._writer = _Writer(self.queue)
            self._writer.start()
            self._process = os.getpid()
        if self.queue.qsize() >= MAX_WAITING:
            self._dropped += 1
            return
        if self._dropped != self._said and time.monotonic() >= self._say_from:
            self._said, self._say_from = self._dropped, time.monotonic() + 60
            message = "standard error was not read: %d lines have been dropped since the start"
            self.handle(logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (self._dropped,), None))
        self.queue.put_nowait(record)

    def flush(self) -> None:
        """Wait until all is written, a second at most. ``logging`` itself calls this at the end of the process."""
        if self._process == os.getpid():
            written = Event()
            self.queue.put_nowait(written)
            written.wait(1)

    def close(self) -> None:
        """End the thread once it has written all. A reload of gunicorn replaces this handler by a new one."""
        if self._process == os.getpid():
            self._writer.enqueue_sentinel()
        super().close()


class _Writer(QueueListener):
    def handle(self, record: Any) -> None:
        if isinstance(record, Event):
            record.set()
            return
        while record:
            try:
                record = record[os.write(2, record) :]
            except OSError:  # nobody reads it any more, or the disk is full
                time.sleep(0.1)


def add_time_and_request_id(record: logging.LogRecord) -> bool:
    """A filter for handlers: puts the time (RFC 3339, as in nginx's log) and the id of the request into a record."""
    record.time = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds")
    if not hasattr(record, "request_id"):
        record.request_id = getattr(request, "id", "-") if has_request_context() else "-"
    return True


def logging_config(settings: Settings) -> dict[str, Any]:
    """The configuration for logging.config.dictConfig; gunicorn's own lines go the same way."""
    level = settings.log_level.upper()
    names = {"levelname": "level", "name": "logger"}
    json = {"()": _JSON, "fmt": _LINE, "rename_fields": names, "json_ensure_ascii": False}
    handler = {"()": StandardErrorHandler, "queue": None, "formatter": "line", "filters": [add_time_and_request_id]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": json if settings.log_format == "json" else {"format": _LINE}},
        "handlers": {"stderr": handler},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # Its debug lines show the targets of requests, which can hold personal data.
            "gunicorn.error": {"level": "INFO" if level == "DEBUG" else level, "propagate": True},
            # It shows what a visitor typed. Named here, it loses the handlers of gunicorn's own options.
            "gunicorn.access": {"level": "CRITICAL"},
            # Its lines below a warning show origins and paths.
            "flask_cors": {"level": "WARNING"},
            "werkzeug": {"filters": [drop_request_line]},
        },
    }


def drop_exception_text(record: logging.LogRecord) -> bool:
    """A filter for loggers: drops the text of an exception, which can quote a visitor. Class and place stay."""
    if record.exc_info and record.exc_info[0]:
        record.exc_text = "".join(traceback.format_tb(record.exc_info[2])) + record.exc_info[0].__name__
        record.exc_info = None
    return True


def drop_request_line(record: logging.LogRecord) -> bool:
    """A filter for the logger of Flask's own server: drops its lines of requests, which show what a visitor typed."""
    return not str(record.msg).endswith(('] "%s" %s %s', "] code %d, message %s"))


def log_unforeseen(logger: logging.Logger, error: BaseException, where: str | None) -> None:
    """Log the class and the place of an unexpected exception. Its text is left out, because it can quote a visitor."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unforeseen %s in %s\n%s", type(error).__name__, where, frames)


def ensure_logging(settings: Settings) -> None:
    """Configure logging, unless the server has done so. A command writes its lines and its own words in their order."""
    if not logging.getLogger().handlers:
        config = logging_config(settings)
        config["handlers"]["stderr"]["()"] = lambda **_queue: logging.StreamHandler()
        logging.config.dictConfig(config)
