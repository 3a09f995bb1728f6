"""Version 1 of the API."""

from collections.abc import Callable

from flask import Blueprint

from app.api.endpoints import Endpoint, create_version_blueprint
from app.api.envelope import Body
from app.api.health import VERBOSE, create_health_view
from app.api.paths import CONTACT, HEALTH
from app.contact.schema import ContactSchema
from app.mail.health import MailHealth
from app.ratelimit.window import Storage
from app.versions import Version


def create_v1_blueprint(
    version: Version, *, contact: Callable[[], Body], mail_health: MailHealth, storage: Storage
) -> Blueprint:
    """Version 1's blueprint; the contact view is that of the legacy contact path."""
    get_health = create_health_view(version, mail_health, storage)
    return create_version_blueprint(
        version,
        Endpoint("GET", HEALTH, "Informa del estado de la plataforma.", get_health, [VERBOSE]),
        Endpoint("POST", CONTACT, "Envía un formulario de contacto al equipo comercial.", contact, body=ContactSchema),
    )
