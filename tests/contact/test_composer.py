"""The header of a message, and that no visitor's text gets out of its place."""

from __future__ import annotations

import email
import re
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from app.contact.composer import TEXT, Composer
from app.mailbox import Mailbox, encoded_words
from tests.contact.reading import RECEIVED_AT, SENDER, compose, decoded_subject, letter_of, parse, part, read
from tests.factories import REFERENCE, REQUEST_ID, SUBJECTS, UTC_ZONE, contact_body
from tests.messages import POLICIES, READER

END_OF_HEADERS = b"\r\n\r\n"
LONGEST = {"nombre": 200, "empresa": 200, "telefono": 40, "mensaje": 5000, "tema": 60_000}
BCC = "Bcc: x@example.com"
INJECTIONS = {
    "CRLF": f"a\r\n{BCC}",
    "CRLF and a body": f"a\r\n\r\n{BCC}\r\n\r\n",
    "CRLF and a continuation": f"a\r\n Bcc: x@example.com\r\n{BCC}",
    **{f"{control!a}": f"a{control}{BCC}" for control in "\n\r\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"},
    "Q encoded CRLF": "=?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
    "Q encoded LF": "=?utf-8?q?a=0ABcc:_x=40example.com?=",
    "Q encoded CRLF, colon too": "=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=",
    "B encoded CRLF": "=?utf-8?b?YQ0KQmNjOiB4QGV4YW1wbGUuY29t?=",
    "encoded in another charset": "=?iso-8859-1?Q?a=0D=0ABcc:_x=40example.com?=",
    "encoded with a language": "=?utf-8*es?q?a=0D=0ABcc:_x=40example.com?=",
    "encoded twice": "=?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3D0D=3D0ABcc=3A_x=3F=3D?=",
    "encoded within letters": "ñ =?utf-8?q?a=0D=0ABcc:_x=40example.com?= ñ",
    "encoded without end": "=?utf-8?q?a=0D=0ABcc:_x=40example.com",
    "encoded across a control": "=\0?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
    "MIME boundary": "--=_\r\nContent-Type: text/html\r\n\r\n<b>x</b>\r\n--=_--",
    "lone dot": f".\r\n.\r\n{BCC}",
}


def header_names(content: bytes) -> list[str]:
    """As they stand in the bytes: the lines before the first empty one that continue no other."""
    lines = content.partition(END_OF_HEADERS)[0].split(b"\r\n")
    return [line.partition(b":")[0].decode() for line in lines if not line.startswith((b" ", b"\t"))]


def structure(message: Message) -> list[tuple[str, list[str]]]:
    return [(each.get_content_type(), list(each.keys())) for each in message.walk()]


USUAL = compose().content
USUAL_STRUCTURES = [structure(email.message_from_bytes(USUAL, policy=policy)) for policy in POLICIES]


def hold(content: bytes) -> None:
    """Nothing has got out of its place, and the message can travel."""
    assert header_names(content) == header_names(USUAL)
    _, _, body = content.partition(END_OF_HEADERS)
    for policy, usual in zip(POLICIES, USUAL_STRUCTURES, strict=True):
        message = email.message_from_bytes(content, policy=policy)
        assert structure(message) == usual
        assert [each.defects for each in message.walk()] == [[], [], []]
        # A program that reads and rewrites the message may fold its headers anew; it leaves the parts as they are.
        head, _, rewritten = message.as_bytes(policy=policy.clone(linesep="\r\n")).partition(END_OF_HEADERS)
        again = email.message_from_bytes(head, policy=policy)
        assert (structure(again)[0], again.get_boundary()) == (usual[0], message.get_boundary())
        assert rewritten == body
    assert content.isascii()
    assert re.search(rb"[\r\n]", content.replace(b"\r\n", b"")) is None
    assert content.endswith(b"\r\n")
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert len(decoded_subject(content)) <= 120


