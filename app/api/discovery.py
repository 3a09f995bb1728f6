"""The index of the API and its versioning policy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flask import Blueprint, request

from app import envelope
from app.api.addresses import Addresses
from app.api.body import PARSERS
from app.api.framework import Response
from app.api.hooks import DOCUMENT_PATH
from app.api.parameters import QueryParameter
from app.api.root import LEGACY_CONTACT_PATH
from app.api.v1 import CONTACT_PATH, HEALTH_PATH
from app.contact.submission import FORM_TYPES
from app.ratelimit.window import Policy
from app.settings import NOTICE_PERIOD_DAYS
from app.versions import API_ROOT, CURRENT, DEPRECATION, Status, Version, Versions

SECTION = QueryParameter("section", ("versions", "rate_limit", "versioning", "contact", "docs"))

VERSIONING_PATH = "/versioning"
STRATEGY = "path"

AFTER_SUNSET = "A partir de la fecha de retirada, la versión responde 410 con el código api_version_sunset."
COMPATIBILITY = [
    "Una versión estable nunca recibe cambios incompatibles.",
    "Añadir campos opcionales a una respuesta es un cambio compatible: ignore los campos que no conozca.",
    "El significado de error.code no cambia dentro de una versión.",
    "La ruta heredada /contact.php sigue funcionando después de la retirada de una versión.",
]
SIGNALLING = {
    "Deprecation": f"{DEPRECATION} en todas las respuestas de una versión obsoleta (RFC 9745).",
    "Sunset": "Fecha y hora en que se retira la versión (RFC 8594).",
    "Link": 'Dirección de la versión sucesora, con rel="successor-version" (RFC 8288).',
}

_KEPT_RESPONSES = 32
"""Without PUBLIC_BASE_URL they differ by the Host that a client names: so many of them are kept."""


def create_discovery_blueprint(
    *, name: str, addresses: Addresses, versions: Versions, api_policy: Policy, contact_policy: Policy
) -> Blueprint:
    """The blueprint; its responses are made once per base address and state of the version."""
    blueprint = Blueprint("discovery", __name__, url_prefix=API_ROOT)
    version_parameter = QueryParameter("version", versions.names)
    current = versions[CURRENT]

    @lru_cache(_KEPT_RESPONSES)
    def index(base_url: str, _: Status) -> dict[str | None, Response]:
        data = _index(base_url, name, versions, api_policy, contact_policy)
        return {None: _success(data)} | {
            section: _success({section: data[section]}) for section in SECTION.allowed_values
        }

    @lru_cache(_KEPT_RESPONSES)
    def versioning(_: Status) -> dict[str | None, Response]:
        return {None: _success(_versioning(versions))} | {
            name: _success(_state(versions[name])) for name in versions.names
        }

    @blueprint.get("")
    def get_index() -> Response:
        return index(addresses.base_url(request.environ), current.status())[SECTION.read()]

    @blueprint.get(VERSIONING_PATH)
    def get_versioning() -> Response:
        return versioning(current.status())[version_parameter.read()]

    return blueprint


def _success(data: dict[str, Any]) -> Response:
    return Response(envelope.success(data=data))


def _index(base_url: str, name: str, versions: Versions, api_policy: Policy, contact_policy: Policy) -> dict[str, Any]:
    current = base_url + versions[CURRENT].base_path
    document = base_url + DOCUMENT_PATH
    versioning = base_url + API_ROOT + VERSIONING_PATH
    return {
        "name": name,
        "current_version": CURRENT,
        "openapi": document,
        "rate_limit": _rate_limit(api_policy),
        "versions": {
            "current": CURRENT,
            "supported": versions.supported,
            "deprecated": versions.deprecated,
            "index": current,
        },
        "versioning": {
            "strategy": STRATEGY,
            "notice_period_days": NOTICE_PERIOD_DAYS,
            "policy": versioning,
        },
        "contact": {
            "method": "POST",
            "url": current + CONTACT_PATH,
            "legacy_url": base_url + LEGACY_CONTACT_PATH,
            "content_types": list(PARSERS),
            "form_types": list(FORM_TYPES),
            "rate_limit": _rate_limit(contact_policy),
        },
        "docs": {
            "openapi": document,
            "endpoints": current,
            "versioning": versioning,
            "health": current + HEALTH_PATH,
        },
    }


def _rate_limit(policy: Policy) -> dict[str, Any]:
    return {"limit": policy.quota, "window_seconds": policy.window_seconds, "scope": "ip"}


def _versioning(versions: Versions) -> dict[str, Any]:
    return {
        "strategy": STRATEGY,
        "current_version": CURRENT,
        "supported": versions.supported,
        "deprecated": versions.deprecated,
        "deprecation_process": {"notice_period_days": NOTICE_PERIOD_DAYS, "after_sunset": AFTER_SUNSET},
        "compatibility": COMPATIBILITY,
        "signalling": SIGNALLING,
    }


def _state(version: Version) -> dict[str, Any]:
    ending = version.lifecycle
    return {
        "version": version.name,
        "status": version.status(),
        "base_path": version.base_path,
        "deprecated_on": str(ending.deprecated_on) if ending else None,
        "sunset_on": str(ending.sunset_on) if ending else None,
        "successor": ending.successor if ending else None,
    }
