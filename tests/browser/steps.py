"""What several tests of the form do and look for."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.mail.server import SmtpServer, text_of

RECEIVED = "Hemos recibido su solicitud"
DOUBT = "No sabemos si su solicitud ha llegado"
ASKED_AGAIN = "¿Quiere enviarla otra vez? Si llega dos veces, nuestro equipo verá que está repetida."
AGAIN = "Enviar otra vez"
COUNTDOWN = re.compile(r"Podrá enviarla en \d+ segundos\.")
COUNTDOWN_ENDS = "Ya puede enviarla."

OK = {"body": '{"ok":true}'}
FULL = '"default";r=0;t=30'


def adding(markup: str) -> Callable[[str], str]:
    """An edit of the page that puts these fields before the trap."""
    return lambda page: page.replace("<!-- A trap", f"{markup}<!-- A trap")


def lines_of(server: SmtpServer, number: int = 0) -> list[str]:
    """The fields of the message, as the sales team reads them; it is the last one that has come."""
    assert len(server.arrivals) == number + 1
    return text_of(server.arrivals[number]).rstrip("\n").split("\n")[2:]
