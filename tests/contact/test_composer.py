"""From a submission to the bytes of an e-mail: its header, and that no visitor's text gets out of its place."""

from __future__ import annotations

import email
import re
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage, Message
from email.policy import compat32
from email.utils import parsedate_to_datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from app.contact.composer import TEXT, Composer
from app.mail import message as mail
from app.mailbox import Mailbox, encoded_words
from tests.contact.submissions import RECEIVED_AT, checked, letter_of
from tests.factories import REFERENCE, REQUEST_ID, SUBJECTS, UTC_ZONE, contact_body
from tests.messages import POLICIES, READER

INJECTIONS = {
    "CRLF": "a\r\nBcc: x@example.com",
    "CRLF and a body": "a\r\n\r\nBcc: x@example.com\r\n\r\n",
    "CRLF and a continuation": "a\r\n Bcc: x@example.com\r\nBcc: y@example.com",
    "LF": "a\nBcc: x@example.com",
    "CR": "a\rBcc: x@example.com",
    "NUL": "a\0Bcc: x@example.com",
    "VT": "a\x0bBcc: x@example.com",
    "FF": "a\x0cBcc: x@example.com",
    "FS": "a\x1cBcc: x@example.com",
    "GS": "a\x1dBcc: x@example.com",
    "RS": "a\x1eBcc: x@example.com",
    "NEL": "a\x85Bcc: x@example.com",
    "LS": "a\u2028Bcc: x@example.com",
    "PS": "a\u2029Bcc: x@example.com",
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
    "lone dot": ".\r\n.\r\nBcc: x@example.com",
}
FIELDS = ["nombre", "empresa", "telefono", "mensaje", "tema"]
LONGEST = {"nombre": 200, "empresa": 200, "telefono": 40, "mensaje": 5000, "tema": 60_000}

END_OF_HEADERS = b"\r\n\r\n"
SENDER = Mailbox("web@example.com", "Formulario de España")
MONTEVIDEO = Composer(SENDER, lambda _: [SENDER], ZoneInfo("America/Montevideo"))
COMPOSER = Composer(SENDER, lambda _: [Mailbox("ventas@example.com", "Ventas, Uruguay")], UTC_ZONE)


def compose(composer: Composer = COMPOSER, /, **changes: Any) -> mail.Message:
    return composer.compose(checked(**changes), REQUEST_ID)


def parse(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=READER)


def part(content: bytes, subtype: str) -> str:
    body = parse(content).get_body((subtype,))
    assert isinstance(body, EmailMessage)
    return cast("str", body.get_content()).replace("\r\n", "\n")


def header_names(content: bytes) -> list[str]:
    """As they stand in the bytes: the lines before the first empty one that continue no other."""
    lines = content.partition(END_OF_HEADERS)[0].split(b"\r\n")
    return [line.partition(b":")[0].decode() for line in lines if not line.startswith((b" ", b"\t"))]


def structure(message: Message) -> list[tuple[str, list[str]]]:
    return [(each.get_content_type(), list(each.keys())) for each in message.walk()]


USUAL = compose().content
USUAL_NAMES = header_names(USUAL)
USUAL_STRUCTURES = [structure(email.message_from_bytes(USUAL, policy=policy)) for policy in POLICIES]


def assert_nothing_got_out(content: bytes) -> None:
    assert header_names(content) == USUAL_NAMES
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


def assert_travels_safely(content: bytes) -> None:
    assert content.isascii()
    assert re.search(rb"[\r\n]", content.replace(b"\r\n", b"")) is None
    assert content.endswith(b"\r\n")
    assert max(map(len, content.split(b"\r\n"))) <= 998


def decoded_subject(content: bytes) -> str:
    """As a reader that follows RFC 2047 shows it."""
    subject = email.message_from_bytes(content, policy=compat32)["Subject"]
    return str(make_header(decode_header(re.sub(r"\r?\n(?=[ \t])", "", subject))))


def on_one_line(text: str) -> str:
    return " ".join(re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())


