"""The path of a request."""

from __future__ import annotations

from typing import Any


def path_of(environ: dict[str, Any]) -> str:
    """The path that router, quotas, sunset, header fields and log all judge: PATH_INFO as it came (PEP 3333).

    Werkzeug's ``request.path`` is not the same: it folds slashes at the front, and adds one where there is none.
    """
    path: str = environ["PATH_INFO"]
    return path
