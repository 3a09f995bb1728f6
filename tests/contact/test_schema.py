"""What each field of a contact form takes."""

from __future__ import annotations

from typing import Any

import pytest
from email_validator import EmailNotValidError, validate_email

from app.contact import schema
from app.contact.schema import MAX_ADDRESS_BYTES, validate
from app.contact.submission import FORM_TYPES
from tests.factories import contact_body

VALID: dict[str, tuple[str, Any]] = {
    "demo": ("form_type", "demo"),
    "ventas": ("form_type", "ventas"),
    "onboarding": ("form_type", "onboarding"),
    "distribuidor": ("form_type", "distribuidor"),
    "nombre of 200": ("nombre", "ñ" * 200),
    "empresa of 200": ("empresa", "🏦" * 200),
    "telefono of 40": ("telefono", "6" * 40),
    "mensaje of 5000": ("mensaje", "línea\n" * 833 + "ab"),
    "white space": ("nombre", " "),
    "ts": ("ts", 1_800_000_000_000),
    "ts 0": ("ts", 0),
    "ts -1": ("ts", -1),
    "largest ts": ("ts", (1 << 63) - 1),
    "smallest ts": ("ts", -(1 << 63)),
    "captcha of any length": ("captcha_input", "abcdef"),
    "honeypot": ("_bp_check", "texto"),
    "unknown text": ("tema", "Precios"),
    "unknown object": ("datos", {"a": [1, None, True]}),
    "unknown name without letters": ("", "x"),
}
"""Values that come out as they went in."""

WRONG: dict[str, tuple[str, Any]] = {
    "form_type of another kind": ("form_type", "soporte"),
    "form_type in capitals": ("form_type", "DEMO"),
    "form_type with a space": ("form_type", "demo "),
    "form_type as a list": ("form_type", ["demo"]),
    "form_type as an object": ("form_type", {"demo": 1}),
    "form_type as a number": ("form_type", 1),
    "form_type true": ("form_type", True),
    "email as a list": ("email", ["maria@example.com"]),
    "email as an object": ("email", {"email": "maria@example.com"}),
    "email as a number": ("email", 5),
    "email of spaces": ("email", "   "),
    "email without @": ("email", "maria.example.com"),
    "email with two @": ("email", "maria@example@com"),
    "email without a domain": ("email", "maria@"),
    "email without a local part": ("email", "@example.com"),
    "email with a space inside": ("email", "maria nunez@example.com"),
    "email with a display name": ("email", "María <maria@example.com>"),
    "email with a line of its own": ("email", "maria@example.com\r\nBcc: otro@example.com"),
    "email with a null": ("email", "maria\x00@example.com"),
    "two emails": ("email", "maria@example.com, otro@example.com"),
    "email with two dots": ("email", "maria..nunez@example.com"),
    **{f"email with {mark!a}": ("email", f"o{mark}hara@example.com") for mark in "\u2018\u2019\u2010\u2013\u2015"},
    "email with an invisible character inside": ("email", "ma\u200bria@example.com"),
    "email that is too long": ("email", "a" * 300 + "@example.com"),
    "nombre of 201": ("nombre", "ñ" * 201),
    "empresa of 201": ("empresa", "x" * 201),
    "telefono of 41": ("telefono", "6" * 41),
    "mensaje of 5001": ("mensaje", "x" * 5001),
    "mensaje of 5001 with CRLF": ("mensaje", "línea\r\n" * 833 + "abc"),
    "mensaje of 5001 with line breaks of all kinds": ("mensaje", "a\r\nb\nc\r" * 833 + "abc"),
    "mensaje of 5001 line breaks": ("mensaje", "\r\n" * 5001),
    "nombre of 201 with CRLF": ("nombre", "x\r\n" * 100 + "x"),
    "nombre as a number": ("nombre", 5),
    "nombre false": ("nombre", False),
    "empresa as a list": ("empresa", ["x"]),
    "empresa as an empty list": ("empresa", []),
    "telefono as a number": ("telefono", 600_000_000),
    "mensaje as an object": ("mensaje", {"a": 1}),
    "captcha_expected as a number": ("captcha_expected", 12345),
    "captcha_input as a list": ("captcha_input", ["a"]),
    "honeypot as a number": ("_bp_check", 1),
    "honeypot true": ("_bp_check", True),
    "ts true": ("ts", True),
    "ts as a float": ("ts", 1.5),
    "ts as a list": ("ts", [1]),
    "ts over 64 bits": ("ts", 1 << 63),
    "ts under 64 bits": ("ts", -(1 << 63) - 1),
    "ts of 4000 digits": ("ts", 10**4000),
    "ts as a float over 64 bits": ("ts", 1e300),
    "ts as text": ("ts", "ayer"),
    "ts as a float in text": ("ts", "1.0"),
    "ts with an exponent": ("ts", "1e12"),
    "ts with underscores": ("ts", "1_000"),
    "ts with a space": ("ts", " 1"),
    "ts with a sign": ("ts", "+1"),
    "ts in Arabic digits": ("ts", "\u0661\u0662"),
    "ts in full-width digits": ("ts", "\uff11\uff12"),
    "ts as a superscript": ("ts", "\u00b2"),
    "ts text over 64 bits": ("ts", str(1 << 63)),
    "ts text of 50,000 digits": ("ts", "9" * 50_000),
}


