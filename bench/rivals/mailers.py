"""The service with another way of sending."""

from __future__ import annotations

import os

from app import create_app
from app.api.framework import Application
from app.mail.bulkhead import Bulkhead
from app.mail.mailer import SmtpMailer
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from app.settings import Settings


def create_app_with(sender: type[SmtpSender]) -> Application:
    """The service, all of it the same but the sender."""
    settings = Settings.from_env(os.environ)
    bulkhead = Bulkhead(settings.threads // 2, settings.threads // 4, settings.smtp_timeout / 4)
    mailer = SmtpMailer(sender(settings), Spool(settings.mail_dir), bulkhead, settings.smtp_timeout)
    return create_app(settings, mailer=mailer)
