"""From a submission to the bytes of an e-mail: what is shown, and that no visitor's text gets out of its place."""

from __future__ import annotations

import email
import json
import re
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage, Message
from email.policy import compat32
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any, cast

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from app.contact.message import HIDDEN, LABELS, Composer
from app.contact.schema import ContactSchema, examine
from app.mail import message as mail
from app.mailbox import Mailbox
from tests.factories import REFERENCE, REQUEST_ID, contact_body
from tests.messages import POLICIES, READER

KINDS = {
    "demo": "Solicitud de demostración",
    "ventas": "Mensaje para el equipo de ventas",
    "onboarding": "Alta de comercio",
    "distribuidor": "Candidatura al programa de distribuidores",
}

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

EXACT_TEXTS = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "equals signs": "a=b==c=3D=\t=",
    "spaces at the end of lines": "a \nb\t\nc \t \nd ",
    "dots": "a\n.\n..\n.b",
    "empty lines": "a\n\n\nb",
    "a line like an mbox separator": "a\nFrom b\n>From c",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "tabs": "a\tb\t\tc",
    "a line of hyphens": "a\n-- \n--=_\n--",
    "combining marks": "n\u0303 a\u0301 \u200f\u202e",
    "HTML": "<b>&amp; \"'</b>",
}

MARKUP = {
    "script": "<script>alert(1)</script>",
    "end of a cell": "</td></tr></table><h1>x</h1>",
    "end of an attribute": "\"'><img src=x onerror=alert(1)>",
    "entities": "&lt;b&gt; &amp;amp; &#60;",
    "comment": "<!-- x --> <![CDATA[ x ]]>",
    "template": "{{ 7 * 7 }} {% raw %} {# x #}",
}


END_OF_HEADERS = b"\r\n\r\n"
SENDER = Mailbox("web@example.com", "Formulario de España")
COMPOSER = Composer(SENDER, [Mailbox("ventas@example.com", "Ventas, Uruguay")])


def compose(composer: Composer = COMPOSER, /, **changes: Any) -> mail.Message:
    values, faults = examine(contact_body(**changes))
    assert not faults
    return composer.compose(values, REQUEST_ID)


def parse(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=READER)


def part(message: mail.Message, subtype: str) -> str:
    body = parse(message.content).get_body((subtype,))
    assert isinstance(body, EmailMessage)
    return cast("str", body.get_content()).replace("\r\n", "\n")


def plain(message: mail.Message) -> str:
    return part(message, "plain")


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
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)


class Page(HTMLParser):
    """The rows of the HTML part, and every tag in it with its attributes."""

    def __init__(self, message: mail.Message) -> None:
        super().__init__()
        self.rows: dict[str, str] = {}
        self.tags: set[str] = set()
        self._cells: list[str] = []
        self.feed(part(message, "html"))
        self.close()
        self.rows = dict(zip(self._cells[::2], self._cells[1::2], strict=True))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(" ".join([tag, *(f"{name}={value}" for name, value in attrs)]))
        if tag in {"th", "td"}:
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        if self._cells and self.lasttag in {"th", "td"} and data.strip("\n"):
            self._cells[-1] += data


