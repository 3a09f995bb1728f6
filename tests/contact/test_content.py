"""What a form becomes: every row is what was typed, and the lines of the message that it changes."""

import json
import re
from typing import Any

import pytest
from freezegun import freeze_time

from app.contact.content import ASKED, CAMPAIGN, HIDDEN, MAX_KNOWN_LENGTH, MAX_UNKNOWN_ROWS, MESSAGE, SENDER
from app.contact.schema import ContactSchema, validate
from app.contact.visible_text import shorten
from app.forms import FORM_TYPES
from tests.contact.reading import COMPOSER, compose, content_of, page_of, part, read
from tests.factories import REFERENCE, REQUEST_ID, contact_body
from tests.timeline import assert_went


def lines_of(**typed: Any) -> list[str]:
    """The lines of a message that are not empty, but for the one with its time."""
    lines = read(compose(**({"otro": "x"} | typed)).content)
    return [line for line in lines if line and not line.endswith(" de la web.")]


USUAL = lines_of()


def shown(**typed: Any) -> str:
    """The lines that a message has and the usual one has not; behind a minus the labels that it lacks."""
    lines = lines_of(**typed)
    kept = {line.partition(":")[0] for line in lines}
    lost = dict.fromkeys(label for line in USUAL if (label := line.partition(":")[0]) not in kept)
    assert [line for line in lines if line in USUAL] == [line for line in USUAL if line in lines]
    return "\n".join([*(line for line in lines if line not in USUAL), *(f"- {label}" for label in lost)])