def on_one_line(text: str) -> str:
    return " ".join(re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())


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
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "X-Form-Type": "ventas",
        "X-Reference": REFERENCE,
        "MIME-Version": "1.0",
    }
    assert [each.get_content_type() for each in parsed.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    assert re.fullmatch(rf"<{REQUEST_ID}\.[0-9a-f]{{16}}@example\.com>", message.message_id)
    assert parsed["Message-ID"] == message.message_id


def test_no_two_messages_have_one_id_or_one_boundary() -> None:
    messages = [compose() for _ in range(100)]
    boundaries = {email.message_from_bytes(message.content).get_boundary("") for message in messages}

    assert len({message.message_id for message in messages}) == len(boundaries) == 100
    # Quoted-printable never writes an equals sign before an underscore (RFC 2045, section 6.7).
    assert all(boundary.startswith("=_") for boundary in boundaries)


def test_many_recipients_stay_within_the_line_length() -> None:
    addresses = [f"{'x' * 60}{n}@example.com" for n in range(100)]

    content = compose(Composer(SENDER, lambda _: [Mailbox(it, "Ventas ñ") for it in addresses], UTC_ZONE)).content

    hold(content)
    assert [address.addr_spec for address in parse(content)["To"].addresses] == addresses


ZONES = {
    "UTC": ("12:00:00 +0000", "12:00 (UTC)"),
    "Etc/UTC": ("12:00:00 +0000", "12:00 (UTC)"),
    "Etc/GMT+3": ("09:00:00 -0300", "09:00 (UTC-3)"),
    "America/Montevideo": ("09:00:00 -0300", "09:00 (Montevideo, UTC-3)"),
    "America/Argentina/Buenos_Aires": ("09:00:00 -0300", "09:00 (Buenos Aires, UTC-3)"),
    "America/St_Johns": ("08:30:00 -0330", "08:30 (St Johns, UTC-3:30)"),
    "Asia/Kolkata": ("17:30:00 +0530", "17:30 (Kolkata, UTC+5:30)"),
    "Europe/Madrid": ("13:00:00 +0100", "13:00 (Madrid, UTC+1)"),
    "Europe/London": ("12:00:00 +0000", "12:00 (London, UTC)"),
}


@pytest.mark.parametrize("zone", ZONES)
def test_date_and_shown_time_are_those_of_the_time_zone(zone: str) -> None:
    date, shown = ZONES[zone]
    with freeze_time("2030-01-01 12:00:00"):
        content = compose(Composer(SENDER, lambda _: [SENDER], ZoneInfo(zone))).content

    assert parse(content)["Date"] == f"Tue, 01 Jan 2030 {date}"
    assert f"Recibido el 01/01/2030 a las {shown} desde el formulario de la web." in read(content)


def test_summer_and_the_day_before_are_those_of_the_time_zone() -> None:
    with freeze_time("2030-06-30 22:30:00"):
        content = compose(Composer(SENDER, lambda _: [SENDER], ZoneInfo("Europe/Madrid"))).content

    assert parsedate_to_datetime(parse(content)["Date"]) == datetime(2030, 6, 30, 22, 30, tzinfo=UTC)
    assert "Recibido el 01/07/2030 a las 00:30 (Madrid, UTC+2) desde el formulario de la web." in read(content)


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("field", LONGEST)
@pytest.mark.parametrize("form_type", ["demo", "ventas"])
def test_text_in_a_field_starts_no_header_and_no_part(form_type: str, field: str, text: str) -> None:
    # The person names the subject where there is no company.
    hold(compose(**{"form_type": form_type, "empresa": None, field: text[: LONGEST[field]]}).content)


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("form_type", SUBJECTS)
def test_the_subject_shows_what_was_typed_on_one_line(form_type: str, text: str) -> None:
    content = compose(form_type=form_type, empresa=text).content

    seen = on_one_line(text).replace("=?", "= ?")
    assert parse(content)["Subject"] == decoded_subject(content) == f"{SUBJECTS[form_type]}: {seen} · {REFERENCE}"


@pytest.mark.parametrize("name", INJECTIONS.values(), ids=INJECTIONS)
def test_the_name_of_a_field_starts_no_header_and_no_part(name: str) -> None:
    hold(compose(**{name: name}).content)


@pytest.mark.parametrize("company", ["=?utf-8?q?a=0D=0ABcc:_x=40example.com?=", "=?utf-8?q?=0ABcc:_x=40example.com"])
def test_a_subject_that_is_written_again_and_again_starts_no_header(company: str) -> None:
    content = compose(form_type="ventas", empresa=company).content

    for _ in range(3):
        content = email.message_from_bytes(content, policy=READER.clone(refold_source="all")).as_bytes()

    assert "Bcc" not in email.message_from_bytes(content)


NAMES = ["Ana", "María Ñúñez", "O'Hara & hijos", "支付", "x" * 60, "ñ " * 99 + "ñ", "Ana (B) [1]"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folding", ["long", "all"])
def test_a_name_that_is_written_again_stays(name: str, folding: str) -> None:
    message = email.message_from_bytes(compose(nombre=name).content, policy=READER.clone(refold_source=folding))

    (mailbox,) = parse(message.as_bytes())["Reply-To"].addresses

    # The email package folds a long name into more spaces.
    assert (" ".join(mailbox.display_name.split()), mailbox.addr_spec) == (name, "maria@example.com")


@pytest.mark.parametrize("name", [*NAMES, ".ñ"])
def test_a_name_that_is_written_again_as_utf_8_names_nobody_else(name: str) -> None:
    rewriting = READER.clone(refold_source="all", utf8=True)

    again = email.message_from_bytes(compose(nombre=name).content, policy=rewriting).as_bytes()

    assert [mailbox.addr_spec for mailbox in parse(again)["Reply-To"].addresses] == ["maria@example.com"]


def test_the_email_package_makes_an_address_of_an_encoded_name() -> None:
    # This is why a name with such a character is left out. When it fails, the rule may go.
    encoded = f"Reply-To: {encoded_words('x <jefa@banco.example>, y')} <maria@example.com>\r\n\r\n".encode()

    rewritten = email.message_from_bytes(encoded, policy=READER.clone(refold_source="all")).as_bytes()

    before, after = ([it.addr_spec for it in parse(each)["Reply-To"].addresses] for each in (encoded, rewritten))
    assert (before, after) == (["maria@example.com"], ["jefa@banco.example", "maria@example.com"])


@pytest.mark.parametrize("character", ["x", " ", "ñ", "支", "😀", "=", ".", "<", "א", "\n", "\u2028"], ids=ascii)
@pytest.mark.parametrize("form_type", ["demo", "ventas"])
def test_the_longest_texts_stay_within_the_line_length(form_type: str, character: str) -> None:
    hold(compose(form_type=form_type, **{name: character * length for name, length in LONGEST.items()}).content)
    hold(compose(**{character * 30_000: "x"}).content)


@pytest.mark.parametrize("length", [*range(30, 80), 90])
@pytest.mark.parametrize("form_type", ["demo", "onboarding"])
def test_no_header_line_is_longer_than_it_should_be(form_type: str, length: int) -> None:
    content = compose(form_type=form_type, nombre="x" * length, empresa="y" * length).content

    assert max(map(len, content.partition(END_OF_HEADERS)[0].split(b"\r\n"))) <= 78


LONG_COMPANIES = ["palabra " * 25, "x" * 200, "支付" * 100, "👨\u200d👩\u200d👧" * 40, "שלם " * 40]
LONG_COMPANIES += [character * 200 for character in "ñ支😀=א"]


@pytest.mark.parametrize("company", LONG_COMPANIES, ids=ascii)
@pytest.mark.parametrize("form_type", ["demo", "distribuidor"])
def test_a_long_subject_is_cut_and_keeps_the_reference(form_type: str, company: str) -> None:
    changes = {"form_type": form_type, "empresa": company[:200]}

    subject = decoded_subject(compose(**changes).content)

    assert subject == letter_of(**changes).subject
    assert 100 < len(subject) <= 120
    assert subject.replace("\u2069", "").endswith(f"… · {REFERENCE}")


def test_a_subject_that_fits_stays_whole() -> None:
    company = "x" * (120 - len(f"Demo:  · {REFERENCE}"))

    assert decoded_subject(compose(empresa=company).content) == f"Demo: {company} · {REFERENCE}"


any_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(any_text, children, max_size=3),
    max_leaves=5,
)


@given(
    form_type=st.sampled_from(list(SUBJECTS)),
    texts=st.fixed_dictionaries({}, optional=dict.fromkeys(("nombre", "empresa", "telefono", "mensaje"), any_text)),
    extras=st.dictionaries(any_text.filter(lambda name: name not in contact_body()), json_values, max_size=3),
)
def test_whatever_is_typed_the_message_keeps_its_form(
    form_type: str, texts: dict[str, str], extras: dict[str, Any]
) -> None:
    """Both parts say the same, as they are read."""
    changes: dict[str, Any] = {"nombre": None, "empresa": None, "form_type": form_type}
    changes |= {name: text[: LONGEST[name]] for name, text in texts.items()}

    with freeze_time(RECEIVED_AT):
        content = compose(**changes, **extras).content

    letter = letter_of(**changes, **extras)
    hold(content)
    assert read(content)[0] == f"Subject: {letter.subject}"
    assert part(content, "plain") == TEXT.render(letter=letter)