class TestHeaders:
    def test_the_message_goes_from_the_service_to_the_sales_team(self) -> None:
        recipients = [Mailbox("a@example.com", "Ventas, Uruguay"), Mailbox("b@example.com")]

        parsed = parse(compose(Composer(SENDER, recipients)).content)

        assert [str(address) for address in parsed["From"].addresses] == ["Formulario de España <web@example.com>"]
        assert [str(address) for address in parsed["To"].addresses] == [
            '"Ventas, Uruguay" <a@example.com>',
            "b@example.com",
        ]

    def test_many_recipients_stay_within_the_line_length(self) -> None:
        recipients = [f"{'x' * 60}{n}@example.com" for n in range(100)]

        content = compose(Composer(SENDER, [Mailbox(address, "Ventas ñ") for address in recipients])).content

        assert_travels_safely(content)
        assert [address.addr_spec for address in parse(content)["To"].addresses] == recipients

    def test_the_date_is_that_of_the_submission(self) -> None:
        with freeze_time("2030-01-01 12:00:00"):
            message = compose()

        assert parsedate_to_datetime(parse(message.content)["Date"]) == datetime(2030, 1, 1, 12, tzinfo=UTC)

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
    @pytest.mark.parametrize("form_type", KINDS)
    def test_it_names_the_form_kind_and_the_company(self, form_type: str) -> None:
        content = compose(form_type=form_type).content

        assert decoded_subject(content) == f"{KINDS[form_type]}: Comercio Ejemplo S.L."
        assert parse(content)["Subject"] == f"{KINDS[form_type]}: Comercio Ejemplo S.L."

    def test_without_a_company_it_names_the_person(self) -> None:
        assert decoded_subject(compose(empresa=None).content) == f"{KINDS['demo']}: María Ñúñez"

    def test_without_either_it_names_the_address(self) -> None:
        assert decoded_subject(compose(empresa="", nombre="").content) == f"{KINDS['demo']}: maria@example.com"

    @pytest.mark.parametrize("blank", [" ", "\t", "\r\n", "\0", "\u2028", "\u3000"], ids=ascii)
    def test_a_company_that_cannot_be_seen_names_nobody(self, blank: str) -> None:
        assert decoded_subject(compose(empresa=blank).content) == f"{KINDS['demo']}: María Ñúñez"

    @pytest.mark.parametrize("form_type", KINDS)
    @pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
    def test_it_shows_what_was_typed_on_one_line(self, form_type: str, text: str) -> None:
        content = compose(form_type=form_type, empresa=text[:200]).content

        assert decoded_subject(content).rstrip() == f"{KINDS[form_type]}: {on_one_line(text[:200])}".rstrip()
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

        assert f"Correo electrónico: {address}\n" in plain(message)
        assert Page(message).rows["Correo electrónico"] == address


class TestFields:
    def test_every_field_of_the_form_has_a_label_or_is_hidden(self) -> None:
        assert sorted([*LABELS, *HIDDEN]) == sorted(ContactSchema().fields)

    def test_every_field_shows_with_its_spanish_label(self) -> None:
        message = compose()

        assert Page(message).rows == {
            "Referencia": REFERENCE,
            "Nombre": "María Ñúñez",
            "Empresa": "Comercio Ejemplo S.L.",
            "Correo electrónico": "maria@example.com",
            "Teléfono": "+34 600 000 000",
            "Mensaje": "Quisiera una demostración.\n¿Es posible el jueves?",
        }
        for line in (
            f"Referencia: {REFERENCE}",
            "Nombre: María Ñúñez",
            "Empresa: Comercio Ejemplo S.L.",
            "Correo electrónico: maria@example.com",
            "Teléfono: +34 600 000 000",
            "Mensaje: Quisiera una demostración.",
        ):
            assert line in plain(message).split("\n")

    @pytest.mark.parametrize("form_type", KINDS)
    def test_both_bodies_name_the_form_kind(self, form_type: str) -> None:
        message = compose(form_type=form_type)

        assert KINDS[form_type] in plain(message)
        assert f"<h1>{KINDS[form_type]}</h1>" in part(message, "html")

    def test_a_field_that_was_left_empty_does_not_show(self) -> None:
        message = compose(telefono="", mensaje=None)

        assert list(Page(message).rows) == ["Referencia", "Nombre", "Empresa", "Correo electrónico"]
        assert "Teléfono" not in plain(message)

    @pytest.mark.parametrize(
        ("name", "label"), [("tema", "Tema"), ("tipo_de_partner", "Tipo de partner"), ("año", "Año"), ("país", "País")]
    )
    def test_an_extra_field_shows_under_its_name(self, name: str, label: str) -> None:
        message = compose(**{name: "Precios"})

        assert Page(message).rows[label] == "Precios"
        assert f"{label}: Precios\n" in plain(message)

    @pytest.mark.parametrize(
        "value", [0, 42, -1.5, True, False, [], ["a", 1], {"ciudad": "Cádiz", "tiendas": [1, {"n": None}]}], ids=str
    )
    def test_an_extra_value_of_any_json_type_shows(self, value: Any) -> None:
        message = compose(tema=value)

        assert json.loads(Page(message).rows["Tema"]) == value
        assert f"Tema: {Page(message).rows['Tema']}\n" in plain(message)

    def test_spanish_letters_in_a_json_value_stay_readable(self) -> None:
        assert "Cádiz" in plain(compose(tema={"ciudad": "Cádiz"}))

    @pytest.mark.parametrize("form_type", KINDS)
    def test_captcha_honeypot_and_ts_never_show(self, form_type: str) -> None:
        message = compose(
            form_type=form_type, ts=1234567890123, captcha_expected="Zq7Kp", captcha_input="zQ7kP", _bp_check="bot"
        )

        text = message.content.decode() + plain(message) + part(message, "html")
        for hidden in ("zq7kp", "captcha", "1234567890123", "honeypot", "bp_check", "bp check"):
            assert hidden not in text.lower()

    @pytest.mark.parametrize("text", EXACT_TEXTS.values(), ids=EXACT_TEXTS)
    def test_the_text_arrives_exactly(self, text: str) -> None:
        message = compose(mensaje=text)

        assert Page(message).rows["Mensaje"] == text
        shown = plain(message).partition("\nMensaje: ")[2]
        assert [line.removeprefix("    ") for line in shown.split("\n")][: text.count("\n") + 1] == text.split("\n")

    @pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r"], ids=ascii)
    def test_the_line_breaks_of_any_system_start_a_line(self, line_break: str) -> None:
        assert Page(compose(mensaje=f"uno{line_break}dos")).rows["Mensaje"] == "uno\ndos"


