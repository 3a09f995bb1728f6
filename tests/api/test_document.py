"""When the OpenAPI document is sent again."""

from __future__ import annotations

import pytest

from tests.client import DOCUMENT, ValidatingClient

PATH = "/openapi.json"


def test_the_document_is_the_published_one_but_for_its_servers(client: ValidatingClient) -> None:
    response = client.get(PATH)

    assert response.get_json() | {"servers": None} == DOCUMENT | {"servers": None}
    assert "á".encode() in response.data


def test_each_host_gets_its_own_document(client: ValidatingClient) -> None:
    hosts = ["a.example.com", "b.example.com", "a.example.com"]

    responses = [client.get(PATH, headers={"Host": host}) for host in hosts]

    assert [response.get_json()["servers"][0]["url"] for response in responses] == [f"http://{host}" for host in hosts]
    assert responses[0].headers["ETag"] == responses[2].headers["ETag"] != responses[1].headers["ETag"]


@pytest.mark.parametrize("condition", ["W/{tag}", "{tag}", '"other", {tag}', "*"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_known_document_is_not_sent_again(client: ValidatingClient, method: str, condition: str) -> None:
    tag = client.get(PATH).headers["ETag"].removeprefix("W/")

    response = client.open(PATH, method=method, headers={"If-None-Match": condition.format(tag=tag)})

    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == f"W/{tag}"


OTHER = ['"other"', "other", '""', "", '"']
CONDITIONS = [
    *(("If-None-Match", tag) for tag in OTHER),
    ("If-Match", '"x"'),
    ("If-Range", '"x"'),
    ("Range", "bytes=0-1"),
]


@pytest.mark.parametrize(
    ("field", "condition"), [*CONDITIONS, ("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT")]
)
def test_every_other_condition_is_answered_with_the_document(
    client: ValidatingClient, field: str, condition: str
) -> None:
    response = client.get(PATH, headers={field: condition})

    assert (response.status_code, response.get_json()["info"]) == (200, DOCUMENT["info"])
