"""The service with another sender."""

from __future__ import annotations

import os

from flask import Flask

from app import create_app
from app.mail.mailer import Mailer
from app.mail.smtp import SmtpSender
from app.mail.spool import create_spool
from app.settings import Settings


def create_app_with(sender: type[SmtpSender]) -> Flask:
    """The application; only its sender differs from the service."""
    settings = Settings.from_env(os.environ)
    return create_app(settings, mailer=Mailer(settings, create_spool(settings), sender(settings)))
