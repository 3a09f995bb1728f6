"""Version 1 of the API: its index, health and contact."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint
from marshmallow.validate import OneOf

from app import envelope
from app.api import paths
from app.api.parameters import QueryParameter
from app.contact.schema import ContactSchema
from app.mail.health import MailHealth
from app.ratelimit.storage import Storage
from app.versions import Version

METHOD = QueryParameter("method", ("GET", "POST"))
VERBOSE = QueryParameter("verbose", ("true", "false"))


def create_v1_blueprint(
    version: Version, *, contact: Callable[[], bytes], health: MailHealth, storage: Storage
) -> Blueprint:
    """The blueprint, mounted at the version's base path."""
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
    def list_endpoints() -> bytes:
        method = METHOD.read()
        listed = [endpoint for endpoint in endpoints if method in (None, endpoint["method"])]
        return envelope.success(data={"version": version.name, "endpoints": listed})

    @blueprint.get(paths.HEALTH)
    def get_health() -> bytes:
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
            "rate_limit": {"storage": storage.name, "status": "ok" if storage.in_reach else "fallback"},
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