NOTHING: list[Any] = [[], {}, [None], {"a": ""}, [[], {}], " ", "\u200b", ["\u3164"]]
VALUES: dict[str, tuple[Any, str]] = {
    "true": (True, "Dato: Sí"),
    "false": (False, "Dato: No"),
    "zero": (0, "Dato: 0"),
    "float": (-1.5, "Dato: -1,5"),
    "two lines": ("uno\r\ndos", "Dato:\n    uno\n    dos"),
    "many spaces": (" a   b\n\t c ", "Dato:\n    a b\n    c"),
    "list": (["a\nb", 1, None, "", True], "Dato:\n    - a\n      b\n    - 1\n    - Sí"),
    "list in a list": ([["ñ\n", {"n": True}], ["\u202e\x1b"]], 'Dato:\n    - ["ñ\\n", {"n": true}]\n    - ["\\u001b"]'),
    "object": ({"ciudad": "Cádiz", "calle": None, "tiendas": [1]}, "Dato:\n    Ciudad: Cádiz\n    Tiendas: [1]"),
    "object with lines": ({"nota": "dos\nlíneas"}, "Dato:\n    Nota:\n        dos\n        líneas"),
    "object with a label of the service": ({"referencia": "x"}, "Dato:\n    Referencia: x"),
    "right to left": (["דב (1)"], "Dato:\n    - \u2068דב (1)\u2069"),
    **{f"nothing: {it!a}": (it, "") for it in NOTHING},
}
"""What a field that the service does not know becomes."""
LABELS = {
    **dict.fromkeys(("cajasAbiertas", "cajas_abiertas", "cajas-abiertas"), "Cajas abiertas"),
    "Cajas Abiertas": "Cajas Abiertas",
    "añoFundación": "Año fundación",
    "numeroRUT": "Numero RUT",
    "linea2Calle": "Linea2 calle",
    "a__b\nc\u2028d": "A b c d",
    "intereses[]": "Intereses",
    "direccion[calle]": "Direccion calle",
    "direccion[codigoPostal][0]": "Direccion codigo postal 0",
    "lineas[0][nombre_comercial]": "Lineas 0 nombre comercial",
    "cajas\u200bAbiertas\u202e": "Cajas abiertas",
    "支付": "支付",
    "שם": "\u2068שם\u2069",
    **dict.fromkeys(("", "__", "[]", "\u200b"), "(sin nombre)"),
    "nombre_comercial": "Nombre comercial",
    "preferencia": "Preferencia",
}
LIKE_THE_SERVICE = {
    **dict.fromkeys(("referencia", "[referencia]"), "Referencia"),
    "nombre[]": "Nombre",
    "campana": "Campana",
    "campaña": "Campaña",
    "[pagina]": "Pagina",
    "Referencia: 3F0C-9A1B": "Referencia: 3 f0 c 9 a1 b",
    "correo_electronico": "Correo electronico",
    "tipo de colaboracio\u0301n": "Tipo de colaboracio\u0301n",
    **{it: it for it in ("1. Referencia", "*Referencia*", "MENSAJE", "Para responder:")},
    "demas_datos": "Demas datos",
    "recibido_el_01/02/2030": "Recibido el 01/02/2030",
}
"""Names of fields whose labels could pass for those of the service."""
PHONES = {
    "+34 600 000 001": "tel:+34600000001",
    "600-000-000": "tel:600000000",
    "(91) 123.45.67": "tel:911234567",
    "+44 (0)20 7946 0000": "tel:+442079460000",
    "(0)20 7946 0000": "tel:02079460000",
    "(+598) 99 123 456": "tel:+59899123456",
    "+598\u201029\u201101\u201223\u201445\u22121": "tel:+598290123451",
    "tel:+598-2901-2345": "tel:+59829012345",
    "Tel: 2901 2345": "tel:29012345",
    "123456": "tel:123456",
    "123456789012345": "tel:123456789012345",
    **dict.fromkeys(("12345", "1234567890123456", "600 000 000 ext. 12", "600 000 000, 611 111 111", "34+600000000")),
    **dict.fromkeys(("4321-5678 / 79", "llámeme", "600000000;phone-context=x")),
}
"""Telephones, and what their link calls."""
UNFIT_NAMES = [
    "x <jefa@banco.example>, y",
    *(f"{letter}{special}{letter}" for special in '@<>,;:"\\' for letter in "añ"),
    *(f"ñ{bracket}ñ" for bracket in "()[]"),
    "=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=",
    "=?utf-8?b?eCA8amVmYUBiYW5jby5leGFtcGxlPiwgeQ==?=",
    "x" * 100 + " (x)",
    ".ñ",
]
"""Names that a program could make another address or a header of when it writes the field anew."""
ADDRESSES = {
    "o'hara+tag!#$%&*/=?^_`{|}~@example.com": (
        "o'hara+tag!#$%&*/=?^_`{|}~@example.com",
        "o%27hara%2Btag%21%23%24%25%26%2A%2F%3D%3F%5E_%60%7B%7C%7D~@example.com",
    ),
    "a@prueba.test": ("a@prueba.test",) * 2,
    "maria@españa.es": ("maria@xn--espaa-rta.es",) * 2,
    "maria@例子.公司": ("maria@xn--fsqu00a.xn--55qx5d",) * 2,
}
"""Addresses, the one to which an answer goes, and as a link has it."""
UNANSWERABLE = {
    "ñandú@correo.es": "%C3%B1and%C3%BA@correo.es",
    "用户@例子.公司": "%E7%94%A8%E6%88%B7@%E4%BE%8B%E5%AD%90.%E5%85%AC%E5%8F%B8",
    "=?utf-8?q?x=0ABcc?=@example.com": "%3D%3Futf-8%3Fq%3Fx%3D0ABcc%3F%3D@example.com",
}
"""Addresses that no header carries, as a link has them."""
BLANKS = (" \t\r\n", "\ufeff ", "\u202a\u202c ", "\0", "\u3000")
"""What may stand at both ends of an address."""
ANSWER = "Para responder: El botón «Responder» no usará esta dirección: escríbale a la que figura arriba.\n- Reply-To"
COMPANY = "Comercio Ejemplo S.L."
REST = "- Quisiera una demostración.\n- ¿Es posible el jueves?"
"""The usual message, when it is missing."""
ISOLATED = "\u2068\u2068jefa.בנק\u2069@\u2068רע.com\u2069\u2069"
ADDRESS = "maria@example.com"
ARABIC = "\u0666" * 6
HEBREW = "\u2068דב (1)\u2069"
LINE = "x" * MAX_KNOWN_LENGTH
AGAIN = "Puede estar repetida: se perdió la respuesta al primer envío."
IRON = "Ferretería " * 18 + "SL"
WORDS = "palabra " * 40


def subject(who: str, kind: str = "Demo") -> str:
    return f"Subject: {kind}: {who} · {REFERENCE}"


def titled(kind: str, title: str) -> str:
    return f"{subject(COMPANY, kind)}\n{title}\n- Solicitud de demostración"


def named(name: str, seen: str | None = None) -> str:
    """What a name changes that can be put before an address."""
    return f"Reply-To: {seen or name} <{ADDRESS}>\n{greeted(name)}"


