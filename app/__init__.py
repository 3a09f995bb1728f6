"""The public web interface of a payments company: contact forms, discovery, versioning and health."""

from __future__ import annotations

import os

from app.api.addresses import Addresses
from app.api.contact import create_contact_view
from app.api.cors import CorsPolicy
from app.api.discovery import create_discovery_blueprint
from app.api.errorhandlers import register_error_handlers
from app.api.framework import Application
from app.api.hooks import Hooks, Limits
from app.api.root import LEGACY_CONTACT_PATH, create_root_blueprint
from app.api.v1 import CONTACT_PATH, create_v1_blueprint
from app.contact.message import Composer
from app.contact.service import ContactService
from app.logs import RequestLog, ensure_logging
from app.mail.cli import create_mail_commands
from app.mail.health import MailHealth
from app.mail.mailer import Mailer, create_mailer
from app.ratelimit.storage import create_storage
from app.ratelimit.window import Policy
from app.settings import Settings
from app.versions import CURRENT, Versions

API_POLICY = Policy(quota=60, window_seconds=60)
CONTACT_POLICY = Policy(quota=1, window_seconds=30)


def create_app(
    settings: Settings | None = None, *, mailer: Mailer | None = None, limits: Limits | None = None
) -> Application:
    """The application; what is not passed in is made as the environment asks.

    Raises SettingsError when the environment cannot be used.
    """
    settings = settings or Settings.from_env(os.environ)
    ensure_logging(settings)
    storage = create_storage(settings)
    mailer = mailer or create_mailer(settings)
    limits = limits or Limits(storage.limiter(API_POLICY), storage.limiter(CONTACT_POLICY))
    addresses = Addresses(settings)
    versions = Versions.from_settings(settings)
    current = versions[CURRENT]

    app = Application(__name__)
    app.extensions["mailer"] = mailer
    app.extensions["rate_limit_storage"] = storage
    health = app.extensions["mail_health"] = MailHealth(mailer)
    Hooks(
        addresses=addresses,
        limits=limits,
        versions=versions,
        cors=CorsPolicy(app, settings),
        contact_paths=frozenset({current.base_path + CONTACT_PATH, LEGACY_CONTACT_PATH}),
        request_log=RequestLog("app.request", settings),
    ).register(app)
    register_error_handlers(app, addresses=addresses, versions=versions)
    composer = Composer(settings.mail_from, settings.sales_email)
    contact = create_contact_view(ContactService(composer, mailer.deliver), limits.contact)
    app.register_blueprint(create_v1_blueprint(current, contact=contact, health=health, storage=storage))
    app.register_blueprint(
        create_discovery_blueprint(
            name=settings.api_name,
            addresses=addresses,
            versions=versions,
            api_policy=API_POLICY,
            contact_policy=CONTACT_POLICY,
        )
    )
    app.register_blueprint(create_root_blueprint(addresses=addresses, contact=contact))
    app.cli.add_command(create_mail_commands(settings))
    return app
