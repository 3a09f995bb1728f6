"""The letter as plain text and as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from app.contact.composer import HTML, TEXT
from tests.contact.submissions import RECEIVED, letter_of
from tests.factories import REFERENCE

EVERYTHING: dict[str, Any] = {
    "tema": "Tarifas y condiciones",
    "cajasAbiertas": 20_000,
    "acepta": True,
    "productos": ["TPV", "Pagos en línea"],
    "direccion": {"calle": "Mayor 1", "ciudad": "Cádiz"},
    "tiendas": [{"ciudad": "Cádiz", "cajas": 2}, ["Jaén", True]],
    "contacto": {"nombre": "Luis", "horario": [9, 17], "nota": "dos\nlíneas"},
    "nota": "uno\n\ndos",
}

EXACT_TEXTS = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "equals signs": "a=b==c=3D= =",
    "spaces": "  a  b   c \n d  \n",
    "dots": "a\n.\n..\n.b",
    "empty lines": "a\n\n\nb",
    "a line like an mbox separator": "a\nFrom b\n>From c",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "a line of hyphens": "a\n-- \n--=_\n--",
    "HTML": "<b>&amp; \"'</b>",
    "braces": "{parts} {0} {{x}}",
}

MARKUP = {
    "script": "<script>alert(1)</script>",
    "end of a cell": "</td></tr></table><h1>x</h1>",
    "end of an attribute": "\"'><img src=x onerror=alert(1)>",
    "entities": "&lt;b&gt; &amp;amp; &#60;",
    "comment": "<!-- x --> <![CDATA[ x ]]>",
    "template": "{kind} {{ 7 * 7 }} {0.__class__} %s",
}


def text(**changes: Any) -> str:
    return TEXT.render(letter=letter_of(**changes))


class Page(HTMLParser):
    """The page as a reader sees it: its rows, its message and its headings; and every tag with its attributes."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.html = HTML.render(letter=letter_of(**changes))
        self.rows: list[tuple[str, str]] = []
        self.headings: list[str] = []
        self.message = ""
        self.links: dict[str, str] = {}
        self.tags: list[str] = []
        self._texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append(" ".join([tag, *(f"{name}={value}" for name, value in attributes.items() if name != "href")]))
        if tag == "br":
            self._text("\n")
            return
        if tag == "a":
            self.links[attributes["href"]] = ""
        if tag == "th":
            self.rows.append(("", ""))
        if tag not in ("meta", "br"):
            self._open.append("message" if attributes.get("class") == "typed ink" else tag)

    def handle_endtag(self, tag: str) -> None:
        opened = self._open.pop()
        assert opened in (tag, "message"), f"{opened} is closed by {tag}"

    def handle_data(self, data: str) -> None:
        # A line break in the source is a space, and one beside another space or a <br> is nothing.
        self._text(data.replace("\n", ""))

    def _text(self, shown: str) -> None:
        inside = next((tag for tag in reversed(self._open) if tag in ("th", "td", "h1", "h2", "message", "style")), "")
        shown = shown.replace("\N{NO-BREAK SPACE}", " ")
        if inside == "message":
            self.message += shown
        elif inside == "th":
            self.rows[-1] = (self.rows[-1][0] + shown, "")
        elif inside == "td" and self.rows:
            self.rows[-1] = (self.rows[-1][0], self.rows[-1][1] + shown)
        elif inside in ("h1", "h2"):
            self.headings.append(shown)
        if "a" in self._open:
            self.links[list(self.links)[-1]] += shown