class TestHeaders:
    def test_the_message_goes_from_the_service_to_the_sales_team(self) -> None:
        recipients = [Mailbox("a@example.com", "Ventas, Uruguay"), Mailbox("b@example.com")]

        parsed = parse(compose(Composer(SENDER, lambda _: recipients, UTC_ZONE)).content)

        assert [str(address) for address in parsed["From"].addresses] == ["Formulario de España <web@example.com>"]
        assert [str(address) for address in parsed["To"].addresses] == [
            '"Ventas, Uruguay" <a@example.com>',
            "b@example.com",
        ]

    def test_many_recipients_stay_within_the_line_length(self) -> None:
        recipients = [f"{'x' * 60}{n}@example.com" for n in range(100)]

        content = compose(
            Composer(SENDER, lambda _: [Mailbox(address, "Ventas ñ") for address in recipients], UTC_ZONE)
        ).content

        assert_travels_safely(content)
        assert [address.addr_spec for address in parse(content)["To"].addresses] == recipients

    def test_the_date_is_that_of_the_submission(self) -> None:
        with freeze_time("2030-01-01 12:00:00"):
            message = compose()

        assert parsedate_to_datetime(parse(message.content)["Date"]) == datetime(2030, 1, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("timezone", "at", "date", "shown"),
        [
            ("UTC", "2030-01-01 12:05:09", "Tue, 01 Jan 2030 12:05:09 +0000", "01/01/2030 a las 12:05 (UTC)"),
            ("Etc/UTC", "2030-01-01 12:05:09", "Tue, 01 Jan 2030 12:05:09 +0000", "01/01/2030 a las 12:05 (UTC)"),
            (
                "America/Montevideo",
                "2030-01-01 01:30:00",
                "Mon, 31 Dec 2029 22:30:00 -0300",
                "31/12/2029 a las 22:30 (Montevideo, UTC-3)",
            ),
            (
                "Europe/Madrid",
                "2030-07-01 12:00:00",
                "Mon, 01 Jul 2030 14:00:00 +0200",
                "01/07/2030 a las 14:00 (Madrid, UTC+2)",
            ),
            (
                "Europe/Madrid",
                "2030-01-01 12:00:00",
                "Tue, 01 Jan 2030 13:00:00 +0100",
                "01/01/2030 a las 13:00 (Madrid, UTC+1)",
            ),
            (
                "America/Argentina/Buenos_Aires",
                "2030-01-01 12:00:00",
                "Tue, 01 Jan 2030 09:00:00 -0300",
                "01/01/2030 a las 09:00 (Buenos Aires, UTC-3)",
            ),
            (
                "America/St_Johns",
                "2030-01-01 12:00:00",
                "Tue, 01 Jan 2030 08:30:00 -0330",
                "01/01/2030 a las 08:30 (St Johns, UTC-3:30)",
            ),
            ("Etc/GMT+3", "2030-01-01 12:00:00", "Tue, 01 Jan 2030 09:00:00 -0300", "01/01/2030 a las 09:00 (UTC-3)"),
            (
                "Asia/Kolkata",
                "2030-01-01 12:00:00",
                "Tue, 01 Jan 2030 17:30:00 +0530",
                "01/01/2030 a las 17:30 (Kolkata, UTC+5:30)",
            ),
            (
                "Europe/London",
                "2030-01-01 12:00:00",
                "Tue, 01 Jan 2030 12:00:00 +0000",
                "01/01/2030 a las 12:00 (London, UTC)",
            ),
        ],
    )
    def test_date_and_shown_time_are_those_of_the_time_zone(
        self, timezone: str, at: str, date: str, shown: str
    ) -> None:
        with freeze_time(at):
            message = compose(Composer(SENDER, lambda _: [SENDER], ZoneInfo(timezone)))

        assert parse(message.content)["Date"] == date
        line = f"Recibido el {shown} desde el formulario de la web."
        assert line in part(message.content, "plain").split("\n")
        assert f">{line}<br>" in part(message.content, "html")

    def test_no_machine_answers_it(self) -> None:
        message = parse(compose().content)

        assert message["Auto-Submitted"] == "auto-generated"
        assert message["X-Auto-Response-Suppress"] == "All"

    def test_each_message_has_an_id_of_its_own_that_begins_with_the_request_s(self) -> None:
        messages = [compose() for _ in range(100)]

        assert [parse(message.content)["Message-ID"] for message in messages] == [
            message.message_id for message in messages
        ]
        assert len({message.message_id for message in messages}) == 100
        pattern = rf"<{REQUEST_ID}\.[0-9a-f]{{16}}@example\.com>"
        assert all(re.fullmatch(pattern, message.message_id) for message in messages)

    def test_the_reference_is_the_beginning_of_the_request_s_id(self) -> None:
        assert parse(compose().content)["X-Reference"] == REFERENCE

    def test_there_is_a_plain_and_a_html_alternative(self) -> None:
        parts = [part.get_content_type() for part in parse(compose().content).walk()]

        assert parts == ["multipart/alternative", "text/plain", "text/html"]


