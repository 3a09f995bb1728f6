"""The OpenAPI document."""

from __future__ import annotations

import pytest

from tests.client import DOCUMENT, ValidatingClient
from tests.conftest import MakeClient

PATH = "/openapi.json"


def test_the_document_is_the_published_one_but_for_its_servers(client: ValidatingClient) -> None:
    response = client.get(PATH)

    assert response.status_code == 200
    assert response.content_type == "application/json"
    served = response.get_json()
    assert served["servers"] == [{"url": "http://localhost"}]
    assert served | {"servers": None} == DOCUMENT | {"servers": None}


def test_servers_name_the_base_address_of_the_operator(make_client: MakeClient) -> None:
    served = make_client(PUBLIC_BASE_URL="https://pay.example.com/base/").get(PATH).get_json()

    assert served["servers"] == [{"url": "https://pay.example.com/base"}]


def test_servers_name_the_host_that_was_asked(client: ValidatingClient) -> None:
    urls = [
        client.get(PATH, headers={"Host": host}).get_json()["servers"][0]["url"]
        for host in ("a.example.com", "b.example.com", "a.example.com")
    ]

    assert urls == ["http://a.example.com", "http://b.example.com", "http://a.example.com"]


def test_spanish_letters_are_readable(client: ValidatingClient) -> None:
    assert "á".encode() in client.get(PATH).data


def test_the_document_may_be_cached_and_errors_may_not(client: ValidatingClient) -> None:
    assert "no-store" not in client.get(PATH).headers["Cache-Control"]
    assert "no-store" not in client.head(PATH).headers["Cache-Control"]
    assert client.post(PATH).headers["Cache-Control"] == "no-store"
    assert client.options(PATH).headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("proxies", ["0", "1"])
def test_no_cache_may_show_others_a_host_that_a_client_made_up(make_client: MakeClient, proxies: str) -> None:
    response = make_client(TRUSTED_PROXIES=proxies).get(
        PATH, headers={"X-Forwarded-Host": "evil.example.com", "Host": "evil.example.com"}
    )

    assert "evil.example.com" in response.text
    assert response.headers["Cache-Control"] == "private, max-age=300"


def test_every_cache_may_keep_the_document_of_a_known_address(make_client: MakeClient) -> None:
    response = make_client(PUBLIC_BASE_URL="https://www.example.com").get(PATH)

    assert response.headers["Cache-Control"] == "public, max-age=300"


@pytest.mark.parametrize("condition", ["W/{tag}", "{tag}", '"other", {tag}', "*"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_known_document_is_not_sent_again(client: ValidatingClient, method: str, condition: str) -> None:
    tag = client.get(PATH).headers["ETag"].removeprefix("W/")

    response = client.open(PATH, method=method, headers={"If-None-Match": condition.format(tag=tag)})

    assert response.status_code == 304
    assert response.data == b""
    assert response.headers["ETag"] == f"W/{tag}"
    assert "no-store" not in response.headers["Cache-Control"]
    assert "Content-Type" not in response.headers


@pytest.mark.parametrize("condition", ['"other"', "other", '""', "", '"'])
def test_another_document_is_sent(client: ValidatingClient, condition: str) -> None:
    response = client.get(PATH, headers={"If-None-Match": condition})

    assert response.status_code == 200
    assert response.get_json()["openapi"].startswith("3.1")


@pytest.mark.parametrize("field", ["If-Match", "If-Unmodified-Since", "If-Range", "Range"])
def test_other_conditions_are_not_asked(client: ValidatingClient, field: str) -> None:
    assert client.get(PATH, headers={field: '"other"'}).status_code == 200


def test_the_etag_is_that_of_the_whole_document(client: ValidatingClient) -> None:
    first = client.get(PATH)
    same = client.get(PATH)
    other = client.get(PATH, headers={"Host": "other.example.com", "If-None-Match": first.headers["ETag"]})

    assert same.headers["ETag"] == first.headers["ETag"]
    assert other.status_code == 200
    assert other.headers["ETag"] != first.headers["ETag"]


def test_head_has_the_headers_of_get(client: ValidatingClient) -> None:
    got, asked = client.get(PATH), client.head(PATH)

    assert asked.data == b""
    for name in ("Content-Length", "Content-Type", "ETag", "Cache-Control"):
        assert asked.headers[name] == got.headers[name]


def test_the_api_points_to_the_document_below_the_base_address_of_the_operator(make_client: MakeClient) -> None:
    client = make_client(PUBLIC_BASE_URL="https://pay.example.com/base/")

    assert client.get("/api").headers.getlist("Link") == ['</base/openapi.json>; rel="service-desc"']