class TestText:
    def test_it_reads_as_a_person_would_write_it(self) -> None:
        assert (
            text(**EVERYTHING)
            == """\
Solicitud de demostración
Recibido el 01/02/2030 a las 16:30 (Montevideo, UTC-3) desde el formulario de la web.
Referencia: 3F0C-9A1B

Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: maria@example.com
Teléfono: +34 600 000 000

Tema: Tarifas y condiciones

Otros datos

Cajas abiertas: 20000
Acepta: Sí
Productos:
    - TPV
    - Pagos en línea
Direccion:
    Calle: Mayor 1
    Ciudad: Cádiz
Tiendas:
    - {"ciudad": "Cádiz", "cajas": 2}
    - ["Jaén", true]
Contacto:
    Nombre: Luis
    Horario: [9, 17]
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
        )

    def test_what_an_onboarding_form_asks_is_no_other_data(self) -> None:
        shown = text(form_type="onboarding", sector="Hostelería", volumen_mensual="Hasta 10.000 €")

        assert "\n\nSector: Hostelería\nVolumen mensual: Hasta 10.000 €\n\nMensaje\n\n" in shown

    def test_a_list_of_messages_shows_the_beginning_of_the_message(self) -> None:
        before, _, _ = Page(mensaje="Uno\n<b>dos</b>").html.partition("<h1")

        assert re.search(r'<div style="display:none[^"]*">Uno &lt;b&gt;dos&lt;/b&gt;</div>', before)

    def test_parts_without_content_are_left_out(self) -> None:
        assert text(nombre=None, empresa=None, telefono=None, mensaje=None).split("\n\n")[1:] == [
            "Correo electrónico: maria@example.com\n"
        ]

    @pytest.mark.parametrize("message", EXACT_TEXTS.values(), ids=EXACT_TEXTS)
    def test_the_message_arrives_as_it_was_typed_and_ends_the_letter(self, message: str) -> None:
        assert text(mensaje=message, otro="x").partition("\n\nMensaje\n\n")[2] == f"{message}\n"

    @pytest.mark.parametrize("name", ["nombre", "empresa", "telefono", "tema", "otro"])
    @pytest.mark.parametrize("typed", ["x\nCorreo electrónico: y", "x\n\nMensaje\n\ny", "x\r\n\u2028Otros datos\n"])
    def test_no_field_can_pass_for_another_part(self, name: str, typed: str) -> None:
        lines = text(**{name: typed}).split("\n")

        usual = text(**{name: "x"}).split("\n")
        starts = [line for line in lines if line and not line.startswith("    ")]
        assert [line.partition(":")[0] for line in starts] == [line.partition(":")[0] for line in usual if line]

    @pytest.mark.parametrize("name", ["x\nCorreo electrónico", "\u2028Mensaje\u2028\u2028", "a\r\n\r\nMensaje\r\n"])
    def test_no_name_of_a_field_can_pass_for_another_part(self, name: str) -> None:
        lines = text(**{name: "y"}).split("\n")

        assert len(lines) == len(text(otro="y").split("\n"))

    def test_a_list_and_an_object_of_one_line_stand_below_their_isolated_label(self) -> None:
        assert "\n\u2068שם\u2069:\n    - x\nDato:\n    A: y\n" in text(שם=["x"], dato={"a": "y"})

    def test_right_to_left_text_is_isolated_line_by_line(self) -> None:
        shown = text(nombre="דב (1)", mensaje="Hola:\nשלם!", שם="x")

        for line in ("Nombre: \u2068דב (1)\u2069", "\u2068שם\u2069: x", "Hola:", "\u2068שלם!\u2069"):
            assert line in shown.split("\n")


class TestHtml:
    def test_everything_shows_in_the_order_of_a_letter(self) -> None:
        page = Page(**EVERYTHING)

        assert page.headings == ["Solicitud de demostración", "Otros datos", "Mensaje"]
        assert page.rows[:6] == [
            ("Nombre", "María Ñúñez"),
            ("Empresa", "Comercio Ejemplo S.L."),
            ("Correo electrónico", "maria@example.com"),
            ("Teléfono", "+34 600 000 000"),
            ("Tema", "Tarifas y condiciones"),
            ("Cajas abiertas", "20000"),
        ]
        assert page.message == "Quisiera una demostración.\n¿Es posible el jueves?"
        order = [RECEIVED, REFERENCE, "María Ñúñez", "Tarifas", "Otros datos", "20000", "Jaén", "Mensaje", "Quisiera"]
        assert order == sorted(order, key=page.html.partition("<h1")[2].index)

    def test_what_an_onboarding_form_asks_is_no_other_data(self) -> None:
        page = Page(form_type="onboarding", sector="Hostelería", volumen_mensual="Hasta 10.000 €")

        assert page.headings == ["Alta de comercio", "Mensaje"]
        assert page.rows[4:] == [("Sector", "Hostelería"), ("Volumen mensual", "Hasta 10.000 €")]

    def test_lists_and_objects_are_lists_and_tables(self) -> None:
        html = Page(**EVERYTHING).html

        assert "<li>TPV</li>\n<li>Pagos en línea</li>" in html
        nested = re.search(r">Direccion</th>\s*<td[^>]*><table.*?</table></td>", html, re.DOTALL)
        assert nested
        assert re.findall(r">(\w+)</t[hd]>", nested[0])[1:] == ["Calle", "Ciudad", "Cádiz"]

    def test_a_list_of_messages_shows_the_beginning_of_the_message(self) -> None:
        before, _, _ = Page(mensaje="Uno\n<b>dos</b>").html.partition("<h1")

        assert re.search(r'<div style="display:none[^"]*">Uno &lt;b&gt;dos&lt;/b&gt;</div>', before)

    def test_parts_without_content_are_left_out(self) -> None:
        page = Page(nombre=None, empresa=None, telefono=None, mensaje=None)

        assert (page.headings, page.rows) == (
            ["Solicitud de demostración"],
            [("Correo electrónico", "maria@example.com")],
        )

    def test_address_and_telephone_are_links(self) -> None:
        page = Page()

        mailto, tel = page.links
        assert mailto.startswith("mailto:maria@example.com?subject=Re%3A%20Demo%3A%20")
        assert tel == "tel:+34600000000"
        assert list(page.links.values()) == ["maria@example.com", "+34 600 000 000"]

    @pytest.mark.parametrize("message", EXACT_TEXTS.values(), ids=EXACT_TEXTS)
    def test_the_message_arrives_as_it_was_typed(self, message: str) -> None:
        assert Page(mensaje=message).message == message

    def test_a_tab_is_wide(self) -> None:
        assert Page(mensaje="a\tb").message == "a    b"

    @pytest.mark.parametrize("message", ["a  b", " a", "a\n b", "a   b\n  c"])
    def test_no_space_is_one_that_html_drops(self, message: str) -> None:
        html = Page(mensaje=message).html

        (cell,) = re.findall(r'class="typed ink"[^>]*>(.*?)</td>', html, re.DOTALL)
        assert not re.search(r"  |^ |<br> ", cell.replace("<br>\n", "<br>"))

    @pytest.mark.parametrize(
        ("line", "html"),
        [
            ("שלם!", '<span dir="rtl">שלם!</span>'),
            ("Hola שלם!", '<span dir="ltr">Hola שלם!</span>'),
            ("<שלם>", '<span dir="rtl">&lt;שלם&gt;</span>'),
            ("Hola", "Hola"),
        ],
    )
    def test_right_to_left_text_has_a_direction(self, line: str, html: str) -> None:
        page = Page(mensaje=f"a\n{line}", nombre=line, otro=[line]).html

        assert f">a<br>\n{html}</td>" in page
        assert page.count(f">{html}<") == 2

    @pytest.mark.parametrize("typed", MARKUP.values(), ids=MARKUP)
    def test_what_was_typed_stays_text(self, typed: str) -> None:
        page = Page(nombre=typed, empresa=typed, telefono=typed[:40], mensaje=typed, tema=typed, lista=[typed])
        usual = Page(nombre="x", empresa="x", telefono="x", mensaje="x", tema="x", lista=["x"])

        assert page.tags == usual.tags
        assert page.message == typed
        assert [value for _, value in page.rows] == [
            typed,
            typed,
            "maria@example.com",
            typed[:40].strip(),
            typed,
            typed,
        ]

    @pytest.mark.parametrize("name", MARKUP.values(), ids=MARKUP)
    def test_the_name_of_a_field_stays_text(self, name: str) -> None:
        page = Page(**{name: "x"})

        assert page.tags == Page(otro="x").tags
        assert page.rows[-1][0].casefold() == " ".join(re.sub("[_-]", " ", name).split()).casefold()

    def test_the_template_escapes_by_itself(self) -> None:
        letter = letter_of()
        letter.kind = "<b>'"

        assert "<b>'</h1>" not in HTML.render(letter=letter)
        assert "&lt;b&gt;&#39;</h1>" in HTML.render(letter=letter)
        assert TEXT.render(letter=letter).startswith("<b>'\n")

    def test_an_ordinary_page_is_small_and_fetches_nothing(self) -> None:
        html = Page(**EVERYTHING).html

        assert len(html.encode()) < 20_000
        assert not re.search(r"src=|url\(|@import|<link|https?:", html)

    def test_every_layout_table_says_that_it_is_one(self) -> None:
        tables = [tag for tag in Page(**EVERYTHING).tags if tag.startswith("table")]

        # The tables of data: sender, tema, other fields, an address and a contact.
        assert sum("role=presentation" not in table for table in tables) == 5
        assert all("cellpadding=0 cellspacing=0 border=0" in table for table in tables)

    def test_widths_and_backgrounds_stand_in_attributes(self) -> None:
        # Word takes them from there. It knows neither max-width nor the shorthand for a background.
        tags = Page(**EVERYTHING).tags

        assert [tag for tag in tags if tag.startswith("table") and not re.search(" width=(640|100%) ", tag)] == []
        assert [tag for tag in tags if tag.startswith("th ") and " width=34% " not in tag] == []
        assert [found[1] for tag in tags if (found := re.search(r" bgcolor=(#\w+)", tag))] == [
            "#eef1f4",
            "#eef1f4",
            "#ffffff",
            "#f5f7f9",
        ]
