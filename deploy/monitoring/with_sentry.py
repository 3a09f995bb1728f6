"""The service with Sentry, which receives an exception's class and traceback, but nothing that a visitor wrote."""

from typing import Any, cast

import sentry_sdk
from flask import has_request_context
from sentry_sdk.types import Event, Hint

from app.api.request import request
from app.release import RELEASE
from wsgi import app

__all__ = ["app"]

KEPT = ("event_id", "timestamp", "platform", "level", "release", "environment", "server_name", "sdk")


def without_words(event: Event, _hint: Hint) -> Event | None:
    """The event, reduced to the data named here, so that a later version of the SDK cannot send more."""
    if "exception" not in event:  # a log line, which would report the exception again
        return None
    kept: dict[str, Any] = {name: value for name, value in event.items() if name in KEPT}
    parts = ("type", "module", "stacktrace")
    errors = [{part: error[part] for part in parts if part in error} for error in event["exception"]["values"]]
    kept["exception"] = {"values": errors}
    if has_request_context():
        kept["transaction"] = request.url_rule.rule if request.url_rule else "-"
        kept["tags"] = {"request_id": request.id}
    return cast("Event", kept)


sentry_sdk.init(
    release=RELEASE,
    include_local_variables=False,  # the visitor's form is among them
    max_request_body_size="never",  # Sentry would read a body that the service leaves unread, and wait for it
    before_send=without_words,
    before_send_transaction=lambda _event, _hint: None,  # timings, if enabled, would show the path
)