class TestSubject:
    @pytest.mark.parametrize("form_type", SUBJECTS)
    def test_it_names_the_form_kind_and_the_company(self, form_type: str) -> None:
        content = compose(form_type=form_type).content

        assert decoded_subject(content) == f"{SUBJECTS[form_type]}: Comercio Ejemplo S.L. · {REFERENCE}"
        assert parse(content)["Subject"] == f"{SUBJECTS[form_type]}: Comercio Ejemplo S.L. · {REFERENCE}"

    def test_without_a_company_it_names_the_person(self) -> None:
        assert decoded_subject(compose(empresa=None).content) == f"Demo: María Ñúñez · {REFERENCE}"

    def test_without_either_it_names_the_address(self) -> None:
        assert decoded_subject(compose(empresa="", nombre="").content) == f"Demo: maria@example.com · {REFERENCE}"

    @pytest.mark.parametrize("form_type", SUBJECTS)
    @pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
    def test_it_shows_what_was_typed_on_one_line(self, form_type: str, text: str) -> None:
        content = compose(form_type=form_type, empresa=text[:200]).content

        typed = on_one_line(text).replace("=?", "= ?")
        assert decoded_subject(content) == f"{SUBJECTS[form_type]}: {typed} · {REFERENCE}"
        assert not re.search(r"[\r\n]", parse(content)["Subject"])


class TestReplyTo:
    @pytest.mark.parametrize(
        ("address", "reply_to"),
        [
            ("maria@example.com", "maria@example.com"),
            ("  maria@example.com\t", "maria@example.com"),
            ("o'hara+tag!#$%&*/=?^_`{|}~@example.com", "o'hara+tag!#$%&*/=?^_`{|}~@example.com"),
            ("maria@españa.es", "maria@xn--espaa-rta.es"),
            ("maria@例子.公司", "maria@xn--fsqu00a.xn--55qx5d"),
        ],
    )
    def test_it_is_the_visitor_s_address(self, address: str, reply_to: str) -> None:
        parsed = parse(compose(email=address).content)

        assert [each.addr_spec for each in parsed["Reply-To"].addresses] == [reply_to]

    @pytest.mark.parametrize(
        "address",
        [
            "ñandú@correo.es",
            "用户@例子.公司",
            "josé@example.com",
            "=?utf-8?q?a=0D=0ABcc=3A_victim=40example.org?=@example.com",
        ],
    )
    def test_there_is_none_when_a_header_cannot_carry_the_address(self, address: str) -> None:
        content = compose(email=address).content

        assert header_names(content) == [name for name in header_names(USUAL) if name != "Reply-To"]
        assert content.isascii()

    @pytest.mark.parametrize("address", ["maria@example.com", "maria@españa.es", "ñandú@correo.es", "用户@例子.公司"])
    def test_the_address_stands_readable_in_both_bodies(self, address: str) -> None:
        message = compose(email=address)

        assert f"Correo electrónico: {address}\n" in part(message.content, "plain")
        assert f">{address}</a>" in part(message.content, "html")

    @pytest.mark.parametrize(
        "name",
        ["Ana", "María Ñúñez", "Ana P. Gil", "O'Hara & hijos", "支付", "x" * 60, "ñ " * 99 + "ñ", "Ana (Banco) [1]"],
    )
    def test_it_has_the_visitor_s_name(self, name: str) -> None:
        content = compose(nombre=name).content

        for policy in (READER, READER.clone(refold_source="all")):
            message = email.message_from_bytes(content, policy=policy)
            for each in (message, email.message_from_bytes(message.as_bytes(), policy=READER)):
                (mailbox,) = each["Reply-To"].addresses
                # The email package folds a long name into more spaces.
                assert (" ".join(mailbox.display_name.split()), mailbox.addr_spec) == (name, "maria@example.com")

    @pytest.mark.parametrize(
        "name",
        [
            "x <jefa@banco.example>, y",
            *(f"{name}{special}{name}" for special in '@<>,;:"\\' for name in ("a", "ñ")),
            "=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=",
            "=?utf-8?b?eCA8amVmYUBiYW5jby5leGFtcGxlPiwgeQ==?=",
            *(f"ñ{bracket}ñ" for bracket in "()[]"),
            "x" * 100 + " (x)",
            "\u202e",
            "\u3164 \u200b",
        ],
        ids=ascii,
    )
    def test_a_name_that_could_become_something_else_is_left_out(self, name: str) -> None:
        assert b"\r\nReply-To: maria@example.com\r\n" in compose(nombre=name).content

    def test_the_email_package_makes_an_address_of_an_encoded_name(self) -> None:
        # This is why a name with such a character is left out. When it fails, the rule may go.
        encoded = f"Reply-To: {encoded_words('x <jefa@banco.example>, y')} <maria@example.com>\r\n\r\n".encode()
        rewriting = READER.clone(refold_source="all")

        rewritten = email.message_from_bytes(encoded, policy=rewriting).as_bytes()

        assert [it.addr_spec for it in parse(encoded)["Reply-To"].addresses] == ["maria@example.com"]
        assert [it.addr_spec for it in parse(rewritten)["Reply-To"].addresses] == [
            "jefa@banco.example",
            "maria@example.com",
        ]


