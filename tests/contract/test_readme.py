"""README.md states facts: the code is held to them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app import API_POLICY, CONTACT_POLICY
from app.api.body import MAX_BODY_BYTES
from app.contact.schema import ContactSchema
from app.contact.submission import FORM_TYPES
from app.errors import ErrorCode
from tests.client import DOCUMENT
from tests.pages import README

ENDPOINTS = " ".join(README.section("Endpoints").split())
DOCUMENTED = [
    (method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item if method in {"get", "post"}
]
NAMES = {*ContactSchema().fields, *FORM_TYPES}
FACTS: dict[str, tuple[Any, Any]] = {
    "errors": (
        re.findall(r"^\| (\w+) \| (\d+) \|", README.section("Errors"), re.MULTILINE),
        [(code, str(code.status)) for code in ErrorCode],
    ),
    "endpoints": (
        sorted(re.findall(r"^\| ([A-Z]+) \| (\S+) \|", README.section("Endpoints"), re.MULTILINE)),
        sorted(DOCUMENTED),
    ),
    "fields and kinds of the form": (NAMES - {*re.findall(r"\w+", ENDPOINTS)}, set()),
    "quotas": (
        re.findall(r"(\d+) (?:requests|POSTs?) per (\d+) seconds (?:under `/api`|to the contact paths)", ENDPOINTS),
        [(str(policy.quota), str(policy.window_seconds)) for policy in (API_POLICY, CONTACT_POLICY)],
    ),
    "longest body": (re.findall(r"at most (\d+) KiB", ENDPOINTS), [str(MAX_BODY_BYTES // 1024)]),
}


@pytest.mark.parametrize(("stated", "of_the_code"), FACTS.values(), ids=FACTS)
def test_the_readme_and_the_code_agree(stated: Any, of_the_code: Any) -> None:
    assert stated == of_the_code
