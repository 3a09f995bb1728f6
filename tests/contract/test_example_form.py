"""docs/contact-form is held to the code: a form that is copied from it is one that the service takes."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from app.contact.antispam import CAPTCHA_LENGTH, MAX_AGE_SECONDS, MIN_AGE_SECONDS
from app.contact.content import ASKED
from app.contact.schema import MAX_ADDRESS_BYTES, ContactSchema
from app.errors import ErrorCode, Where
from app.forms import FORM_TYPES, HONEYPOT
from tests.factories import make_settings
from tests.server.gunicorn import ROOT
from tests.versions import CURRENT
from tools import document
from tools.document import LENGTHS

FOLDER = ROOT / "docs" / "contact-form"
MODULE = (FOLDER / "contact-form.js").read_text()
HTML = (FOLDER / "index.html").read_text()
TEXTS = json.loads(HTML.partition('id="contact-texts">')[2].partition("</script>")[0])
SCHEMA = ContactSchema().fields


class Page(HTMLParser):
    """The elements of the example's page, with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(HTML)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


ELEMENTS = Page().elements
(FORM,) = (attributes for tag, attributes in ELEMENTS if tag == "form")
INPUTS = [attributes for tag, attributes in ELEMENTS if tag in {"input", "select", "textarea"}]
ADDRESSES = {attributes[name] for _, attributes in ELEMENTS for name in ("src", "href") if name in attributes}
LABELS = dict(re.findall(r'<label for="contact-form-(\w+)">([^<]+?) *<', HTML))
OWN_FIELDS = {
    name: kind
    for kind, fields in re.findall(r'<fieldset[^>]* data-kind="(\w+)"(.*?)</fieldset>', HTML, re.DOTALL)
    for name in re.findall(r' name="(\w+)"', fields)
}
"""The fields that only one form type has."""


def table(name: str) -> dict[str, str]:
    """An object of texts in the module."""
    (rows,) = re.findall(f"^const {name} = {{(.*?)}};", MODULE, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r'([\w.]+)"?: "(\w+)"', rows))


def number(name: str) -> int:
    (digits,) = re.findall(f"^const {name} = ([\\d_]+);", MODULE, re.MULTILINE)
    return int(digits)


KINDS, FIELDS = table("KINDS"), table("FIELDS")
NAMED = FIELDS.keys() | KINDS.keys()
PATH = f"{CURRENT.base_path}/contact"
BIND = make_settings(ROOT).bind
"""Where the service that `make run` starts listens."""
ANSWERED = {code for code in ErrorCode if document.can_answer(code, PATH, {})}
OF_FORMS = {code for code in ANSWERED if code.where in {Where.FORMS, "/contact"}}
SET_BY_MODULE = {"ts", "captcha_expected"}
REQUIRED = {name for name, field in SCHEMA.items() if field.required} | {"nombre", "captcha_input"}
WITHOUT_A_TEXT = FIELDS.keys() - TEXTS["errors"].keys()
OUTCOMES = {"wait", "not_sent", "doubt", "site"}
EXPLAINED = {"wait", "doubt", "site", "too_fast.too_early", "too_fast.expired"}
EXPLAINED |= {name for name, kind in KINDS.items() if kind == "not_sent"}
FILES = {"contact-form.css", "contact-form.js", "page.css"}
LINKS = {"/", "/privacidad", "data:,", "mailto:ventas@example.com"}
PAGE_FACTS: dict[str, tuple[Any, Any]] = {
    "the form types": (tuple(it["value"] for it in INPUTS if it["name"] == "form_type"), FORM_TYPES),
    "no form type is chosen": ([attributes for _, attributes in ELEMENTS if "checked" in attributes], []),
    "the fields": ({it["name"] for it in INPUTS} - OWN_FIELDS.keys() | SET_BY_MODULE, SCHEMA.keys()),
    "the labels that the sales team reads": ({name: LABELS[name] for name in OWN_FIELDS}, ASKED),
    "the fields of one form type": (
        OWN_FIELDS,
        dict(zip(ASKED, ("ventas", "distribuidor", *["onboarding"] * 2), strict=True)),
    ),
    "what is required": ({it["name"] for it in INPUTS if "required" in it}, REQUIRED),
    "the longest texts": (
        {it["name"]: int(it["maxlength"] or 0) for it in INPUTS if "maxlength" in it},
        {**LENGTHS, "captcha_input": CAPTCHA_LENGTH, "email": MAX_ADDRESS_BYTES},
    ),
    "a title and an ending for each outcome": (
        [{*TEXTS[part]} for part in ("titles", "endings")],
        [OUTCOMES, OUTCOMES - {"wait"}],
    ),
    "an error without a text in contact-texts": (EXPLAINED - TEXTS["errors"].keys(), set()),
    "a second error of a field without a text in contact-texts": (
        {code for code in WITHOUT_A_TEXT if list(map(FIELDS.get, WITHOUT_A_TEXT)).count(FIELDS[code]) > 1},
        set(),
    ),
    "how it is sent": (FORM["method"], "post"),
    "where it is sent": (FORM["action"], f"http://{BIND}{PATH}"),
    "htmx would send it, too": (FORM["data-hx-boost"], "false"),
    "what the page needs": (ADDRESSES - LINKS, FILES),
}
MODULE_FACTS: dict[str, tuple[Any, Any]] = {
    "the page alone knows the service's address": (BIND in MODULE, False),
    "the characters of the captcha": (number("CAPTCHA_LENGTH"), CAPTCHA_LENGTH),
    "the least age": (number("MIN_AGE_MS"), MIN_AGE_SECONDS * 1000),
    "the greatest age": (number("MAX_AGE_MS"), MAX_AGE_SECONDS * 1000),
    "an error of the forms that is neither in FIELDS nor in KINDS": (OF_FORMS - NAMED, set()),
    "an error that the service never answers": (
        NAMED - {"offline", "invalid_body.too_large", "429"} - {*map(str, ErrorCode)},
        set(),
    ),
    "what is left in doubt": ({code for code in ANSWERED if code.status >= 500} - NAMED, {ErrorCode.INTERNAL_ERROR}),
}
FACTS = {f"index.html: {name}": fact for name, fact in PAGE_FACTS.items()}
FACTS |= {f"contact-form.js: {name}": fact for name, fact in MODULE_FACTS.items()}


@pytest.mark.parametrize(("example", "service"), FACTS.values(), ids=FACTS)
def test_the_example_says_what_the_service_does(example: object, service: object) -> None:
    assert example == service


def test_the_honeypot_is_empty_and_outside_of_everybodys_reach() -> None:
    (position,) = (number for number, (_, it) in enumerate(ELEMENTS) if it.get("name") == HONEYPOT)
    (wrapping, wrapper), (label, _), (_, honeypot) = ELEMENTS[position - 2 : position + 1]

    assert (wrapping, label, "inert" in wrapper) == ("div", "label", True)
    # A machine that reads the page takes it for a field like any other.
    assert (honeypot.get("type", "text"), honeypot.get("value"), honeypot["autocomplete"]) == ("text", None, "off")


@pytest.mark.parametrize("file", sorted(FILES))
def test_no_file_asks_for_another(file: str) -> None:
    assert not re.search(r"https?:|import\b|@import|url\(", (FOLDER / file).read_text())
