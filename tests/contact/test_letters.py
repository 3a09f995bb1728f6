"""What a form becomes: every row is what was typed, and the lines of the message that it changes."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from freezegun import freeze_time

from app.contact.composer import HTML, TEXT
from app.contact.letter import ASKED, HIDDEN, MESSAGE, MOST_ROWS, SENDER
from app.contact.schema import ContactSchema, validate
from tests.contact.reading import COMPOSER, Page, compose, letter_of, part, read
from tests.factories import REFERENCE, REQUEST_ID, SUBJECTS, contact_body

INVISIBLE = ["\u200b", "\u202e", "\u2066\u2069", "\u3164", "\u2800", "\ufe0f", "\xad\ufeff"]


def lines_of(**typed: Any) -> list[str]:
    """The lines of a message that are not empty, but for the one with its time."""
    lines = read(compose(**({"otro": "x"} | typed)).content)
    return [line for line in lines if line and not line.endswith(" de la web.")]


USUAL = lines_of()


def shown(**typed: Any) -> str:
    """The lines that a message has and the usual one has not; behind a minus the labels that it lacks."""
    lines = lines_of(**typed)
    added = [line for line in lines if line not in USUAL]
    kept = {line.partition(":")[0] for line in lines}
    lost = dict.fromkeys(line.partition(":")[0] for line in USUAL if line.partition(":")[0] not in kept)
    assert [line for line in lines if line in USUAL] == [line for line in USUAL if line in lines]
    return "\n".join([*added, *(f"- {label}" for label in lost)])


BLANK = ["", " ", "\t\n", *INVISIBLE]
NOTHING: list[Any] = [
    [],
    {},
    [None],
    {"a": None},
    [[], {}],
    *BLANK,
    *([it, []] for it in BLANK),
    *({"a": it} for it in BLANK),
]
VALUES: dict[str, tuple[Any, str]] = {
    "true": (True, "Dato: Sí"),
    "false": (False, "Dato: No"),
    "zero": (0, "Dato: 0"),
    "float": (-1.5, "Dato: -1,5"),
    "large number": (10**40, "Dato: 1" + "0" * 40),
    "two lines": ("uno\r\ndos", "Dato:\n    uno\n    dos"),
    "many spaces": (" a   b\n\t c ", "Dato:\n    a b\n    c"),
    "list": (["a", 1, None, "", True], "Dato:\n    - a\n    - 1\n    - Sí"),
    "lists in a list": (
        [["a\nb"], ["ñ", [1.5, None]], {"n": True}],
        'Dato:\n    - ["a\\nb"]\n    - ["ñ", [1.5, null]]\n    - {"n": true}',
    ),
    "object": (
        {"ciudad": "Cádiz", "calle": None, "tiendas": [1]},
        "Dato:\n    Ciudad: Cádiz\n    Tiendas: [1]",
    ),
    "object with lines": ({"nota": "dos\nlíneas"}, "Dato:\n    Nota:\n        dos\n        líneas"),
    "controls in a list": ([["a\u202e\u2028\x1b"]], 'Dato:\n    - ["a \\u001b"]'),
    "label of the service in an object": ({"referencia": "x"}, "Dato:\n    Referencia: x"),
    "no name in an object": ({"": "x"}, "Dato:\n    (sin nombre): x"),
    "right to left": (["דב (1)"], "Dato:\n    - \u2068דב (1)\u2069"),
    **{f"nothing: {empty!a}": (empty, "") for empty in NOTHING},
}
LABELS = {
    "cajasAbiertas": "Cajas abiertas",
    "cajas_abiertas": "Cajas abiertas",
    "CajasAbiertas": "Cajas abiertas",
    "Cajas Abiertas": "Cajas Abiertas",
    "cajas-abiertas": "Cajas abiertas",
    "cajas abiertas": "Cajas abiertas",
    "país": "País",
    "Email": "Email",
    "mensaje2": "Mensaje2",
    "tema favorito": "Tema favorito",
    "añoFundación": "Año fundación",
    "últimaÚltima": "Última última",
    "numeroRUT": "Numero RUT",
    "RUT": "RUT",
    "linea2Calle": "Linea2 calle",
    "e-mail": "E mail",
    "a__b\nc\u2028d": "A b c d",
    "cajas\u200bAbiertas\u202e": "Cajas abiertas",
    "支付": "支付",
    **dict.fromkeys(("", "__", " ", "\u200b"), "(sin nombre)"),
    "referencias": "Referencias",
    "nombre_comercial": "Nombre comercial",
    "preferencia": "Preferencia",
    **{
        name: f"{label} (campo adicional)"
        for name, label in {
            "referencia": "Referencia",
            "Referencia: 3F0C-9A1B": "Referencia: 3 f0 c 9 a1 b",
            "correo_electronico": "Correo electronico",
            "Correo electrónico": "Correo electrónico",
            "tipo de colaboracio\u0301n": "Tipo de colaboracio\u0301n",
            "correo electrónico": "Correo electrónico",
            "correo_electrónico": "Correo electrónico",
            "mensaje ": "Mensaje",
            "MENSAJE": "MENSAJE",
            "nombre ": "Nombre",
            "Para responder:": "Para responder:",
            "demas_datos": "Demas datos",
            "1. Referencia": "1. Referencia",
            "*Referencia*": "*Referencia*",
            "recibido_el_01/02/2030": "Recibido el 01/02/2030",
        }.items()
    },
}
PHONES = {
    "+34 600 000 001": "tel:+34600000001",
    "600-000-000": "tel:600000000",
    "(91) 123.45.67": "tel:911234567",
    "+44 (0)20 7946 0000": "tel:+442079460000",
    "+54 (011) 4321-5678": "tel:+541143215678",
    "(+598) 99 123 456": "tel:+59899123456",
    **{f"+598 2901{dash}2345": "tel:+59829012345" for dash in "\u2010\u2011\u2012\u2013\u2014\u2212"},
    "tel:+598-2901-2345": "tel:+59829012345",
    "2901\u20132345": "tel:29012345",
    "Tel: 2901 2345": "tel:29012345",
    "(0)20 7946 0000": "tel:02079460000",
    "00598 2123 4567": "tel:0059821234567",
    "123456": "tel:123456",
    "123456789012345": "tel:123456789012345",
    **dict.fromkeys(("12345", "1234567890123456", "600 000 000 ext. 12", "600 000 000, 611 111 111", "34+600000000")),
    **dict.fromkeys(("4321-5678 / 79", "22/11/2026", "llámeme", "600000000;phone-context=x")),
}
"""Telephones, and what their link calls."""

UNFIT_NAMES = [
    "x <jefa@banco.example>, y",
    *(f"{name}{special}{name}" for special in '@<>,;:"\\' for name in ("a", "ñ")),
    "=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=",
    "=?utf-8?b?eCA8amVmYUBiYW5jby5leGFtcGxlPiwgeQ==?=",
    *(f"ñ{bracket}ñ" for bracket in "()[]"),
    "x" * 100 + " (x)",
    ".ñ",
]
"""Names that a program could make another address or a header of when it writes the field anew."""
ANSWERED = {
    "o'hara+tag!#$%&*/=?^_`{|}~@example.com": (
        "o'hara+tag!#$%&*/=?^_`{|}~@example.com",
        "o%27hara%2Btag%21%23%24%25%26%2A%2F%3D%3F%5E_%60%7B%7C%7D~@example.com",
    ),
    "maria@españa.es": ("maria@xn--espaa-rta.es",) * 2,
    "maria@例子.公司": ("maria@xn--fsqu00a.xn--55qx5d",) * 2,
}
"""Addresses, the one to which an answer goes, and as a link has it."""
CALLING = "El botón «Responder» no usará esta dirección: escríbale a la que figura arriba."
COMPANY = "Comercio Ejemplo S.L."
NO_MESSAGE = "- Quisiera una demostración.\n- ¿Es posible el jueves?"
ISOLATED = "Correo electrónico: \u2068\u2068jefa.בנק\u2069@\u2068רע.com\u2069\u2069"
ADDRESS = "maria@example.com"
ARABIC = "\u0666" * 6
AGAIN = "Puede estar repetida: se perdió la respuesta al primer envío."


def subject(who: str, kind: str = "Demo") -> str:
    return f"Subject: {kind}: {who} · {REFERENCE}"


def named(name: str, seen: str | None = None) -> str:
    """What a name changes that can be put before an address."""
    return f"Reply-To: {seen or name} <maria@example.com>\nNombre: {name}"


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"value: {name}": ({"dato": value}, lines) for name, (value, lines) in VALUES.items()},
    **{f"label: {name!a}": ({name: "y"}, f"{label}: y") for name, label in LABELS.items()},
    "two fields with one label": ({"otroDato": "a", "otro_dato": "b"}, "Otro dato: a\nOtro dato: b"),
    "label written from right to left": ({"שם": "y"}, "\u2068שם\u2069: y"),
    "asked by the form": (
        {
            "volumen_mensual": "Hasta 10.000 €",
            "tipo_de_partner": "Integrador",
            "sector": "Hostelería",
            "tema": "Tarifas",
        },
        "Tema: Tarifas\nTipo de colaboración: Integrador\nSector: Hostelería\nVolumen mensual: Hasta 10.000 €",
    ),
    "asked, but no text": ({"tema": {"Nombre": "Ana"}}, "Tema:\n    Nombre: Ana"),
    "asked, in lines": ({"tema": "Precios\n\nMensaje: y"}, "Tema: Precios Mensaje: y"),
    "asked, with spaces that a window wraps": ({"tema": f"a{' ' * 80}Empresa: y"}, "Tema: a Empresa: y"),
    **{f"nobody's name: {blank!a}": ({"nombre": blank}, "Reply-To: maria@example.com\n- Nombre") for blank in BLANK},
    **{
        f"no company: {blank!a}": ({"empresa": blank}, f"{subject('María Ñúñez')}\n- Empresa")
        for blank in (None, "\t", "\r\n", "\0", "\u2028", "\u3000", *BLANK)
    },
    **{f"no telephone: {blank!a}": ({"telefono": blank}, "- Teléfono") for blank in BLANK},
    **{f"nothing asked: {blank!a}": ({"tema": blank}, "") for blank in BLANK},
    **{
        f"no message: {blank!a}": ({"mensaje": blank}, f"Preview: María Ñúñez, {COMPANY}\n- Mensaje\n{NO_MESSAGE}")
        for blank in BLANK
    },
    "neither company nor message": (
        {"empresa": "", "mensaje": ""},
        f"{subject('María Ñúñez')}\nPreview: María Ñúñez\n- Empresa\n- Mensaje\n{NO_MESSAGE}",
    ),
    "company between directions": ({"empresa": "\u2067Banco\u2069"}, f"{subject('Banco')}\nEmpresa: Banco"),
    "neither name nor company nor message": (
        {"nombre": "", "empresa": " ", "mensaje": None},
        f"{subject(ADDRESS)}\nReply-To: {ADDRESS}\nPreview: {ADDRESS}\n- Nombre\n- Empresa\n- Mensaje\n{NO_MESSAGE}",
    ),
    "name written backwards": ({"nombre": "Ana \u202egnp.exe"}, named("Ana gnp.exe", '"Ana gnp.exe"')),
    "name from right to left": ({"nombre": "דב (1)"}, "Reply-To: maria@example.com\nNombre: \u2068דב (1)\u2069"),
    **{f"name {name:.20}": ({"nombre": name}, named(name)) for name in ("Ana", "支付", "x" * 60, "ñ " * 99 + "ñ")},
    **{f"name {name}": ({"nombre": name}, named(name, f'"{name}"')) for name in ("Ana P. Gil", "Ana (Banco) [1]")},
    **{
        f"name unfit for a header: {name!a}": ({"nombre": name}, f"Reply-To: maria@example.com\nNombre: {name}")
        for name in UNFIT_NAMES
    },
    **{
        f"address {address!r}": (
            {"email": address},
            f"Reply-To: María Ñúñez <{reply_to}>\nCorreo electrónico: {address} <{link}>",
        )
        for address, (reply_to, link) in ANSWERED.items()
    },
    "address with blanks around it": ({"email": "  maria@example.com\t"}, ""),
    **{
        f"address that no header carries: {address}": (
            {"email": address},
            f"Correo electrónico: {address} <{link}>\nPara responder: {CALLING}\n- Reply-To",
        )
        for address, link in {
            "ñandú@correo.es": "%C3%B1and%C3%BA@correo.es",
            "josé@example.com": "jos%C3%A9@example.com",
            "用户@例子.公司": "%E7%94%A8%E6%88%B7@%E4%BE%8B%E5%AD%90.%E5%85%AC%E5%8F%B8",
            "=?utf-8?q?x=0ABcc?=@example.com": "%3D%3Futf-8%3Fq%3Fx%3D0ABcc%3F%3D@example.com",
        }.items()
    },
    "address from right to left": ({"email": "jefa.בנק@רע.com"}, f"{ISOLATED}\nPara responder: {CALLING}\n- Reply-To"),
    **{
        f"telephone {phone}": ({"telefono": phone}, f"Teléfono: {phone}" + (f" <{link}>" if link else ""))
        for phone, link in PHONES.items()
    },
    "telephone in other digits": ({"telefono": ARABIC}, f"Teléfono: \u2068{ARABIC}\u2069"),
    "long company": (
        {"empresa": "Ferretería " * 18},
        f"{subject(' '.join(['Ferretería'] * 9) + '…')}\nEmpresa: {' '.join(['Ferretería'] * 18)}",
    ),
    "company from right to left": (
        {"empresa": "שלם (1)"},
        subject("\u2068שלם (1)\u2069") + "\nEmpresa: \u2068שלם (1)\u2069",
    ),
    "long message": (
        {"mensaje": "palabra " * 40},
        f"Preview: {'palabra ' * 16}palabra…\n{'palabra ' * 40}\n{NO_MESSAGE}",
    ),
    "message with markup": (
        {"mensaje": "Uno\n<b>dos</b>"},
        f"Preview: Uno <b>dos</b>\nUno\n<b>dos</b>\n{NO_MESSAGE}",
    ),
    "message of two paragraphs": (
        {"mensaje": "Hola:\r\n\r\n¿Puede ser el lunes?"},
        f"Preview: Hola: ¿Puede ser el lunes?\nHola:\n¿Puede ser el lunes?\n{NO_MESSAGE}",
    ),
    "correction": (
        {"aviso": "Esta solicitud corrige la solicitud\r\n3F0C-9A1B."},
        f"{subject(COMPANY, 'Demo (corrección)')}\nAviso: Esta solicitud corrige la solicitud 3F0C-9A1B.",
    ),
    "notice without a reference": ({"aviso": "Llame al 4491-3F0CA"}, "Aviso: Llame al 4491-3F0CA"),
    "may be repeated": ({"aviso": AGAIN}, f"Aviso: {AGAIN}"),
    "correction that may be repeated": (
        {"aviso": f"{AGAIN} Corrige la solicitud\r\n3F0C-9A1B."},
        f"{subject(COMPANY, 'Demo (corrección)')}\nAviso: {AGAIN} Corrige la solicitud 3F0C-9A1B.",
    ),
    "notice in a list": ({"aviso": ["3F0C-9A1B"]}, "Aviso:\n    - 3F0C-9A1B"),
    "notice in an object": ({"aviso": {"Nombre": "Ana"}}, "Aviso:\n    Nombre: Ana"),
    "notice of a number": ({"aviso": 5}, "Aviso: 5"),
}
"""What was typed, and the lines that it changes."""


@pytest.mark.parametrize(("typed", "lines"), ROWS.values(), ids=ROWS)
def test_what_is_typed_changes_these_lines(typed: dict[str, Any], lines: str) -> None:
    assert shown(**typed) == lines


EVERYTHING: dict[str, Any] = {
    "tema": "Tarifas y condiciones",
    "cajasAbiertas": 20_000,
    "productos": ["TPV", "Pagos en línea"],
    "direccion": {"calle": "Mayor 1", "ciudad": "Cádiz"},
    "contacto": {"nombre": "Luis", "nota": "dos\nlíneas"},
    "aviso": AGAIN,
    "nota": "uno\n\ndos",
}
LETTER = f"""\
Subject: Demo: Comercio Ejemplo S.L. · 3F0C-9A1B
Reply-To: María Ñúñez <maria@example.com>
Preview: Quisiera una demostración. ¿Es posible el jueves?
Solicitud de demostración
Recibido el 01/02/2030 a las 19:30 (UTC) desde el formulario de la web.
Referencia: 3F0C-9A1B