def greeted(name: str) -> str:
    return f"Greeting: Gracias por escribirnos, {shorten(name, 60)}.\nNombre: {name}"


def company(name: str, seen: str | None = None) -> str:
    return f"{subject(seen or name)}\nEmpresa: {name}"


def mailed(address: str, link: str) -> str:
    return f"Correo electrónico: {address} <mailto:{link}>"


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "kind: ventas": ({"form_type": "ventas"}, titled("Ventas", "Mensaje para el equipo de ventas")),
    "kind: onboarding": ({"form_type": "onboarding"}, titled("Alta", "Alta de comercio")),
    "kind: distribuidor": ({"form_type": "distribuidor"}, titled("Distribuidor", "Solicitud de distribuidor")),
    **{f"value: {name}": ({"dato": value}, lines) for name, (value, lines) in VALUES.items()},
    **{f"label: {name!a}": ({name: "y"}, f"{label}: y") for name, label in LABELS.items()},
    **{f"label: {name!a}": ({name: "y"}, f"{it} (campo adicional): y") for name, it in LIKE_THE_SERVICE.items()},
    "two fields with one label": ({"otroDato": "a", "otro_dato": "b"}, "Otro dato: a\nOtro dato: b"),
    "no other fields": ({"otro": None}, "- Otros datos\n- Otro"),
    "asked by the form": (
        {"volumen_mensual": "10.000 €", "tipo_de_partner": "Integrador", "sector": "Hostelería", "tema": "Tarifas"},
        "Tema: Tarifas\nTipo de colaboración: Integrador\nSector: Hostelería\nVolumen mensual: 10.000 €",
    ),
    "asked, but no text": ({"tema": {"Nombre": "Ana"}}, "Tema:\n    Nombre: Ana"),
    "asked, with spaces that a window wraps": ({"tema": f"a{' ' * 80}Empresa: y"}, "Tema: a Empresa: y"),
    "asked, in a longer line": ({"tema": f"{LINE}x"}, f"Tema: {LINE}x"),
    "asked, nothing": ({"tema": "\u3164"}, ""),
    "no name": ({"nombre": "\u200b"}, f"Reply-To: {ADDRESS}\nGreeting: Gracias por escribirnos.\n- Nombre"),
    "no telephone": ({"telefono": "\u2800"}, "- Teléfono"),
    **{
        f"no company: {it!a}": ({"empresa": it}, f"{subject('María Ñúñez')}\n- Empresa")
        for it in (None, "\t", "\0", "\u202e")
    },
    **{
        f"no message: {it!a}": ({"mensaje": it}, f"Preview: María Ñúñez, {COMPANY}\n- Mensaje\n{REST}")
        for it in (None, "\r\n", "\xad\ufeff")
    },
    "neither name nor company nor message": (
        {"nombre": "", "empresa": " ", "mensaje": None},
        (
            f"{subject(ADDRESS)}\nReply-To: {ADDRESS}\nPreview: {ADDRESS}\nGreeting: Gracias por escribirnos.\n"
            f"- Nombre\n- Empresa\n- Mensaje\n{REST}"
        ),
    ),
    "name that could pass for another part": ({"nombre": "Ana\nMensaje"}, named("Ana Mensaje")),
    "name written backwards": ({"nombre": "Ana \u202egnp.exe"}, named("Ana gnp.exe", '"Ana gnp.exe"')),
    "name from right to left": ({"nombre": "דב (1)"}, f"Reply-To: {ADDRESS}\n{greeted(HEBREW)}"),
    **{f"name {name:.20}": ({"nombre": name}, named(name)) for name in ("Ana", "支付", "x" * 60, "ñ " * 99 + "ñ")},
    **{f"name {name}": ({"nombre": name}, named(name, f'"{name}"')) for name in ("Ana P. Gil", "Ana (Banco) [1]")},
    **{
        f"name unfit for a header: {name!a}": ({"nombre": name}, f"Reply-To: {ADDRESS}\n{greeted(name)}")
        for name in UNFIT_NAMES
    },
    **{
        f"address {it!r}": ({"email": it}, f"Reply-To: María Ñúñez <{to}>\n{mailed(it, link)}")
        for it, (to, link) in ADDRESSES.items()
    },
    **{f"unanswerable {it}": ({"email": it}, f"{mailed(it, link)}\n{ANSWER}") for it, link in UNANSWERABLE.items()},
    **{f"address between {it!a}": ({"email": f"{it}{ADDRESS}{it[::-1]}"}, "") for it in BLANKS},
    "address from right to left": ({"email": "jefa.בנק@רע.com"}, f"Correo electrónico: {ISOLATED}\n{ANSWER}"),
    **{
        f"telephone {it}": ({"telefono": it}, f"Teléfono: {it}" + (f" <{link}>" if link else ""))
        for it, link in PHONES.items()
    },
    "telephone in other digits": ({"telefono": ARABIC}, f"Teléfono: \u2068{ARABIC}\u2069"),
    "telephone that could pass for another part": ({"telefono": "x\r\n\r\nTema: y"}, "Teléfono: x Tema: y"),
    "company that could pass for another part": ({"empresa": "x\u2028Mensaje"}, company("x Mensaje")),
    "company between directions": ({"empresa": "\u2067Banco\u2069"}, company("Banco")),
    "company from right to left": ({"empresa": "שלם (1)"}, company("\u2068שלם (1)\u2069")),
    "company that a link has to quote": ({"empresa": "Café & Té/Sur?"}, company("Café & Té/Sur?")),
    "company as long as one is known": ({"empresa": IRON}, company(IRON, f"{IRON[:98]}…")),
    "long message": ({"mensaje": WORDS}, f"Preview: {WORDS[:135]}…\n{WORDS}\n{REST}"),
    "message from right to left": ({"mensaje": "שלם (1)"}, f"Preview: שלם (1)\n\u2068שלם (1)\u2069\n{REST}"),
    "message of two paragraphs": (
        {"mensaje": "Hola:\r\n\r\n¿Puede ser el lunes?"},
        f"Preview: Hola: ¿Puede ser el lunes?\nHola:\n¿Puede ser el lunes?\n{REST}",
    ),
    "marks on no letter": ({"tema": "\u0338x", "dato": ["\u0338y"], "\u0338z": "a"}, "Tema: x\nDato:\n    - y\nZ: a"),
    "campaign": (
        {"gclid": "Cj0_", "utm_medium": "cpc", "utm_id": "7", "utm_campaign": "tpv-otoño", "utm_source": "google\n"},
        "Utm id: 7\nCampaña: google · cpc · tpv-otoño · Cj0_",
    ),
    "campaign with all its parts": (
        {"utm_term": "datáfono", "utm_content": "b", "utm_source": "x", "utm_campaign": "z", "utm_medium": "y"},
        "Campaña: x · y · z · datáfono · b",
    ),
    "campaign, nothing to be seen": ({"utm_source": " ", "gclid": "\u200b"}, ""),
    "campaign, but no text": ({"utm_source": ["a", "b"]}, "Utm source:\n    - a\n    - b"),
    "campaign, longer than a line above the message": ({"gclid": f"{LINE}x"}, f"Campaña: {LINE}x"),
    "campaign from right to left": (
        {"utm_source": "דב", "utm_term": "(1)"},
        "Campaña: \u2068\u2068דב\u2069 · (1)\u2069",
    ),
    "page, longer than a line above the message": ({"pagina": f"{LINE}x"}, f"Página: {LINE}x"),
    "page": ({"pagina": "https://example.com/contacto"}, "Página: https://example.com/contacto"),
    "correction": (
        {"aviso": "Esta solicitud corrige la solicitud\r\n3F0C-9A1B."},
        f"{subject(COMPANY, 'Demo (corrección)')}\nAviso: Esta solicitud corrige la solicitud 3F0C-9A1B.",
    ),
    "long correction": (
        {"aviso": f"Corrige 3F0C-9A1B. {LINE}"},
        f"{subject(COMPANY, 'Demo (corrección)')}\nAviso: Corrige 3F0C-9A1B. {LINE}",
    ),
    "notice without a reference": ({"aviso": "Llame al 4491-3F0CA"}, "Aviso: Llame al 4491-3F0CA"),
    "notice in an object": ({"aviso": {"Nombre": "Ana"}}, "Aviso:\n    Nombre: Ana"),
}
"""What was typed, and the lines that it changes."""


