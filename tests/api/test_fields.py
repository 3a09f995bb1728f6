"""The Link field of RFC 8631; the other fields of every response have tests where they are made."""

from __future__ import annotations

import pytest

from tests.api.fields import SERVICE_DESC
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import contact_body

DESCRIBED = {
    "index": ("GET", "/api", 200),
    "HEAD": ("HEAD", "/api/versioning", 200),
    "contact": ("POST", "/api/v1/contact", 200),
    "OPTIONS": ("OPTIONS", "/api/v1/contact", 204),
    "wrong parameter": ("GET", "/api?section=x", 400),
    "unknown endpoint": ("GET", "/api/nothing", 404),
    "unknown version": ("GET", "/api/v9", 404),
    "wrong method": ("DELETE", "/api/v1/health", 405),
    "document": ("GET", "/openapi.json", 200),
    "wrong method of the document": ("POST", "/openapi.json", 405),
}
OTHERS = {
    "legacy contact": ("POST", "/contact.php", 200),
    "OPTIONS of the legacy path": ("OPTIONS", "/contact.php", 204),
    "root": ("GET", "/", 404),
    "a path that only begins like the API": ("GET", "/apix", 404),
    "a path that only begins like the document": ("GET", "/openapi.json/", 404),
}


def links(client: ValidatingClient, method: str, path: str, status: int) -> list[str]:
    response = client.open(path, method=method, json=contact_body() if method == "POST" else None)
    assert response.status_code == status
    return response.headers.getlist("Link")


@pytest.mark.parametrize(("method", "path", "status"), DESCRIBED.values(), ids=DESCRIBED)
def test_the_api_and_the_document_point_to_the_document(
    client: ValidatingClient, method: str, path: str, status: int
) -> None:
    assert links(client, method, path, status) == [SERVICE_DESC]


@pytest.mark.parametrize(("method", "path", "status"), OTHERS.values(), ids=OTHERS)
def test_other_paths_do_not(client: ValidatingClient, method: str, path: str, status: int) -> None:
    assert links(client, method, path, status) == []


def test_the_document_is_found_below_the_base_address_of_the_operator(make_client: MakeClient) -> None:
    client = make_client(PUBLIC_BASE_URL="https://pay.example.com/base/")

    assert links(client, "GET", "/api", 200) == ['</base/openapi.json>; rel="service-desc"']