@pytest.mark.parametrize(("name", "value"), VALID.values(), ids=VALID.keys())
def test_a_valid_value_is_kept(name: str, value: Any) -> None:
    values, faults = validate(contact_body(**{name: value}))

    assert faults == {}
    assert values[name] == value


@pytest.mark.parametrize(("name", "value"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_the_fault_of_its_field_alone(name: str, value: Any) -> None:
    values, faults = validate(contact_body(**{name: value}))

    assert list(faults) == [name]
    assert name not in values


@pytest.mark.parametrize(
    ("name", "typed", "counted"),
    [
        pytest.param("mensaje", "línea\r\n" * 833 + "ab", "línea\n" * 833 + "ab", id="CRLF, as forms send it"),
        pytest.param("mensaje", "línea\r" * 833 + "ab", "línea\n" * 833 + "ab", id="CR"),
        pytest.param("mensaje", "línea\n" * 833 + "ab", "línea\n" * 833 + "ab", id="LF"),
        pytest.param("mensaje", "a\r\nb\nc\r" * 833 + "ab", "a\nb\nc\n" * 833 + "ab", id="all three"),
        pytest.param("mensaje", "\r\n" * 5000, "\n" * 5000, id="nothing else"),
        pytest.param("mensaje", "\r\r\n\n" * 1666 + "ab", "\n\n\n" * 1666 + "ab", id="one after the other"),
        pytest.param("nombre", "x\r\n" * 100, "x\n" * 100, id="in a name"),
        pytest.param("telefono", "6\r\n" * 20, "6\n" * 20, id="in a telephone number"),
    ],
)
def test_a_line_break_counts_as_one_character(name: str, typed: str, counted: str) -> None:
    values, faults = validate(contact_body(**{name: typed}))

    assert faults == {}
    assert values[name] == counted


@pytest.mark.parametrize("name", ["ts", "nombre", "empresa", "telefono", "mensaje", "captcha_input", "_bp_check", "x"])
@pytest.mark.parametrize("empty", [None, ""], ids=repr)
def test_an_empty_optional_field_counts_as_absent(name: str, empty: str | None) -> None:
    values, faults = validate(contact_body() | {name: empty})

    assert faults == {}
    assert name not in values


@pytest.mark.parametrize("name", ["form_type", "email"])
@pytest.mark.parametrize("empty", [None, ""], ids=repr)
def test_an_empty_required_field_is_a_fault(name: str, empty: str | None) -> None:
    _, faults = validate(contact_body() | {name: empty})

    assert list(faults) == [name]


@pytest.mark.parametrize("name", ["form_type", "email"])
def test_an_absent_required_field_is_a_fault(name: str) -> None:
    _, faults = validate(contact_body(**{name: None}))

    assert list(faults) == [name]


def test_nothing_else_is_required() -> None:
    assert validate({"form_type": "demo", "email": "maria@example.com"})[1] == {}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        pytest.param("0", 0, id="0 in digits"),
        pytest.param("1800000000000", 1_800_000_000_000, id="digits"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("0" * 30 + "7", 7, id="many leading zeros"),
        pytest.param(str((1 << 63) - 1), (1 << 63) - 1, id="largest in digits"),
        pytest.param(1_800_000_000_000.0, 1_800_000_000_000, id="whole float, to JSON Schema an integer"),
    ],
)
def test_ts_may_be_digits_or_a_whole_number(value: str | float, number: int) -> None:
    values, faults = validate(contact_body(ts=value))

    assert faults == {}
    assert repr(values["ts"]) == repr(number)


@pytest.mark.parametrize(
    ("text", "normalized", "ascii_email"),
    [
        pytest.param("maria@example.com", "maria@example.com", "maria@example.com", id="plain"),
        pytest.param(" \t\nmaria@example.com\r\n ", "maria@example.com", "maria@example.com", id="white space"),
        *(
            pytest.param(f"{mark} maria@example.com {mark}", "maria@example.com", "maria@example.com", id=ascii(mark))
            for mark in ("\ufeff", "\u200b", "\u202a\u202c", "\xad", "\u2060\xa0", "\0", "\x1b", "\u3000")
        ),
        pytest.param("m+w@sub.example.com", "m+w@sub.example.com", "m+w@sub.example.com", id="sub-address"),
        pytest.param("m@compañía.es", "m@compañía.es", "m@xn--compaa-7va5a.es", id="international domain"),
        pytest.param("josé@example.com", "josé@example.com", None, id="international local part"),
    ],
)
def test_an_address_is_trimmed_and_checked_by_its_syntax(text: str, normalized: str, ascii_email: str | None) -> None:
    values, faults = validate(contact_body(email=text))

    assert faults == {}
    assert (values["email"].normalized, values["email"].ascii_email) == (normalized, ascii_email)


@pytest.mark.parametrize("letter", ["a", "ñ", "e\u0301", "€", "🏦"])
@pytest.mark.parametrize("domain", ["example.com", "compañía.example"])
def test_no_address_that_the_library_takes_is_too_long(letter: str, domain: str) -> None:
    taken = 0
    for length in range(1, MAX_ADDRESS_BYTES + 2):
        address = f"{letter * length}@{domain}"
        try:
            validate_email(address, check_deliverability=False)
        except EmailNotValidError:
            valid = False
        else:
            valid = True
        taken += valid

        _, faults = validate(contact_body(email=f" {address} "))

        assert (faults == {}) is valid
    assert 0 < taken <= MAX_ADDRESS_BYTES


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("a" * (MAX_ADDRESS_BYTES + 1 - len("@b.co")) + "@b.co", id="255 letters"),
        pytest.param("ñ" * 125 + "@b.co", id="255 bytes"),
        pytest.param("a" + "\u0301" * 16_300 + "\u0323" * 16_300 + "@b.co", id="32,600 combining marks"),
        pytest.param("a" * 60_000, id="no address"),
    ],
)
def test_what_is_longer_than_an_address_does_not_reach_the_library(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    # What the library answers is the same, after seconds.
    asked: list[str] = []
    monkeypatch.setattr(schema, "validate_email", lambda text, **_: asked.append(text))

    _, faults = validate(contact_body(email=address))

    assert (list(faults), asked) == (["email"], [])


def test_every_faulty_field_is_named_with_messages() -> None:
    _, faults = validate(contact_body(nombre=5, telefono="6" * 41, ts=1.5))

    assert faults.keys() == {"nombre", "telefono", "ts"}
    assert all(message.endswith(".") for messages in faults.values() for message in messages)


def test_the_four_form_kinds() -> None:
    assert FORM_TYPES == ("demo", "ventas", "onboarding", "distribuidor")


def test_the_fields_keep_the_order_of_the_form() -> None:
    extra = [f"campo_{number}" for number in range(50)]

    values, _ = validate(contact_body() | dict.fromkeys(extra, "x"))

    assert [name for name in values if name.startswith("campo")] == extra