@pytest.mark.parametrize(("typed", "lines"), ROWS.values(), ids=ROWS)
def test_what_is_typed_changes_these_lines(typed: dict[str, Any], lines: str) -> None:
    assert_went(lines.splitlines(), shown(**typed).splitlines())


def test_every_field_and_every_form_type_has_a_row() -> None:
    typed = [typed for typed, _ in ROWS.values()]
    fields = {name for row in typed for name in row} | {*HIDDEN}
    form_types = {row["form_type"] for row in typed if "form_type" in row} | {"demo"}  # the usual one

    assert {*ContactSchema().fields} - fields | {*FORM_TYPES} - form_types == set(), (
        "ROWS in tests/contact/test_content.py"
    )


EVERYTHING: dict[str, Any] = {
    "aviso": AGAIN,
    "tema": "Tarifas y condiciones",
    "cajasAbiertas": 20_000,
    "productos": ["TPV", "Pagos en línea"],
    "contacto": {"nombre": "Luis", "nota": "dos\nlíneas"},
    "nota": "uno\n\ndos",
    "pagina": "https://example.com/contacto",
    "utm_campaign": "tpv-otoño",
    "utm_source": "google",
}
LETTER = f"""\
Subject: Demo: Comercio Ejemplo S.L. · 3F0C-9A1B
Reply-To: María Ñúñez <maria@example.com>
Preview: Quisiera una demostración. ¿Es posible el jueves?
Greeting: Gracias por escribirnos, María Ñúñez.
Solicitud de demostración
Recibido el 01/02/2030 a las 19:30 (UTC) desde el formulario de la web.
Referencia: 3F0C-9A1B

Aviso: {AGAIN}

Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: maria@example.com <mailto:maria@example.com>
Teléfono: +34 600 000 000 <tel:+34600000000>

Tema: Tarifas y condiciones

Otros datos

Nota:
    uno

    dos
Contacto:
    Nombre: Luis
    Nota:
        dos
        líneas
Productos:
    - TPV
    - Pagos en línea
Cajas abiertas: 20000
Campaña: google · tpv-otoño
Página: https://example.com/contacto

Mensaje

Quisiera una demostración.
¿Es posible el jueves?
"""


