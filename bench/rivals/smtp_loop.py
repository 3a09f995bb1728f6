"""The least cost of a delivery: smtplib sends one ready message over and over on one open connection."""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import time

from app.contact.composer import Composer
from app.contact.schema import validate
from app.settings import Settings
from bench.rounds import SECONDS


def main() -> None:
    """Send for a while; print the number of messages, the seconds and the processor time."""
    settings = Settings.from_env(os.environ)
    values, _ = validate({"form_type": "ventas", "email": "maria@example.com", "mensaje": "¿Es posible?\n" * 10})
    sender, recipients = settings.mail_from.address, [mailbox.address for mailbox in settings.sales_email]
    content = (
        Composer(settings.mail_from, settings.recipients, settings.mail_timezone).compose(values, "0" * 32).content
    )
    with smtplib.SMTP(settings.smtp_host or "", settings.smtp_port) as server:
        if settings.smtp_security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if settings.smtp_username and settings.smtp_password:
            server.login(settings.smtp_username, settings.smtp_password)
        begun, cpu, messages = time.perf_counter(), time.process_time(), 0
        while (seconds := time.perf_counter() - begun) < SECONDS:
            server.sendmail(sender, recipients, content)
            messages += 1
        print(json.dumps({"messages": messages, "seconds": seconds, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
