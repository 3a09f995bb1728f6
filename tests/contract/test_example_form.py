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

OWN_FIELDS = {
    "tema": "ventas",
    "tipo_de_partner": "distribuidor",
    "sector": "onboarding",
    "volumen_mensual": "onboarding",
}
"""The fields that only one kind of form has."""

AGE_REASONS = {"too_early", "expired"}

SET_BY_MODULE = {"ts", "captcha_expected"}

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


def test_the_kinds_are_those_of_the_service() -> None:
    assert tuple(radio["value"] for radio in PAGE.named("form_type")) == FORM_TYPES


def test_the_fields_are_those_of_the_service_and_those_of_one_kind() -> None:
    own = {name: kind for name, kind in PAGE.kinds.items() if kind is not None}

    assert own == OWN_FIELDS
    assert own.keys() == ASKED.keys()
    assert (PAGE.kinds.keys() - own.keys()) | SET_BY_MODULE == ContactSchema().fields.keys()


def test_the_sales_team_reads_the_labels_of_the_form() -> None:
    assert {name: PAGE.labels[name] for name in OWN_FIELDS} == {name: ASKED[name] for name in OWN_FIELDS}


@pytest.mark.parametrize("name", ContactSchema().fields)
def test_no_field_takes_more_than_the_service_does(name: str) -> None:
    limits = [check.max for check in ContactSchema().fields[name].validators if isinstance(check, Length)]
    if name == "captcha_input":
        limits = [CAPTCHA_LENGTH]
    if name == "email":
        limits = [MAX_ADDRESS_BYTES]

    lengths = [int(attributes["maxlength"] or 0) for attributes in PAGE.named(name) if "maxlength" in attributes]

    assert lengths == limits


def test_required_is_what_the_service_requires_and_the_name() -> None:
    required = {name for name, field in ContactSchema().fields.items() if field.required}

    assert {attributes["name"] for _, attributes in PAGE.elements if "required" in attributes} == required | {
        "nombre",
        "captcha_input",
    }
    assert not [attributes for _, attributes in PAGE.elements if "checked" in attributes]


def table(name: str) -> dict[str, str]:
    """An object of texts in the module."""
    (rows,) = re.findall(f"^const {name} = {{(.*?)}};", MODULE, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r'([\w.]+)"?: "(\w+)"', rows))


def test_every_error_that_a_visitor_can_meet_has_a_text() -> None:
    kinds = table("KINDS")
    named = table("FIELDS").keys() | kinds.keys()
    others = {code for code in ErrorCode if code not in named}

    assert named - {"offline", "invalid_body.too_large", "429"} <= set(map(str, ErrorCode))
    assert [code for code in others if code.status >= 500] == [ErrorCode.INTERNAL_ERROR], "leaves it in doubt"
    assert set(TEXTS["titles"]) == set(TEXTS["endings"]) == {"wait", "not_sent", "doubt", "site"}
    not_sent = {name for name, kind in kinds.items() if kind == "not_sent"}
    assert {"wait", "doubt", "site"} | not_sent <= TEXTS["errors"].keys()
    assert {f"too_fast.{reason}" for reason in AGE_REASONS} <= TEXTS["errors"].keys()


@pytest.mark.parametrize("rendered_at", [1, 10_000_000])
def test_each_reason_of_too_fast_is_known(rendered_at: int) -> None:
    with pytest.raises(ApiError) as refused:
        check_age(rendered_at, now=5_000_000)

    assert refused.value.details
    assert refused.value.details["reason"] in AGE_REASONS


def test_the_numbers_of_the_module_are_those_of_the_service() -> None:
    numbers = {
        name: int(value.replace("_", ""))
        for name, value in re.findall(r"^const (\w+) = ([\d_]+);", MODULE, re.MULTILINE)
    }

    assert numbers["CAPTCHA_LENGTH"] == CAPTCHA_LENGTH
    assert numbers["MIN_AGE_MS"] == MIN_AGE_SECONDS * 1000
    assert numbers["MAX_AGE_MS"] == MAX_AGE_SECONDS * 1000


def test_the_honeypot_is_empty_and_outside_of_everybodys_reach() -> None:
    (honeypot,) = PAGE.named(HONEYPOT)
    tags = [tag for tag, _ in PAGE.elements]
    position = [attributes for _, attributes in PAGE.elements].index(honeypot)
    wrapper = PAGE.elements[position - 2][1]

    assert honeypot.get("value") is None
    assert honeypot["autocomplete"] == "off"
    assert tags[position - 2 : position] == ["div", "label"]
    assert "inert" in wrapper
    # A machine that reads the page takes it for a field like any other.
    assert honeypot.get("type", "text") == "text"


def test_the_form_posts_where_the_service_started_by_make_run_listens(tmp_path: Path) -> None:
    bind = Settings.from_env({"MAIL_DIR": str(tmp_path)}).bind
    (form,) = (attributes for tag, attributes in PAGE.elements if tag == "form")

    assert form["method"] == "post"
    assert form["action"] == f"http://{bind}/api/v1/contact"
    assert "/api/v1/contact" in DOCUMENT["paths"]
    assert bind not in MODULE


def test_the_page_needs_nothing_from_elsewhere() -> None:
    addresses = [
        attributes[name] or "" for _, attributes in PAGE.elements for name in ("src", "href") if name in attributes
    ]

    links = {"/", "/privacidad", "data:,", "mailto:ventas@example.com"}
    files = {"contact-form.css", "contact-form.js", "page.css"}
    assert set(addresses) - links == files
    for path in map(FOLDER.joinpath, files):
        assert not re.search(r"https?:|import\b|@import|url\(", path.read_text()), path