def test_the_text_is_in_its_own_order_and_other_fields_in_that_of_the_form() -> None:
    backwards = dict(reversed(contact_body(**EVERYTHING).items()))

    with freeze_time("2030-02-01 19:30:00"):
        message = COMPOSER.compose(validate(backwards)[0], REQUEST_ID)

    assert "\n".join(read(message.content)) == LETTER


def test_each_field_of_the_service_has_a_place_or_is_hidden() -> None:
    assert {*ContactSchema().fields} <= {*SENDER, *ASKED, MESSAGE, *HIDDEN}


EXACT_TEXTS = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "equals signs": "a=b==c=3D= =",
    "spaces and tabs": "  a  b   c \n\td\te  \n",
    "dots": "a\n.\n..\n.b\n\n\nc",
    "a line like an mbox separator": "a\nFrom b\n>From c",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "hyphens": "a\n-- \n--=_\n--",
    "templates": "{parts} {0} {{ 7 * 7 }} %s",
}
MARKUP = {
    "script": "<script>alert(1)</script>",
    "end of a cell": "</td></tr></table><h1>x</h1>",
    "end of an attribute": "\"'><img src=x onerror=alert(1)>",
    "entities": "&lt;b&gt; &amp;amp; &#60; <!-- x -->",
}


@pytest.mark.parametrize("message", [*EXACT_TEXTS.values(), *MARKUP.values()], ids=[*EXACT_TEXTS, *MARKUP])
def test_the_message_arrives_as_it_was_typed_and_ends_the_text(message: str) -> None:
    content = compose(mensaje=message, otro="x").content

    assert part(content, "plain").partition("\n\nMensaje\n\n")[2] == f"{message}\n"
    assert read(content)  # and the HTML says the same
    assert b"\r\nFrom " not in content


@pytest.mark.parametrize("typed", MARKUP.values(), ids=MARKUP)
def test_what_was_typed_stays_text(typed: str) -> None:
    """`read` holds the HTML to the same words."""
    lines = lines_of(**dict.fromkeys(("nombre", "empresa", "tema", "otro"), typed), lista=[typed], **{typed: "x"})

    fields = {f"{label}: {typed}" for label in ("Nombre", "Empresa", "Tema", "Otro")}
    assert {*fields, f"    - {typed}"} <= {*lines}


