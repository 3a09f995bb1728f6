"""README.md states facts: the code is held to them."""

from __future__ import annotations

import re

import pytest

from app import API_POLICY, CONTACT_POLICY
from app.api.body import MAX_BODY_BYTES
from app.contact.schema import ContactSchema
from app.contact.submission import FORM_TYPES
from app.errors import ErrorCode
from tests.client import DOCUMENT
from tests.pages import README


def table(heading: str) -> list[list[str]]:
    lines = [line for line in README.section(heading).splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_error_table_is_the_catalogue() -> None:
    assert [(code, int(status)) for code, status, _ in table("Errors")] == [(code, code.status) for code in ErrorCode]


def test_the_endpoint_table_lists_what_the_document_does() -> None:
    documented = {
        (method.upper(), path)
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method in {"get", "post"}
    }

    assert {(method, path) for method, path, _ in table("Endpoints")} == documented


@pytest.mark.parametrize("name", [*ContactSchema().fields, *FORM_TYPES])
def test_the_fields_of_the_form_are_named(name: str) -> None:
    assert re.search(rf"\b{name}\b", README.section("Endpoints"))


def test_the_limits_are_those_of_the_code() -> None:
    text = " ".join(README.section("Endpoints").split())

    assert f"{API_POLICY.quota} requests per {API_POLICY.window_seconds} seconds under `/api`" in text
    assert re.search(
        rf"\b{CONTACT_POLICY.quota} POSTs? per {CONTACT_POLICY.window_seconds} seconds to the contact paths", text
    )
    assert f"at most {MAX_BODY_BYTES // 1024} KiB" in text
