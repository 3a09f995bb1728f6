"""The index of the API and its versioning policy."""

from typing import Any

from flask import Blueprint

from app.api import envelope, paths
from app.api.body import PARSERS
from app.api.client import Clients
from app.api.envelope import Body
from app.api.quotas import Limits
from app.api.request import QueryParameter, request
from app.forms import FORM_TYPES
from app.ratelimit.window import Policy
from app.settings import NOTICE_PERIOD_DAYS
from app.versions import API_ROOT, DEPRECATION, Version, Versions

SECTION = QueryParameter("section", ("versions", "rate_limit", "versioning", "contact", "docs"))

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


def create_discovery_blueprint(name: str, *, clients: Clients, versions: Versions, limits: Limits) -> Blueprint:
    """The blueprint of the index and of the versioning policy."""
    blueprint = Blueprint("discovery", __name__)
    version_parameter = QueryParameter("version", tuple(versions))

    @blueprint.get(API_ROOT)
    def get_index() -> Body:
        section = SECTION.read()
        base_url = clients.base_url(request.environ)
        document, policy = base_url + paths.DOCUMENT, base_url + paths.VERSIONING
        index = base_url + versions.current.base_path
        data = {
            "name": name,
            "current_version": versions.current.name,
            "openapi": document,
            "rate_limit": _rate_limit(limits.api.policy),
            "versions": {
                "current": versions.current.name,
                "supported": versions.supported,
                "deprecated": versions.deprecated,
                "index": index,
            },
            "versioning": {"strategy": STRATEGY, "notice_period_days": NOTICE_PERIOD_DAYS, "policy": policy},
            "contact": {
                "method": "POST",
                "url": index + paths.CONTACT,
                "legacy_url": base_url + paths.LEGACY_CONTACT,
                "content_types": list(PARSERS),
                "form_types": FORM_TYPES,
                "rate_limit": _rate_limit(limits.contact.policy),
            },
            "docs": {"openapi": document, "endpoints": index, "versioning": policy, "health": index + paths.HEALTH},
        }
        return envelope.success(data={section: data[section]} if section else data)

    @blueprint.get(paths.VERSIONING)
    def get_versioning() -> Body:
        if version := version_parameter.read():
            return envelope.success(data=_state(versions[version]))
        data = {
            "strategy": STRATEGY,
            "current_version": versions.current.name,
            "supported": versions.supported,
            "deprecated": versions.deprecated,
            "deprecation_process": {"notice_period_days": NOTICE_PERIOD_DAYS, "after_sunset": AFTER_SUNSET},
            "compatibility": COMPATIBILITY,
            "signalling": SIGNALLING,
        }
        return envelope.success(data=data)

    return blueprint


def _rate_limit(policy: Policy) -> dict[str, Any]:
    return {"limit": policy.quota, "window_seconds": policy.window_seconds, "scope": "ip"}


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