class TestInjection:
    @pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("form_type", ["demo", "ventas"])
    def test_text_in_a_field_starts_no_header_and_no_part(self, form_type: str, field: str, text: str) -> None:
        # The person names the subject where there is no company.
        changes = {"empresa": None} | {field: text[: LONGEST[field]]}

        content = compose(form_type=form_type, **changes).content

        assert_nothing_got_out(content)
        assert_travels_safely(content)

    @pytest.mark.parametrize("name", INJECTIONS.values(), ids=INJECTIONS)
    def test_the_name_of_an_extra_field_starts_no_header_and_no_part(self, name: str) -> None:
        content = compose(**{name: name}).content

        assert_nothing_got_out(content)
        assert_travels_safely(content)


class TestLines:
    @pytest.mark.parametrize("character", ["x", " ", "ñ", "支", "😀", "=", ".", "<", "?", "\n", "\u2028"], ids=ascii)
    @pytest.mark.parametrize("form_type", ["demo", "ventas"])
    def test_the_longest_texts_stay_within_the_line_length(self, form_type: str, character: str) -> None:
        longest = {name: character * length for name, length in LONGEST.items()}

        content = compose(form_type=form_type, **longest).content

        assert_travels_safely(content)
        assert_nothing_got_out(content)

    def test_the_longest_name_of_an_extra_field_stays_within_the_line_length(self) -> None:
        content = compose(**{"ñ" * 30_000: "x"}).content

        assert_travels_safely(content)

    @pytest.mark.parametrize("length", [*range(30, 70), 90])
    def test_no_header_line_is_longer_than_it_should_be(self, length: int) -> None:
        header, _, _ = compose(nombre="x" * length, empresa="y" * length).content.partition(END_OF_HEADERS)

        assert max(map(len, header.split(b"\r\n"))) <= 78

    def test_line_breaks_are_not_encoded(self) -> None:
        assert not re.search(b"=0[AD]", compose(mensaje="uno\n\ndos").content)

    def test_no_line_is_one_that_an_mbox_would_change(self) -> None:
        content = compose(mensaje="a\nFrom b\n\nFrom c").content

        assert b"\r\nFrom " not in content
        assert part(content, "plain").endswith("\n\na\nFrom b\n\nFrom c\n")

    def test_no_text_can_know_or_hold_the_boundary(self) -> None:
        boundaries = {email.message_from_bytes(compose().content).get_boundary("") for _ in range(20)}

        assert len(boundaries) == 20
        # Quoted-printable never writes an equals sign before an underscore (RFC 2045, section 6.7).
        assert all(boundary.startswith("=_") for boundary in boundaries)

    @pytest.mark.parametrize("character", ["x", "ñ", "支", "😀", "=", "א"])
    def test_the_longest_subject_survives(self, character: str) -> None:
        content = compose(empresa=character * 200).content

        assert decoded_subject(content) == letter_of(empresa=character * 200).subject


any_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(any_text, children, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(
    form_type=st.sampled_from(list(SUBJECTS)),
    texts=st.fixed_dictionaries({}, optional=dict.fromkeys(("nombre", "empresa", "telefono", "mensaje"), any_text)),
    extras=st.dictionaries(any_text.filter(lambda name: name not in contact_body()), json_values, max_size=3),
)
def test_whatever_is_typed_the_message_keeps_its_form(
    form_type: str, texts: dict[str, str], extras: dict[str, Any]
) -> None:
    texts = {name: text[: LONGEST[name]] for name, text in texts.items()}
    changes: dict[str, Any] = {"nombre": None, "empresa": None} | texts

    with freeze_time(RECEIVED_AT):
        content = compose(MONTEVIDEO, form_type=form_type, **changes, **extras).content

    assert_travels_safely(content)
    assert_nothing_got_out(content)
    subject = letter_of(form_type=form_type, **changes).subject
    assert decoded_subject(content) == parse(content)["Subject"] == subject
    assert len(subject) <= 120
    assert part(content, "plain") == TEXT.render(letter=letter_of(form_type=form_type, **changes, **extras))
