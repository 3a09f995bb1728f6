"""SpamAssassin's verdict on the messages, by the rules that Debian ships and without the network."""

import json
import subprocess
from email.utils import format_datetime, localtime
from pathlib import Path
from typing import Any

from app.forms import FORM_TYPES
from tests.contact.reading import compose

PATIENCE = 200
"""Seconds after which SpamAssassin hangs."""

RULES = Path("/usr/share/spamassassin")

HTML = 0.001
"""The points that any message with an HTML part gets. A rule of 0 points would not run, so that this one has a few."""


# What mail servers put in front. The rules give points to the addresses that RFC 5737 sets aside for examples.
RECEIVED = f"""\
Received: from {{}} by {{}} (Postfix) with ESMTPS id 4F3C21A0B2 for <ventas@example.com>; {format_datetime(localtime())}
"""
TO_RELAY = RECEIVED.format("web.example.com (web.example.com [10.1.2.3])", "relay.example.com")
TO_MAILBOX = RECEIVED.format("relay.example.com (relay.example.com [93.184.215.14])", "mx.example.net")

SUBMISSIONS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "with more fields": {"tema": "Precios", "volumenMensual": 40_000, "acepta": True, "tienda": {"ciudad": "Cádiz"}},
    "from a campaign": {
        "pagina": "https://www.example.com/contacto",
        "utm_source": "google",
        "utm_medium": "cpc",
        "utm_campaign": "tpv-otoño",
        "gclid": "Cj0KCQiAgJa6BhCOARIsAMiL7V8jT2x0dGVyX2NhbXBhaWduX2lkX3g",
    },
    "with the address alone": dict.fromkeys(["nombre", "empresa", "telefono", "mensaje"]),
    "right to left": {"nombre": "محمد عبد الله", "empresa": None, "mensaje": "مرحبا بالعالم"},
}


def judge(contents: list[bytes], directory: Path) -> list[tuple[float, dict[str, float]]]:
    """The points of each message, and those of each rule that it meets."""
    paths = [directory / f"{number}.eml" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    command: list[str | Path] = ["perl", Path(__file__).with_name("judge.pl"), RULES, directory, *paths]
    return [(each["points"], each["rules"]) for each in json.loads(subprocess.check_output(command, timeout=PATIENCE))]


def test_each_kind_of_message_is_no_spam(tmp_path: Path) -> None:
    contents = {
        f"{kind}, {what}": (TO_MAILBOX + TO_RELAY).encode() + compose(form_type=kind, **changes).content
        for kind in FORM_TYPES
        for what, changes in SUBMISSIONS.items()
    }

    verdicts = dict(zip(contents, judge(list(contents.values()), tmp_path), strict=True))

    assert {what: rules for what, (points, rules) in verdicts.items() if points > HTML} == {}


def test_a_visitor_with_an_address_that_anybody_can_have_costs_what_the_operator_was_told(tmp_path: Path) -> None:
    # The sender's address is not the visitor's. docs/mail.md says what to do.
    contents = [compose(form_type=kind, email="maria.nunez@gmail.com").content for kind in FORM_TYPES]

    verdicts = judge(contents, tmp_path)

    weighty = [{rule for rule, points in rules.items() if points > HTML} for _, rules in verdicts]
    assert weighty == [{"FREEMAIL_FORGED_REPLYTO"}] * len(FORM_TYPES)
