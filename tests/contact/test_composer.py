"""The header of a message, and that no visitor's text gets out of its place."""

import email
import re
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time

from app.contact.composer import Composer
from app.forms import FORM_TITLES
from app.mailbox import Mailbox
from tests.contact.reading import SENDER, compose, decoded_subject, hold, read, written_again
from tests.factories import REFERENCE, REQUEST_ID, UTC_ZONE
from tests.messages import parse

LONGEST = {"nombre": 200, "empresa": 200, "telefono": 40, "mensaje": 5000, "tema": 60_000}
BCC = "Bcc: x@example.com"
INJECTIONS = {
    "CRLF": f"a\r\n{BCC}",
    "CRLF and a body": f"a\r\n\r\n{BCC}\r\n\r\n",
    "CRLF and a continuation": f"a\r\n Bcc: x@example.com\r\n{BCC}",
    **{f"{control!a}": f"a{control}{BCC}" for control in "\n\r\0\x0b\x0c\x1c\x1e\x85\u2028\u2029"},
    "Q encoded CRLF": "=?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
    "Q encoded LF": "=?utf-8?q?=0ABcc:_x=40example.com",
    "Q encoded CRLF, colon too": "=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=",
    "B encoded CRLF": "=?utf-8?b?YQ0KQmNjOiB4QGV4YW1wbGUuY29t?=",
    "encoded in another charset": "=?iso-8859-1?Q?a=0D=0ABcc:_x=40example.com?=",
    "encoded twice": "=?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3D0D=3D0ABcc=3A_x=3F=3D?=",
    "encoded within letters": "ñ =?utf-8?q?a=0D=0ABcc:_x=40example.com?= ñ",
    "encoded across a control": "=\0?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
    "MIME boundary": "--=_\r\nContent-Type: text/html\r\n\r\n<b>x</b>\r\n--=_--",
    "lone dot": f".\r\n.\r\n{BCC}",
}


def test_the_header_of_a_message() -> None:
    recipients = [Mailbox("a@example.com", "Ventas, Uruguay"), Mailbox("b@example.com")]

    with freeze_time("2030-01-01 12:00:00"):
        message = compose(Composer(SENDER, {"ventas": recipients}.__getitem__, UTC_ZONE), form_type="ventas")

    parsed = parse(message.content)
    assert {name: str(value) for name, value in parsed.items() if name not in ("Message-ID", "Content-Type")} == {
        "From": "Formulario de España <web@example.com>",
        "To": '"Ventas, Uruguay" <a@example.com>, b@example.com',
        "Reply-To": "María Ñúñez <maria@example.com>",
        "Subject": f"Ventas: Comercio Ejemplo S.L. · {REFERENCE}",
        "Date": "Tue, 01 Jan 2030 12:00:00 +0000",
        "X-Auto-Response-Suppress": "OOF, AutoReply",
        "X-Form-Type": "ventas",
        "X-Reference": REFERENCE,
        "MIME-Version": "1.0",
    }
    assert [each.get_content_type() for each in parsed.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    assert re.fullmatch(rf"<{REQUEST_ID}\.[0-9a-f]{{16}}@example\.com>", message.message_id)
    assert parsed["Message-ID"] == message.message_id


def test_no_two_messages_have_one_id_or_one_boundary() -> None:
    """A trusted proxy may give two requests the same id."""
    messages = [compose() for _ in range(10)]
    boundaries = {email.message_from_bytes(message.content).get_boundary("") for message in messages}

    assert len({message.message_id for message in messages}) == len(boundaries) == 10
    # Quoted-printable never writes an equals sign before an underscore (RFC 2045, section 6.7).
    assert all(boundary.startswith("=_") for boundary in boundaries)


def test_many_recipients_stay_within_the_line_length() -> None:
    addresses = [f"{'x' * 55}{n}@example.com" for n in range(100)]

    content = compose(Composer(SENDER, lambda _: [Mailbox(it, "Ventas ñ") for it in addresses], UTC_ZONE)).content

    hold(content)
    assert [address.addr_spec for address in parse(content)["To"].addresses] == addresses


TIMES = {
    "UTC": ("2030-01-01 12:00", "01 Jan 2030 12:00:00 +0000", "01/01/2030 a las 12:00 (UTC)"),
    "Etc/GMT+3": ("2030-01-01 12:00", "01 Jan 2030 09:00:00 -0300", "01/01/2030 a las 09:00 (UTC-3)"),
    "America/Montevideo": (
        "2030-01-01 02:59",
        "31 Dec 2029 23:59:00 -0300",
        "31/12/2029 a las 23:59 (Montevideo, UTC-3)",
    ),
    "America/St_Johns": (
        "2030-01-01 12:00",
        "01 Jan 2030 08:30:00 -0330",
        "01/01/2030 a las 08:30 (St Johns, UTC-3:30)",
    ),
    "Europe/Madrid": ("2030-06-30 22:30", "01 Jul 2030 00:30:00 +0200", "01/07/2030 a las 00:30 (Madrid, UTC+2)"),
}
"""Time zones, a time in UTC, and how Date and text have it."""


@pytest.mark.parametrize("zone", TIMES)
def test_date_and_shown_time_are_those_of_the_time_zone(zone: str) -> None:
    now, date, shown = TIMES[zone]
    with freeze_time(now):
        content = compose(Composer(SENDER, lambda _: [SENDER], ZoneInfo(zone))).content

    assert parse(content)["Date"].endswith(f", {date}")
    assert f"Recibido el {shown} desde el formulario de la web." in read(content)


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_what_was_typed_starts_no_header_and_no_part(text: str) -> None:
    everywhere = {name: text[:length] for name, length in LONGEST.items()}

    hold(compose(**everywhere, **{text: text}).content)
    hold(compose(nombre=text, empresa=None).content)  # the person names the subject


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("form_type", ["ventas", "onboarding"])
def test_the_subject_shows_what_was_typed_on_one_line(form_type: str, text: str) -> None:
    content = compose(form_type=form_type, empresa=text).content

    seen = " ".join(re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split()).replace("=?", "= ?")
    assert (
        parse(content)["Subject"] == decoded_subject(content) == f"{FORM_TITLES[form_type].short}: {seen} · {REFERENCE}"
    )
    assert "Bcc" not in email.message_from_bytes(written_again(written_again(content)))


@pytest.mark.parametrize("character", ["x", "😀"], ids=ascii)
def test_the_longest_texts_stay_within_the_line_length(character: str) -> None:
    longest = {name: character * length for name, length in LONGEST.items()}

    hold(compose(**longest, **{character * 30_000: "x"}).content)


def test_no_header_line_is_longer_than_it_should_be() -> None:
    for length in (*range(40, 70), 90):
        hold(compose(form_type="onboarding", nombre="x" * length, empresa="y" * length).content)
