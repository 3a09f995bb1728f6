"""The public web interface of a payments company: contact forms, discovery, versioning and health."""

import os

from flask import Flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.middleware.proxy_fix import ProxyFix

from app.api.client import Clients
from app.api.contact import create_contact_view
from app.api.cors import allow_origins
from app.api.discovery import create_discovery_blueprint
from app.api.errorhandlers import register_error_handlers
from app.api.hooks import Hooks, OnFinish
from app.api.paths import contact_paths
from app.api.quotas import Limits, Quotas
from app.api.request import Request, log_request
from app.api.root import create_root_blueprint
from app.api.v1 import create_v1_blueprint
from app.background import Background
from app.contact.composer import Composer
from app.contact.service import ContactService
from app.logs import drop_exception_text, ensure_logging
from app.mail.cli import create_mail_commands
from app.mail.health import MailHealth
from app.mail.mailer import Mailer, create_mailer
from app.mail.redelivery import Redelivery
from app.mail.spool import Spool, require_mail_dir
from app.metrics import create_recorder
from app.ratelimit.storage import create_storage
from app.ratelimit.window import Policy
from app.settings import Settings
from app.versions import V1, Versions

API_POLICY = Policy(quota=60, window_seconds=60)
CONTACT_POLICY = Policy(quota=1, window_seconds=30)

VERSIONS = {V1: create_v1_blueprint}
"""Each version with what creates its blueprint, oldest first."""


def create_app(
    settings: Settings | None = None,
    *,
    mailer: Mailer | None = None,
    limits: Limits | None = None,
    versions: Versions | None = None,
) -> Flask:
    """Create the app; collaborators that are not passed in come from the settings.

    Raises SettingsError when the environment cannot be used.
    """
    settings = settings or Settings.from_env(os.environ)
    ensure_logging(settings)
    versions = versions or Versions.from_settings(settings, VERSIONS)
    paths = contact_paths(versions)
    recorder = create_recorder(settings, paths)
    storage = create_storage(settings)
    require_mail_dir(settings.mail_dir, create=False)
    spool = Spool(settings.mail_dir, has_server=settings.has_mail_server)
    mailer = mailer or create_mailer(settings, spool, recorder)
    redelivery = Redelivery(mailer, spool, timeout=settings.smtp_timeout + 1)
    health = MailHealth(mailer, spool, redelivery)
    clients = Clients(settings)
    limits = limits or Limits(storage.limiter(API_POLICY), storage.limiter(CONTACT_POLICY))
    quotas = Quotas(limits, paths)
    composer = Composer(settings.mail_from, settings.recipients, settings.mail_timezone)
    contact = create_contact_view(ContactService(composer, mailer), quotas)
    background = Background(
        [*storage.loops, *(check.loop for check in health.checks), redelivery.loop],
        announce=mailer.log_transport,
        close=[mailer.close, storage.close],
    )
    on_finish: list[OnFinish] = [log_request]
    if recorder:
        on_finish.append(recorder.count)
        recorder.watch(mailer=mailer, health=health, redelivery=redelivery, limits=limits, storage=storage)

    app = create_flask(settings)
    app.extensions |= {"background": background, "mailer": mailer, "mail_health": health, "metrics": recorder}
    hooks = Hooks(settings, clients=clients, quotas=quotas, versions=versions, on_finish=on_finish)
    app.after_request(hooks.finish)  # the first one registered runs last
    app.before_request(background.start)  # flask run starts it here; under gunicorn it is running already
    app.before_request(hooks.admit)
    allow_origins(app, settings.cors_origins, paths)
    register_error_handlers(app, clients=clients, quotas=quotas, versions=versions)
    for name, create_blueprint in VERSIONS.items():
        app.register_blueprint(create_blueprint(versions[name], contact=contact, mail_health=health, storage=storage))
    app.register_blueprint(
        create_discovery_blueprint(settings.api_name, clients=clients, versions=versions, limits=limits)
    )
    app.register_blueprint(create_root_blueprint(clients=clients, contact=contact))
    app.cli.add_command(create_mail_commands(settings, mailer, spool))
    return app


def create_flask(settings: Settings) -> Flask:
    """A Flask app without routes, set up for JSON and for trusted proxies."""
    app = Flask(__name__, static_folder=None)
    app.request_class = Request
    app.logger.addFilter(drop_exception_text)
    json = app.json = DefaultJSONProvider(app)
    json.compact, json.sort_keys, json.ensure_ascii = True, False, False
    # Flask's automatic response is HTML. The handler of refused methods answers OPTIONS.
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    if proxies := settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    return app
