"""examples/contact-form is held to the code: a form that is copied from it is one that the service takes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from marshmallow.validate import Length

from app.contact.antispam import CAPTCHA_LENGTH, MAX_AGE_SECONDS, MIN_AGE_SECONDS, check_age
from app.contact.letter import ASKED
from app.contact.schema import MAX_ADDRESS_BYTES, ContactSchema
from app.contact.submission import FORM_TYPES, HONEYPOT
from app.errors import ApiError, ErrorCode
from app.settings import Settings
from tests.client import DOCUMENT

FOLDER = Path(__file__).parents[2] / "examples" / "contact-form"
MODULE = (FOLDER / "contact-form.js").read_text()

(_TEXTS,) = re.findall('id="contact-texts">(.*?)</script>', (FOLDER / "index.html").read_text(), re.DOTALL)
TEXTS = json.loads(_TEXTS)

SCHEMA = ContactSchema().fields

Attributes = dict[str, str | None]


class Page(HTMLParser):
    """The elements of the example's page, each with the kind of form that it is shown for."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, Attributes]] = []
        self.kinds: dict[str, str | None] = {}
        self.labels: dict[str, str] = {}
        self._labelled = ""
        self._kind: str | None = None
        self.feed((FOLDER / "index.html").read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "fieldset":
            self._kind = attributes.get("data-kind")
        self._labelled = (attributes.get("for") or "") if tag == "label" else ""
        name = attributes.get("name")
        if name is not None and tag in {"input", "select", "textarea"}:
            self.kinds[name] = self._kind
        self.elements.append((tag, attributes))

    def handle_data(self, data: str) -> None:
        if self._labelled:
            self.labels.setdefault(self._labelled, data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "fieldset":
            self._kind = None

    def named(self, name: str) -> list[Attributes]:
        return [attributes for _, attributes in self.elements if attributes.get("name") == name]


PAGE = Page()
(FORM,) = (attributes for tag, attributes in PAGE.elements if tag == "form")
ADDRESSES = {attributes[name] for _, attributes in PAGE.elements for name in ("src", "href") if name in attributes}


def table(name: str) -> dict[str, str]:
    """An object of texts in the module."""
    (rows,) = re.findall(f"^const {name} = {{(.*?)}};", MODULE, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r'([\w.]+)"?: "(\w+)"', rows))


def number(name: str) -> int:
    (digits,) = re.findall(f"^const {name} = ([\\d_]+);", MODULE, re.MULTILINE)
    return int(digits)


OWN_FIELDS = {
    "tema": "ventas",
    "tipo_de_partner": "distribuidor",
    "sector": "onboarding",
    "volumen_mensual": "onboarding",
}
"""The fields that only one kind of form has."""
SET_BY_MODULE = {"ts", "captcha_expected"}
REQUIRED = {name for name, field in SCHEMA.items() if field.required} | {"nombre", "captcha_input"}
KINDS = table("KINDS")
NAMED = table("FIELDS").keys() | KINDS.keys()
AGE_REASONS = {"too_early", "expired"}
OUTCOMES = {"wait", "not_sent", "doubt", "site"}
EXPLAINED = {"wait", "doubt", "site"} | {name for name, kind in KINDS.items() if kind == "not_sent"}
FILES = {"contact-form.css", "contact-form.js", "page.css"}
LINKS = {"/", "/privacidad", "data:,", "mailto:ventas@example.com"}

FACTS = {
    "the kinds": (tuple(radio["value"] for radio in PAGE.named("form_type")), FORM_TYPES),
    "no kind is chosen": ([attributes for _, attributes in PAGE.elements if "checked" in attributes], []),
    "the fields": (PAGE.kinds.keys() - OWN_FIELDS.keys() | SET_BY_MODULE, SCHEMA.keys()),
    "the fields of one kind": ({name: kind for name, kind in PAGE.kinds.items() if kind}, OWN_FIELDS),
    "the labels that the sales team reads": ({name: PAGE.labels[name] for name in OWN_FIELDS}, ASKED),
    "what is required": ({attributes["name"] for _, attributes in PAGE.elements if "required" in attributes}, REQUIRED),
    "the characters of the captcha": (number("CAPTCHA_LENGTH"), CAPTCHA_LENGTH),
    "the least age": (number("MIN_AGE_MS"), MIN_AGE_SECONDS * 1000),
    "the greatest age": (number("MAX_AGE_MS"), MAX_AGE_SECONDS * 1000),
    "no code that nobody answers": (
        NAMED - {"offline", "invalid_body.too_large", "429"} - set(map(str, ErrorCode)),
        set(),
    ),
    "what is left in doubt": ({code for code in ErrorCode if code.status >= 500} - NAMED, {ErrorCode.INTERNAL_ERROR}),
    "a title for each outcome": (TEXTS["titles"].keys(), OUTCOMES),
    "an ending for each outcome": (TEXTS["endings"].keys(), OUTCOMES),
    "an error without a text": (EXPLAINED - TEXTS["errors"].keys(), set()),
    "a clock without a text": ({f"too_fast.{reason}" for reason in AGE_REASONS} - TEXTS["errors"].keys(), set()),
    "how it is sent": (FORM["method"], "post"),
    "what the page needs": (ADDRESSES - LINKS, FILES),
}


@pytest.mark.parametrize(("example", "service"), FACTS.values(), ids=FACTS)
def test_the_example_says_what_the_service_does(example: object, service: object) -> None:
    assert example == service


LIMITS = {"captcha_input": [CAPTCHA_LENGTH], "email": [MAX_ADDRESS_BYTES]}
"""Of the fields for which the schema has no length."""


@pytest.mark.parametrize("name", SCHEMA)
def test_no_field_takes_more_than_the_service_does(name: str) -> None:
    limits = [check.max for check in SCHEMA[name].validators if isinstance(check, Length)]
    lengths = [int(attributes["maxlength"] or 0) for attributes in PAGE.named(name) if "maxlength" in attributes]

    assert lengths == LIMITS.get(name, limits)


@pytest.mark.parametrize("rendered_at", [1, 10_000_000])
def test_each_reason_of_too_fast_is_known(rendered_at: int) -> None:
    with pytest.raises(ApiError) as refused:
        check_age(rendered_at, now=5_000_000)

    assert refused.value.details
    assert refused.value.details["reason"] in AGE_REASONS


def test_the_honeypot_is_empty_and_outside_of_everybodys_reach() -> None:
    (honeypot,) = PAGE.named(HONEYPOT)
    position = [attributes for _, attributes in PAGE.elements].index(honeypot)
    (wrapping, wrapper), (label, _) = PAGE.elements[position - 2 : position]

    assert honeypot.get("value") is None
    assert honeypot["autocomplete"] == "off"
    assert (wrapping, label) == ("div", "label")
    assert "inert" in wrapper
    # A machine that reads the page takes it for a field like any other.
    assert honeypot.get("type", "text") == "text"


def test_the_form_posts_where_the_service_started_by_make_run_listens(tmp_path: Path) -> None:
    bind = Settings.from_env({"MAIL_DIR": str(tmp_path)}).bind

    assert FORM["action"] == f"http://{bind}/api/v1/contact"
    assert "/api/v1/contact" in DOCUMENT["paths"]
    assert bind not in MODULE


@pytest.mark.parametrize("file", sorted(FILES))
def test_no_file_asks_for_another(file: str) -> None:
    assert not re.search(r"https?:|import\b|@import|url\(", (FOLDER / file).read_text())
