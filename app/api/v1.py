"""Version 1 of the API: its index, health and contact."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint
from marshmallow.validate import OneOf

from app.api import envelope, paths
from app.api.body import read_fields
from app.api.envelope import Body
from app.api.quotas import Quotas
from app.api.request import QueryParameter, current_request
from app.contact.schema import ContactSchema
from app.contact.service import ContactService
from app.forms import FORM_TYPES
from app.mail.health import MailHealth
from app.ratelimit.window import Storage
from app.versions import Version

ACCEPTED = "Hemos recibido su mensaje. Nuestro equipo comercial se pondrá en contacto con usted."
METHOD = QueryParameter("method", ("GET", "POST"))
VERBOSE = QueryParameter("verbose", ("true", "false"))


def create_contact_view(service: ContactService, quotas: Quotas) -> Callable[[], Body]:
    """The contact view, shared by the versioned path and its legacy alias.

    Every POST within the contact quota counts, even if its form is refused.
    """

    def submit_contact() -> Body:
        request = current_request()
        quotas.count_contact(request)
        fields = read_fields(request.environ)
        if (form_type := fields.get("form_type")) in FORM_TYPES:
            request.form_type = form_type
        request.outcome = service.submit(fields, request.id, is_json=request.is_json)
        return envelope.success(message=ACCEPTED)

    return submit_contact


def create_v1_blueprint(
    version: Version, *, contact: Callable[[], Body], health: MailHealth, storage: Storage
) -> Blueprint:
    """Version 1's blueprint, mounted at its base path."""
    blueprint = Blueprint("v1", __name__, url_prefix=version.base_path)
    started_at = time.monotonic()
    endpoints = [
        {"method": method, "path": version.base_path + path, "description": description, "parameters": parameters}
        for method, path, description, parameters in (
            ("GET", "", "Enumera los recursos de esta versión.", [_query(METHOD)]),
            ("GET", paths.HEALTH, "Informa del estado de la plataforma.", [_query(VERBOSE)]),
            ("POST", paths.CONTACT, "Envía un formulario de contacto al equipo comercial.", _body_fields()),
        )
    ]

    @blueprint.get("")
    def list_endpoints() -> Body:
        method = METHOD.read()
        listed = [endpoint for endpoint in endpoints if method in (None, endpoint["method"])]
        return envelope.success(data={"version": version.name, "endpoints": listed})

    @blueprint.get(paths.HEALTH)
    def get_health() -> Body:
        mail = health.latest()
        data = {
            "status": "ok" if mail.ok else "degraded",
            "version": version.name,
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "checks": {"api": "ok", "mail": "ok" if mail.ok else "fail"},
        }
        if VERBOSE.read() != "true":
            return envelope.success(data=data)
        details = {
            "uptime_seconds": int(time.monotonic() - started_at),
            "mail": {
                "transport": health.transport,
                "checked_at": mail.checked_at.isoformat(timespec="seconds") if mail.checked_at else None,
                "latency_ms": mail.latency_ms,
                "undelivered": mail.undelivered,
                "server": mail.server,
                "storage": mail.disk,
            },
            "rate_limit": {"storage": storage.name, "status": "ok" if storage.is_reachable else "fallback"},
        }
        return envelope.success(data=data | {"details": details})

    blueprint.post(paths.CONTACT)(contact)
    return blueprint


def _query(parameter: QueryParameter) -> dict[str, Any]:
    values = list(parameter.allowed_values)
    return {"name": parameter.name, "in": "query", "required": False, "allowed_values": values}


def _body_fields() -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "body", "required": field.required}
        | next(({"allowed_values": [*rule.choices]} for rule in field.validators if isinstance(rule, OneOf)), {})
        for name, field in ContactSchema().fields.items()
    ]