class TestMarkup:
    @pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
    def test_what_was_typed_stays_text_in_html(self, text: str) -> None:
        page = Page(
            compose(nombre=text, empresa=text, telefono=text[:40], mensaje=text, tema=text, lista=[{text: text}])
        )

        assert page.tags == Page(compose(tema="x")).tags
        assert [page.rows[label] for label in ("Nombre", "Empresa", "Mensaje", "Tema")] == [text] * 4
        assert page.rows["Teléfono"] == text[:40]
        assert json.loads(page.rows["Lista"]) == [{text: text}]

    @pytest.mark.parametrize("name", MARKUP.values(), ids=MARKUP)
    def test_the_name_of_an_extra_field_stays_text_in_html(self, name: str) -> None:
        page = Page(compose(**{name: "x"}))

        assert page.tags == Page(compose(tema="x")).tags
        assert name.replace("_", " ").casefold() in {label.casefold() for label in page.rows}


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

    @pytest.mark.parametrize(
        "line_break",
        ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n\n"],
        ids=ascii,
    )
    @pytest.mark.parametrize("field", ["nombre", "empresa", "telefono", "mensaje", "tema"])
    def test_no_text_pretends_to_be_another_field(self, field: str, line_break: str) -> None:
        message = compose(**{field: f"x{line_break}Correo electrónico: y"})

        lines = [line for line in plain(message).splitlines() if line.startswith("Correo electrónico:")]
        assert lines == ["Correo electrónico: maria@example.com"]

    @pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028"], ids=ascii)
    def test_no_name_of_an_extra_field_pretends_to_be_another_field(self, line_break: str) -> None:
        message = compose(**{f"x{line_break}Correo electrónico": "y"})

        lines = [line for line in plain(message).splitlines() if line.startswith("Correo electrónico:")]
        assert lines == ["Correo electrónico: maria@example.com"]


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

    @pytest.mark.parametrize("character", ["x", "ñ", "支", "😀", "="])
    def test_the_longest_company_is_named_in_full(self, character: str) -> None:
        content = compose(empresa=character * 200).content

        assert decoded_subject(content) == f"{KINDS['demo']}: {character * 200}"


any_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(any_text, children, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(
    form_type=st.sampled_from(list(KINDS)),
    texts=st.fixed_dictionaries({}, optional=dict.fromkeys(("nombre", "empresa", "telefono", "mensaje"), any_text)),
    extras=st.dictionaries(any_text.filter(lambda name: name not in contact_body()), json_values, max_size=3),
)
def test_whatever_is_typed_the_message_keeps_its_form(
    form_type: str, texts: dict[str, str], extras: dict[str, Any]
) -> None:
    texts = {name: text[: LONGEST[name]] for name, text in texts.items()}
    changes: dict[str, Any] = {"nombre": None, "empresa": None} | texts

    content = compose(form_type=form_type, **changes, **extras).content

    assert_travels_safely(content)
    assert_nothing_got_out(content)
    named = [on_one_line(text) for name in ("empresa", "nombre") if (text := texts.get(name, ""))]
    who = next((text for text in named if text.strip()), "maria@example.com")
    assert decoded_subject(content).split() == f"{KINDS[form_type]}: {who}".split()
