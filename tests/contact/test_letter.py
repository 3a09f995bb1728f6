"""A submission as the letter that the sales team reads: order, labels and links."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.contact.letter import ASKED, HIDDEN, MESSAGE, MOST_ROWS, SENDER, EmailView, Field
from app.contact.schema import ContactSchema, validate
from tests.contact.submissions import letter_of
from tests.factories import REFERENCE, contact_body

INVISIBLE = ["\u200b", "\u202e", "\u2066\u2069", "\u3164", "\u2800", "\ufe0f", "\xad\ufeff"]


def others(**extra: Any) -> list[tuple[str, Any]]:
    return [(field.label, value_of(field)) for field in letter_of(**extra).others]


def value_of(field: Field) -> Any:
    """A text, a list of texts, or an object of them by their labels."""
    if not field.items:
        return field.text
    if field.items[0].label:
        return {item.label: item.text for item in field.items}
    return [item.text for item in field.items]


def shown(value: Any) -> Any:
    return others(dato=value)[0][1]


class TestParts:
    def test_each_field_of_the_service_has_a_place_or_is_hidden(self) -> None:
        assert {*ContactSchema().fields} <= {*SENDER, *ASKED, MESSAGE, *HIDDEN}

    def test_the_sender_comes_in_the_same_order_whatever_that_of_the_form_is(self) -> None:
        body = contact_body()
        values, _ = validate(dict(reversed(body.items())))

        letter = EmailView(values, received="", reference="")

        assert [(field.label, field.text) for field in letter.sender] == [
            ("Nombre", "María Ñúñez"),
            ("Empresa", "Comercio Ejemplo S.L."),
            ("Correo electrónico", "maria@example.com"),
            ("Teléfono", "+34 600 000 000"),
        ]

    def test_what_the_form_asked_stands_under_its_labels(self) -> None:
        letter = letter_of(
            volumen_mensual="Hasta 10.000 €",
            tipo_de_partner="Integrador",
            sector="Hostelería",
            tema="Tarifas",
            otro="x",
        )

        assert letter.asked == [
            Field("Tema", "Tarifas"),
            Field("Tipo de colaboración", "Integrador"),
            Field("Sector", "Hostelería"),
            Field("Volumen mensual", "Hasta 10.000 €"),
        ]
        assert letter.others == [Field("Otro", "x")]

    @pytest.mark.parametrize(
        "name", ["correo electrónico", "Correo electrónico", "correo_electrónico", "mensaje ", "Email"]
    )
    def test_a_field_with_the_label_of_another_one_stands_apart(self, name: str) -> None:
        letter = letter_of(**{name: "x"})

        assert [field.text for field in letter.others] == ["x"]
        assert (letter.sender, letter.asked, letter.message) == (letter_of().sender, [], letter_of().message)

    @pytest.mark.parametrize("blank", ["", " ", "\t\n", *INVISIBLE], ids=ascii)
    @pytest.mark.parametrize("name", ["nombre", "empresa", "telefono"])
    def test_a_sender_s_field_of_nothing_visible_is_left_out(self, name: str, blank: str) -> None:
        assert SENDER[name] not in [field.label for field in letter_of(**{name: blank}).sender]

    @pytest.mark.parametrize("blank", ["", " ", "\t\n", *INVISIBLE], ids=ascii)
    def test_other_fields_of_nothing_visible_are_left_out(self, blank: str) -> None:
        letter = letter_of(mensaje=blank, tema=blank, otro=blank, lista=[blank, []], objeto={"a": blank})

        assert (letter.message, letter.asked, letter.others) == ("", [], [])

    @pytest.mark.parametrize("empty", [[], {}, [None], {"a": None}, [[], {}]], ids=str)
    def test_an_empty_list_or_object_is_left_out(self, empty: Any) -> None:
        assert (letter_of(tema=empty).asked, others(dato=empty)) == ([], [])

    def test_a_name_cannot_be_written_backwards(self) -> None:
        letter = letter_of(nombre="Ana \u202egnp.exe", empresa="\u2067Banco\u2069")

        assert [field.text for field in letter.sender][:2] == ["Ana gnp.exe", "Banco"]


class TestValues:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (True, "Sí"),
            (False, "No"),
            (0, "0"),
            (42, "42"),
            (-1.5, "-1,5"),
            (10**40, "1" + "0" * 40),
            ("uno\r\ndos", "uno\ndos"),
            (["a", 1, None, "", True], ["a", "1", "Sí"]),
            ([["a\nb"], ["ñ", [1.5, None]], {"n": True}], ['["a\\nb"]', '["ñ", [1.5, null]]', '{"n": true}']),
            ({"ciudad": "Cádiz", "calle": None, "tiendas": [1]}, {"Ciudad": "Cádiz", "Tiendas": "[1]"}),
            ([["a\u202e\u2028\x1b"]], [r'["a \u001b"]']),
            (" a   b\n\t c ", "a b\nc"),
        ],
        ids=str,
    )
    def test_a_value_reads_as_a_person_would_write_it(self, value: Any, expected: Any) -> None:
        assert shown(value) == expected


class TestRows:
    """A letter has 200 rows and its message: 10 that the service names, 189 of other fields, and 1 for the rest."""

    def test_the_labels_of_the_service_leave_189(self) -> None:
        longest = letter_of(email="josé@example.com", aviso="x", **dict.fromkeys(ASKED, "x"))

        assert sum(len(fields) for _, fields in longest.parts) + MOST_ROWS + 1 == 200

    def test_all_that_fit_have_a_row(self) -> None:
        assert others(**{f"d{number}": "x" for number in range(MOST_ROWS)}, vacío=[]) == [
            (f"D{number}", "x") for number in range(MOST_ROWS)
        ]

    def test_those_that_have_no_row_are_one_text(self) -> None:
        fields = {f"d{number}": f"valor {number}" for number in range(5000)}

        *rows, (label, rest) = others(**fields)

        assert rows == [(f"D{number}", f"valor {number}") for number in range(MOST_ROWS)]
        assert label == "Demás datos"
        assert json.loads(rest) == dict(list(fields.items())[MOST_ROWS:])

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param([str(number) for number in range(500)], id="list"),
            pytest.param({f"d{number}": "x" for number in range(500)}, id="object"),
            pytest.param([{"a": "x"}] * MOST_ROWS, id="objects in a list"),
            pytest.param("x\n" * 500, id="lines"),
            pytest.param(["x\n" * 500], id="lines in a list"),
        ],
    )
    def test_a_value_that_takes_too_many_is_among_the_rest(self, value: Any) -> None:
        before, after, (_, rest) = others(antes=["a", "b"], dato=value, luego=["c"])

        assert (before, after) == (("Antes", ["a", "b"]), ("Luego", ["c"]))
        assert json.loads(rest) == {"dato": value}

    def test_values_share_the_rows(self) -> None:
        first, third, (_, rest) = others(a=["x"] * 99, b=["y"] * 90, c=["z"] * 88)

        assert (first, third) == (("A", ["x"] * 99), ("C", ["z"] * 88))
        assert json.loads(rest) == {"b": ["y"] * 90}

    def test_the_rest_is_fit_to_be_shown(self) -> None:
        ((_, rest),) = others(dato=["Ana \u202egnp.exe\u2028Bcc: x"] + ["x"] * 500)

        assert rest.startswith('{"dato": ["Ana gnp.exe Bcc: x", "x"')


class TestLabels:
    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("cajasAbiertas", "Cajas abiertas"),
            ("cajas_abiertas", "Cajas abiertas"),
            ("CajasAbiertas", "Cajas abiertas"),
            ("Cajas Abiertas", "Cajas Abiertas"),
            ("cajas-abiertas", "Cajas abiertas"),
            ("cajas abiertas", "Cajas abiertas"),
            ("añoFundación", "Año fundación"),
            ("últimaÚltima", "Última última"),
            ("numeroRUT", "Numero RUT"),
            ("RUT", "RUT"),
            ("linea2Calle", "Linea2 calle"),
            ("país", "País"),
            ("e-mail", "E mail"),
            ("a__b\nc\u2028d", "A b c d"),
            ("cajas\u200bAbiertas\u202e", "Cajas abiertas"),
            ("支付", "支付"),
            ("__", "(sin nombre)"),
            (" ", "(sin nombre)"),
            ("\u200b", "(sin nombre)"),
        ],
    )
    def test_it_is_the_name_in_words(self, name: str, label: str) -> None:
        assert others(**{name: "x"}) == [(label, "x")]

    def test_a_field_without_a_name_says_so(self) -> None:
        assert others(**{"": "x"}) == [("(sin nombre)", "x")]
        assert shown({"": "x"}) == {"(sin nombre)": "x"}

    @pytest.mark.parametrize(
        "name",
        [
            "referencia",
            "Referencia: 3F0C-9A1B",
            "Correo electrónico",
            "correo_electronico",
            "tipo de colaboracio\u0301n",
            "MENSAJE",
            "nombre ",
            "Para responder:",
            "demas_datos",
            "1. Referencia",
            "*Referencia*",
            "recibido_el_01/02/2030",
        ],
    )
    def test_one_of_the_service_is_marked_as_another_field_s(self, name: str) -> None:
        ((label, _),) = others(**{name: "x"})
        (inner,) = shown({name: "x"})  # it stands within the field, where it can pass for nothing else

        assert label == f"{inner} (campo adicional)"

    @pytest.mark.parametrize("name", ["referencias", "nombre_comercial", "mensaje2", "tema favorito", "preferencia"])
    def test_a_label_that_only_resembles_one_of_the_service_is_not_marked(self, name: str) -> None:
        assert "adicional" not in others(**{name: "x"})[0][0]

    def test_two_fields_with_one_label_both_stay(self) -> None:
        assert others(otroDato="a", otro_dato="b") == [("Otro dato", "a"), ("Otro dato", "b")]


AGAIN = "Puede estar repetida: se perdió la respuesta al primer envío."


class TestNotice:
    @pytest.mark.parametrize(
        ("notice", "kind"),
        [
            pytest.param(
                "Esta solicitud corrige el correo de la solicitud 3F0C-9A1B.", " (corrección)", id="it corrects"
            ),
            pytest.param(AGAIN, "", id="it may repeat"),
            pytest.param(f"{AGAIN} Corrige la solicitud\r\n3F0C-9A1B.", " (corrección)", id="both"),
            pytest.param("Llame al 4491-3F0CA", "", id="no reference"),
        ],
    )
    def test_it_is_the_first_thing_and_a_correction_is_in_the_subject(self, notice: str, kind: str) -> None:
        letter = letter_of(aviso=notice, tema="Tarifas")

        assert letter.parts[0] == ("", [Field("Aviso", " ".join(notice.split()))])
        assert [heading for heading, _ in letter.parts] == ["", "", ""]
        assert (letter.sender[0].text, letter.asked[0].text, letter.others) == ("María Ñúñez", "Tarifas", [])
        assert letter.subject == f"Demo{kind}: Comercio Ejemplo S.L. · {REFERENCE}"

    @pytest.mark.parametrize("notice", [{"Nombre": "Ana"}, ["3F0C-9A1B"], 5], ids=str)
    def test_what_is_no_text_stays_among_the_other_fields(self, notice: Any) -> None:
        letter = letter_of(aviso=notice)

        assert letter.parts[0] == ("", letter.sender)
        assert [field.label for field in letter.others] == ["Aviso"]


class TestSubject:
    def test_what_fits_stays_whole(self) -> None:
        company = "x" * (120 - len(f"Demo:  · {REFERENCE}"))

        assert letter_of(empresa=company).subject == f"Demo: {company} · {REFERENCE}"

    @pytest.mark.parametrize(
        "company", ["palabra " * 25, "x" * 200, "支付" * 100, "👨\u200d👩\u200d👧" * 40, "שלם " * 40], ids=ascii
    )
    @pytest.mark.parametrize("form_type", ["demo", "distribuidor"])
    def test_what_is_longer_is_cut(self, form_type: str, company: str) -> None:
        subject = letter_of(form_type=form_type, empresa=company[:200]).subject

        assert 100 < len(subject) <= 120
        assert subject.replace("\u2069", "").endswith(f"… · {REFERENCE}")

    def test_the_cut_is_at_a_word(self) -> None:
        subject = letter_of(empresa="Ferretería " * 18).subject

        assert subject == f"Demo: {' '.join(['Ferretería'] * 9)}… · {REFERENCE}"

    @pytest.mark.parametrize("blank", [" ", "\t", "\r\n", "\0", "\u2028", "\u3000", *INVISIBLE], ids=ascii)
    def test_a_company_that_cannot_be_seen_names_nobody(self, blank: str) -> None:
        assert letter_of(empresa=blank).subject == f"Demo: María Ñúñez · {REFERENCE}"
        assert letter_of(empresa=blank, nombre=blank).subject == f"Demo: maria@example.com · {REFERENCE}"

    def test_right_to_left_text_cannot_reorder_it(self) -> None:
        assert letter_of(empresa="שלם (1)").subject == f"Demo: \u2068שלם (1)\u2069 · {REFERENCE}"


class TestPreview:
    @pytest.mark.parametrize(
        ("changes", "preview"),
        [
            ({"mensaje": "Hola:\r\n\r\n¿Es posible el jueves?"}, "Hola: ¿Es posible el jueves?"),
            ({"mensaje": "palabra " * 40}, f"{'palabra ' * 16}palabra…"),
            ({"mensaje": "\u200b"}, "María Ñúñez, Comercio Ejemplo S.L."),
            ({"mensaje": "", "empresa": ""}, "María Ñúñez"),
            ({"mensaje": "", "nombre": "", "empresa": ""}, "maria@example.com"),
        ],
    )
    def test_a_list_shows_the_message_or_else_who_writes(self, changes: dict[str, str], preview: str) -> None:
        assert letter_of(**changes).preview == preview


class TestReplyTo:
    @pytest.mark.parametrize(
        ("address", "reply_to"),
        [
            ("maria@example.com", "maria@example.com"),
            ("maria@españa.es", "maria@xn--espaa-rta.es"),
            ("josé@example.com", ""),
            ("=?utf-8?q?x?=@example.com", ""),
        ],
    )
    def test_who_cannot_be_answered_by_the_button_is_named(self, address: str, reply_to: str) -> None:
        letter = letter_of(email=address)

        assert letter.reply_to == reply_to
        assert ("Para responder" in [field.label for field in letter.sender]) == (not reply_to)


class TestLinks:
    @pytest.mark.parametrize(
        ("address", "target"),
        [
            ("maria@example.com", "maria@example.com"),
            (
                "o'hara+tag!#$%&*/=?^_`{|}~@example.com",
                "o%27hara%2Btag%21%23%24%25%26%2A%2F%3D%3F%5E_%60%7B%7C%7D~@example.com",
            ),
            ("maria@españa.es", "maria@xn--espaa-rta.es"),
            ("ñandú@correo.es", "%C3%B1and%C3%BA@correo.es"),
        ],
    )
    def test_an_answer_goes_to_the_visitor_under_the_subject(self, address: str, target: str) -> None:
        (href,) = (
            field.href for field in letter_of(email=address, empresa="A & B").sender if field.label == SENDER["email"]
        )

        assert href == f"mailto:{target}?subject=Re%3A%20Demo%3A%20A%20%26%20B%20%C2%B7%20{REFERENCE}"

    @pytest.mark.parametrize(
        ("phone", "href"),
        [
            ("+34 600 000 000", "tel:+34600000000"),
            ("600-000-000", "tel:600000000"),
            ("(91) 123.45.67", "tel:911234567"),
            ("+44 (0)20 7946 0000", "tel:+442079460000"),
            ("+54 (011) 4321-5678", "tel:+541143215678"),
            ("(+598) 99 123 456", "tel:+59899123456"),
            ("2901\u20132345", "tel:29012345"),
            *((f"+598 2901{dash}2345", "tel:+59829012345") for dash in "\u2010\u2011\u2012\u2014\u2212"),
            ("tel:+598-2901-2345", "tel:+59829012345"),
            ("Tel: 2901 2345", "tel:29012345"),
            ("(0)20 7946 0000", "tel:02079460000"),
            ("00598 2123 4567", "tel:0059821234567"),
            ("", ""),
            ("123456", "tel:123456"),
            ("12345", ""),
            ("123456789012345", "tel:123456789012345"),
            ("1234567890123456", ""),
            ("600 000 000 ext. 12", ""),
            ("600 000 000, 611 111 111", ""),
            ("34+600000000", ""),
            ("4321-5678 / 79", ""),
            ("22/11/2026", ""),
            ("٦٠٠٠٠٠٠٠٠", ""),
            ("llámeme", ""),
            ("600000000;phone-context=x", ""),
        ],
    )
    def test_a_telephone_is_a_link_where_it_is_one_number(self, phone: str, href: str) -> None:
        assert [field.href for field in letter_of(telefono=phone).sender if field.label == "Teléfono"] == (
            [href] if phone else []
        )