@pytest.mark.parametrize(
    ("line", "html"),
    [("Hola שלם!", '<span dir="ltr">Hola שלם!</span>'), ("<שלם>", '<span dir="rtl">&lt;שלם&gt;</span>')],
)
def test_right_to_left_text_has_a_direction(line: str, html: str) -> None:
    page = part(compose(mensaje=f"a\n{line}", nombre=line, otro=[line]).content, "html")

    assert f">a<br>\n{html}</td>" in page
    assert page.count(f">{html}<") == 2


def test_no_space_is_one_that_html_drops() -> None:
    html = part(compose(mensaje=" a   b\n  c").content, "html")

    (cell,) = re.findall(r'class="typed ink"[^>]*>(.*?)</td>', html, re.DOTALL)
    assert not re.search(r"  |^ |<br> ", cell.replace("<br>\n", "<br>"))


def test_an_ordinary_page_is_small_fetches_nothing_and_is_one_that_word_can_lay_out() -> None:
    html = part(compose(**EVERYTHING | {"pagina": "/contacto"}).content, "html")
    page = page_of(html)
    tables = [*page.iter("table")]

    assert len(html.encode()) < 20_000
    assert not re.search(r"src=|url\(|@import|<link|https?:", html)
    # The tables of data: notice, sender, tema, other fields, a contact.
    assert sum("role" not in table.attrib for table in tables) == 5
    # Word takes widths and backgrounds from attributes. It knows neither max-width nor the shorthand of a background.
    assert {table.get("width") for table in tables} == {"640", "100%"}
    assert {table.get("border") for table in tables} == {"0"}
    assert {label.get("width") for label in page.iter("th")} == {"34%"}
    assert [it.get("bgcolor") for it in page.findall(".//*[@bgcolor]")] == ["#eef1f4", "#eef1f4", "#ffffff", "#f5f7f9"]


@pytest.mark.parametrize("length", [MAX_KNOWN_LENGTH, 12_000], ids=["longest in a line", "too long for one"])
def test_gmail_shows_the_whole_message_whatever_else_the_form_holds(length: int) -> None:
    """It cuts an e-mail at 102 kB of HTML."""
    letter = "\U00010800"  # from right to left; the longest in UTF-8, and in a link
    names = dict.fromkeys(("nombre", "empresa"), letter * 200) | {"email": f"{letter * 45}@{'ñ' * 15}.com"}
    lines = dict.fromkeys(("aviso", *ASKED), letter + '"' * (length - 1)) | {"telefono": letter + '"' * 39}
    html = part(compose(**names, **lines, mensaje=f"{letter}\n" * 2500, otro="x" * 9_000).content, "html")

    end = html.index("</table>", html.index(">Mensaje</h2>"))
    assert len(html[:end].encode()) < 100_000


def test_a_message_has_200_rows_and_its_message() -> None:
    """Those that the service names, MAX_UNKNOWN_ROWS of other fields, and one for the rest."""
    named = dict.fromkeys((*SENDER, *ASKED, "aviso", "pagina", *CAMPAIGN), "x")
    longest = content_of(**named | {"email": "josé@example.com"})

    assert sum(map(len, (*longest.parts, longest.others))) + MAX_UNKNOWN_ROWS + 1 == 200


MANY = {f"d{number}": "x" for number in range(5000)}
OVERFULL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "as many fields as rows": (dict([*MANY.items()][:MAX_UNKNOWN_ROWS]), []),
    "more fields": (MANY, [*MANY][MAX_UNKNOWN_ROWS:]),
    "a list": ({"a": "x", "b": ["x"] * 500, "c": "x"}, ["b"]),
    "an object": ({"a": "x", "b": MANY, "c": "x"}, ["b"]),
    "lines": ({"a": "x", "b": "x\n" * 500, "c": "x"}, ["b"]),
    "lines in a list": ({"a": "x", "b": ["x\n" * 500], "c": "x"}, ["b"]),
    "values that share the rows": ({"a": ["x"] * 99, "b": ["y"] * 90, "c": ["z"] * (MAX_UNKNOWN_ROWS - 101)}, ["b"]),
}
"""Other fields, and the names of those that have no rows of their own."""


@pytest.mark.parametrize(("typed", "rest"), OVERFULL.values(), ids=OVERFULL)
def test_what_takes_too_many_rows_is_one_text(typed: dict[str, Any], rest: list[str]) -> None:
    fields = content_of(**typed).others

    left = json.loads(fields.pop().text) if rest else {}

    assert [field.label for field in fields] == [name.upper() for name in typed if name not in rest]
    assert left == {name: typed[name] for name in rest}