Aviso: {AGAIN}

Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: maria@example.com <maria@example.com>
Teléfono: +34 600 000 000 <tel:+34600000000>

Tema: Tarifas y condiciones

Otros datos

Cajas abiertas: 20000
Productos:
    - TPV
    - Pagos en línea
Direccion:
    Calle: Mayor 1
    Ciudad: Cádiz
Contacto:
    Nombre: Luis
    Nota:
        dos
        líneas
Nota:
    uno

    dos

Mensaje

Quisiera una demostración.
¿Es posible el jueves?
"""


@pytest.mark.parametrize("step", [1, -1], ids=["as it is", "backwards"])
def test_the_letter_is_in_its_own_order_and_other_fields_in_that_of_the_form(step: int) -> None:
    others = ["cajasAbiertas", "productos", "direccion", "contacto", "nota"]
    body = contact_body(**EVERYTHING)
    known = [name for name in body if name not in others][::step]
    with freeze_time("2030-02-01 19:30:00"):
        message = COMPOSER.compose(validate({name: body[name] for name in [*known, *others]})[0], REQUEST_ID)

    assert "\n".join(read(message.content)) == LETTER


TITLES = {
    "demo": "Solicitud de demostración",
    "ventas": "Mensaje para el equipo de ventas",
    "onboarding": "Alta de comercio",
    "distribuidor": "Solicitud de distribuidor",
}


@pytest.mark.parametrize("kind", TITLES)
def test_subject_and_title_name_the_kind(kind: str) -> None:
    added = shown(form_type=kind).split("\n")[:2]

    assert (added if kind != "demo" else USUAL[:4:3]) == [subject(COMPANY, SUBJECTS[kind]), TITLES[kind]]


@pytest.mark.parametrize(
    "typed", [{}, {"mensaje": None}, {"nombre": None, "empresa": None, "telefono": None, "mensaje": None}]
)
def test_parts_without_content_are_left_out(typed: dict[str, Any]) -> None:
    headings = [
        line for line in part(compose(**typed).content, "plain").split("\n") if line in ("Otros datos", "Mensaje")
    ]

    assert headings == ([] if typed else ["Mensaje"])


def test_each_field_of_the_service_has_a_place_or_is_hidden() -> None:
    assert {*ContactSchema().fields} <= {*SENDER, *ASKED, MESSAGE, *HIDDEN}


EXACT_TEXTS = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "equals signs": "a=b==c=3D= =",
    "spaces": "  a  b   c \n d  \n",
    "tabs": "a\tb\n\tc",
    "dots": "a\n.\n..\n.b",
    "empty lines": "a\n\n\nb",
    "a line like an mbox separator": "a\nFrom b\n>From c",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "a line of hyphens": "a\n-- \n--=_\n--",
    "HTML": "<b>&amp; \"'</b>",
    "braces": "{parts} {0} {{x}} %s",
}
MARKUP = {
    "script": "<script>alert(1)</script>",
    "end of a cell": "</td></tr></table><h1>x</h1>",
    "end of an attribute": "\"'><img src=x onerror=alert(1)>",
    "entities": "&lt;b&gt; &amp;amp; &#60;",
    "comment": "<!-- x --> <![CDATA[ x ]]>",
    "template": "{kind} {{ 7 * 7 }} {0.__class__} %s",
}


@pytest.mark.parametrize("message", EXACT_TEXTS.values(), ids=EXACT_TEXTS)
def test_the_message_arrives_as_it_was_typed_and_ends_the_letter(message: str) -> None:
    content = compose(mensaje=message, otro="x").content

    assert part(content, "plain").partition("\n\nMensaje\n\n")[2] == f"{message}\n"
    assert "\n".join(read(content)).endswith(f"\n\nMensaje\n\n{message}\n")  # and the HTML agrees
    assert not re.search(rb"\r\nFrom |=0[AD]", content)


@pytest.mark.parametrize("typed", MARKUP.values(), ids=MARKUP)
def test_what_was_typed_stays_text(typed: str) -> None:
    """That it is read as it was typed, in both parts, is checked as it is read."""
    fields = dict.fromkeys(("nombre", "empresa", "mensaje", "tema", "otro"), typed)
    usual = dict.fromkeys(fields, "x")

    lines = lines_of(**fields, lista=[typed], **{typed: "x"})
    tags, usual_tags = (Page(part(compose(**each, campo="x").content, "html")).tags for each in (fields, usual))

    fields_shown = {f"{label}: {typed}" for label in ("Nombre", "Empresa", "Tema", "Otro")}
    assert fields_shown | {f"    - {typed}", typed} <= {*lines}
    assert tags == usual_tags


@pytest.mark.parametrize("typed", ["x\nCorreo electrónico: y", "x\n\nMensaje\n\ny", "x\r\n\u2028Otros datos\n"])
@pytest.mark.parametrize("name", ["nombre", "empresa", "telefono", "tema", "otro"])
def test_no_field_can_pass_for_another_part(name: str, typed: str) -> None:
    starts = [
        [
            line.partition(":")[0]
            for line in lines_of(**{name: each})
            if not line.startswith((" ", "Preview", "Subject"))
        ]
        for each in (typed, "x")
    ]

    assert starts[0] == starts[1]


@pytest.mark.parametrize("name", ["x\nCorreo electrónico", "\u2028Mensaje\u2028\u2028", "a\r\n\r\nMensaje\r\n"])
def test_no_name_of_a_field_can_pass_for_another_part(name: str) -> None:
    assert len(lines_of(**{name: "y"})) == len(lines_of(campo="y"))


@pytest.mark.parametrize(
    ("line", "html"),
    [
        ("שלם!", '<span dir="rtl">שלם!</span>'),
        ("Hola שלם!", '<span dir="ltr">Hola שלם!</span>'),
        ("<שלם>", '<span dir="rtl">&lt;שלם&gt;</span>'),
    ],
)
def test_right_to_left_text_has_a_direction(line: str, html: str) -> None:
    page = part(compose(mensaje=f"a\n{line}", nombre=line, otro=[line]).content, "html")

    assert f">a<br>\n{html}</td>" in page
    assert page.count(f">{html}<") == 2


@pytest.mark.parametrize("before", ["", "a ", "a\n", "\t", "\0", "\u2028", "\u200b", "_", "-"], ids=ascii)
@pytest.mark.parametrize("mark", ["\u0338", "\u0338\u0301"], ids=ascii)
def test_no_mark_can_join_the_end_of_a_tag(before: str, mark: str) -> None:
    typed = f"{before}{mark}x"
    changes: dict[str, Any] = dict.fromkeys(("nombre", "empresa", "telefono", "mensaje", "tema", "otro"), typed)

    html = HTML.render(letter=letter_of(**changes, lista=[typed, [typed]], objeto={typed: typed}, **{typed: typed}))

    assert not re.search(f"[>\\s]{mark[0]}", html)
    assert unicodedata.normalize("NFC", html).count(">") == html.count(">")


@pytest.mark.parametrize("message", ["a  b", " a", "a\n b", "a   b\n  c"])
def test_no_space_is_one_that_html_drops(message: str) -> None:
    html = part(compose(mensaje=message).content, "html")

    (cell,) = re.findall(r'class="typed ink"[^>]*>(.*?)</td>', html, re.DOTALL)
    assert not re.search(r"  |^ |<br> ", cell.replace("<br>\n", "<br>"))


def test_the_template_escapes_by_itself() -> None:
    letter = letter_of()
    letter.kind = "<b>'"

    assert "&lt;b&gt;&#39;</h1>" in HTML.render(letter=letter)
    assert TEXT.render(letter=letter).startswith("<b>'\n")


def test_an_ordinary_page_is_small_fetches_nothing_and_is_one_that_word_can_lay_out() -> None:
    page = Page(part(compose(**EVERYTHING).content, "html"))
    tables = [attributes for tag, attributes in page.tags if tag == "table"]
    labels = [attributes for tag, attributes in page.tags if tag == "th"]

    assert len(page.html.encode()) < 20_000
    assert not re.search(r"src=|url\(|@import|<link|https?:", page.html)
    # The tables of data: notice, sender, tema, other fields, an address and a contact.
    assert sum("role" not in table for table in tables) == 6
    # Word takes widths and backgrounds from attributes. It knows neither max-width nor the shorthand of a background.
    assert {table["width"] for table in tables} == {"640", "100%"}
    assert {table["cellpadding"] + table["cellspacing"] + table["border"] for table in tables} == {"000"}
    assert {label["width"] for label in labels} == {"34%"}
    assert [it["bgcolor"] for _, it in page.tags if "bgcolor" in it] == ["#eef1f4", "#eef1f4", "#ffffff", "#f5f7f9"]


def others(**typed: Any) -> list[tuple[str, str | list[str]]]:
    fields = letter_of(**typed).others
    return [(field.label, [item.text for item in field.items] if field.items else field.text) for field in fields]


class TestRows:
    """A letter has 200 rows and its message: 10 that the service names, 189 of other fields, and 1 for the rest."""

    def test_the_labels_of_the_service_leave_189(self) -> None:
        longest = letter_of(email="josé@example.com", aviso="x", **dict.fromkeys(ASKED, "x"))

        assert sum(len(fields) for _, fields in longest.parts) + MOST_ROWS + 1 == 200

    @pytest.mark.parametrize("number", [MOST_ROWS, 5000])
    def test_those_that_have_no_row_are_one_text(self, number: int) -> None:
        fields = {f"d{each}": f"valor {each}" for each in range(number)}

        rows = others(**fields, vacío=[])

        rest = dict(list(fields.items())[MOST_ROWS:])
        assert rows[:MOST_ROWS] == [(f"D{each}", f"valor {each}") for each in range(MOST_ROWS)]
        assert [(label, json.loads(str(text))) for label, text in rows[MOST_ROWS:]] == [("Demás datos", rest)] * bool(
            rest
        )

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param([str(number) for number in range(500)], id="list"),
            pytest.param({f"d{number}": "x" for number in range(500)}, id="object"),
            pytest.param([{"a": "x"}] * MOST_ROWS, id="objects in a list"),
            pytest.param("x\n" * 500, id="lines"),
            pytest.param(["x\n" * 500], id="lines in a list"),
            pytest.param(["Ana \u202egnp.exe"] + ["x"] * 500, id="disguise"),
        ],
    )
    def test_a_value_that_takes_too_many_is_among_the_rest(self, value: Any) -> None:
        before, after, (_, rest) = others(antes=["a", "b"], dato=value, luego=["c"])

        assert (before, after) == (("Antes", ["a", "b"]), ("Luego", ["c"]))
        assert json.loads(str(rest)) == {"dato": json.loads(json.dumps(value).replace("\\u202e", ""))}

    def test_values_share_the_rows(self) -> None:
        first, third, (_, rest) = others(a=["x"] * 99, b=["y"] * 90, c=["z"] * 88)

        assert (first, third) == (("A", ["x"] * 99), ("C", ["z"] * 88))
        assert json.loads(str(rest)) == {"b": ["y"] * 90}
