"""The request and what the service knows of it."""

import random
import time
from typing import Any, cast

import flask

from app.contact.submission import UNKNOWN_FORM_TYPE, Outcome
from app.ratelimit.window import Decision
from app.versions import Version

OWN_REQUEST = "app.request"
"""The key under which a WSGI environ (PEP 3333) has its Request."""


class Request(flask.Request):
    """Flask's request with the service's own attributes. Hooks, quotas, the contact view and the handlers set them."""

    id: str
    """The request's id, which its response, each of its log lines and its message carry: 32 hexadecimal digits."""
    client: bytes = b""
    """The key that the limiters count the client under."""
    version: Version | None = None
    """The version that the path belongs to, if there is one."""
    decision: Decision | None = None
    """The newest decision of a quota that the request was counted against."""
    error_code: str = "-"
    """The ``error.code`` of the answer."""
    form_type: str = UNKNOWN_FORM_TYPE
    """The kind of the form that the request sends."""
    outcome: Outcome | None = None
    """The end of the form, once it is accepted."""
    route: str = ""
    """The path's rule or class, as log and metrics show it."""
    failed: bool = False
    """True once an exception without a handler of its own is being answered."""

    def __init__(self, environ: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(environ, *args, **kwargs)
        environ[OWN_REQUEST] = self
        self.begun = time.perf_counter()
        # Made here, because what fails before the admission is answered, too. An id is no secret: os.urandom would
        # release the interpreter's lock, and the request would wait for it again.
        self.id = f"{random.getrandbits(128):032x}"
        # Werkzeug folds slashes at the front and adds a missing one. Quotas, sunset, router, header fields and log
        # must all use the same path, exactly as it arrived.
        raw: str = environ.get("PATH_INFO", "")
        if not raw.startswith("/") or raw.startswith("//"):
            self.path = raw.encode("latin-1").decode(errors="replace")


request = cast("Request", flask.request)
"""The current request: Flask's own proxy, typed."""
