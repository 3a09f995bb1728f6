"""What each field of a contact form takes, and whose fault a value is. tests/api/exchanges.py has the code of each."""

from typing import Any

import pytest

from app.contact import schema
from app.contact.schema import validate
from tests.factories import contact_body

LARGEST = (1 << 63) - 1
ABC = "a\r\nb\nc\r"
TAKEN: dict[str, list[tuple[Any, Any]]] = {
    "nombre": [("ñ" * 200, "ñ" * 200), (" ", " "), ("x\r\n" * 100, "x\n" * 100)],
    "empresa": [("🏦" * 200, "🏦" * 200)],
    "telefono": [("6" * 40, "6" * 40)],
    "mensaje": [(ABC * 833 + "ab", "a\nb\nc\n" * 833 + "ab"), ("\r\r\n\n" * 1666 + "ab", "\n\n\n" * 1666 + "ab")],
    "ts": [
        *((number, number) for number in (1_800_000_000_000, -1, LARGEST, -LARGEST - 1)),
        *((str(number), number) for number in (0, 1_800_000_000_000, LARGEST)),
        ("0" * 30 + "7", 7),
        (1_800_000_000_000.0, 1_800_000_000_000),
    ],
    "tema": [("Precios", "Precios"), ({"a": [1, None, True]}, {"a": [1, None, True]})],
    "": [("x", "x")],
}
"""Values by their field, each with what comes of it."""
REFUSED: dict[str, list[Any]] = {
    "email": [
        *(["maria@example.com"], {"email": "maria@example.com"}, 5, None, "", "   ", "maria.example.com", "maria@"),
        *("maria@example@com", "@example.com", "maria nunez@example.com", "María <maria@example.com>"),
        *("maria@example.com\r\nBcc: otro@example.com", "maria\x00@example.com", "a@example.com, b@example.com"),
        *(f"o{mark}hara@example.com" for mark in "\u2018\u2019\u2010\u2015"),
        *(f"je{blank}fa@example.com" for blank in "\u200b\u034f\u3164"),
    ],
    "nombre": ["ñ" * 201, "x\r\n" * 100 + "x", 5, False],
    "empresa": ["x" * 201, ["x"], []],
    "telefono": ["6" * 41, 600_000_000],
    "mensaje": ["x" * 5001, ABC * 833 + "abc", {"a": 1}],
    "captcha_expected": [12345],
    "captcha_input": [["a"]],
    "_bp_check": [1, True],
    "ts": [
        *(True, 1.5, [1], LARGEST + 1, -LARGEST - 2, 10**4000, 1e300, "ayer", "1.0", "1_000", " 1", "+1"),
        *("\u0661\u0662", "\u00b2", str(LARGEST + 1), "9" * 50_000),
    ],
}


def each(values: dict[str, list[Any]]) -> pytest.MarkDecorator:
    cases = [pytest.param(name, it, id=f"{name} {str(it)!a:.40}") for name, own in values.items() for it in own]
    return pytest.mark.parametrize(("name", "value"), cases)


@each(TAKEN)
def test_a_value_is_taken(name: str, value: tuple[Any, Any]) -> None:
    typed, kept = value

    values, faults = validate(contact_body(**{name: typed}))

    assert faults == {}
    assert repr(values[name]) == repr(kept)


@each(REFUSED)
def test_a_wrong_value_is_the_fault_of_its_field_alone(name: str, value: Any) -> None:
    values, faults = validate(contact_body() | {name: value})

    assert list(faults) == [name]
    assert name not in values
    assert all(message.endswith(".") for message in faults[name])


def test_a_text_that_is_longer_than_an_address_does_not_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(schema, "validate_email", lambda text, **_: asked.append(text))

    _, faults = validate(contact_body(email="a" + "\u0301" * 16_300 + "\u0323" * 16_300 + "@b.co"))

    assert (list(faults), asked) == (["email"], [])  # the library would say the same, after seconds
