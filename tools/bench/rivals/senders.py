"""The service with other ways of sending mail, as app factories for gunicorn."""

import os
from collections.abc import Callable

from flask import Flask

from app import create_app
from app.mail.mailer import Mailer
from app.mail.message import Message
from app.mail.smtp import Deadline, Receipt, SmtpSender
from app.mail.spool import Spool
from app.settings import Settings


class _NoHandOver(SmtpSender):
    def send(self, _message: Message, _deadline: Deadline, *, before_content: Callable[[], None]) -> Receipt:
        before_content()  # the work on the disk is still done
        return Receipt("250", {})


class _NewConnections(SmtpSender):
    def send(self, message: Message, deadline: Deadline, *, before_content: Callable[[], None]) -> Receipt:
        self.close()  # so that none is reused
        return super().send(message, deadline, before_content=before_content)


def no_hand_over() -> Flask:
    """Sending that takes no time and never talks to the mail server: no way of sending can be faster."""
    return _create_app(_NoHandOver)


def new_connections() -> Flask:
    """A new connection to the mail server for each form."""
    return _create_app(_NewConnections)


def _create_app(sender: type[SmtpSender]) -> Flask:
    settings = Settings.from_env(os.environ)
    return create_app(settings, mailer=Mailer(settings, Spool(settings.mail_dir), sender(settings)))
