"""The paths at the site root: the legacy contact path and the OpenAPI document."""

import json
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from flask import Blueprint, Response, jsonify
from werkzeug.http import generate_etag

from app.api.client import Clients
from app.api.envelope import Body
from app.api.paths import DOCUMENT, LEGACY_CONTACT
from app.api.request import request

DOCUMENT_FILE = Path(__file__).parents[2] / "static" / "openapi.json"


def create_root_blueprint(*, clients: Clients, contact: Callable[[], Body]) -> Blueprint:
    """The blueprint of the site root."""
    blueprint = Blueprint("root", __name__)
    document = json.loads(DOCUMENT_FILE.read_bytes())

    @lru_cache(maxsize=32)  # requests for the document are not rate limited
    def render(base_url: str) -> tuple[bytes, str]:
        body = jsonify(document | {"servers": [{"url": base_url}]}).get_data()
        return body, generate_etag(body)

    @blueprint.get(DOCUMENT)
    def get_document() -> Response:
        body, etag = render(clients.base_url(request.environ))
        response = Response(body, mimetype="application/json")
        # nginx weakens a strong ETag when it compresses, but not on a 304: so it is weak from the start.
        response.set_etag(etag, weak=True)
        if request.if_none_match.contains_weak(etag):
            response.status_code = HTTPStatus.NOT_MODIFIED
        return response

    blueprint.post(LEGACY_CONTACT)(contact)
    return blueprint
