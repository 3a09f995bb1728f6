"""When the OpenAPI document is sent again."""

from __future__ import annotations

import pytest

from tests.client import DOCUMENT, ValidatingClient

PATH = "/openapi.json"


def test_the_document_is_the_published_one_but_for_its_servers(client: ValidatingClient) -> None:
    response = client.get(PATH)

    assert response.get_json() | {"servers": None} == DOCUMENT | {"servers": None}
    assert "á".encode() in response.data


@pytest.mark.parametrize("condition", ["W/{tag}", "{tag}", '"other", {tag}'])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_known_document_is_not_sent_again(client: ValidatingClient, method: str, condition: str) -> None:
    tag = client.get(PATH).headers["ETag"].removeprefix("W/")

    response = client.open(PATH, method=method, headers={"If-None-Match": condition.format(tag=tag)})

    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == f"W/{tag}"


@pytest.mark.parametrize(
    ("field", "condition"),
    [("If-None-Match", '"other"'), ("If-None-Match", '"'), ("If-Match", '"x"'), ("Range", "bytes=0-1")],
)
def test_every_other_condition_is_answered_with_the_document(
    client: ValidatingClient, field: str, condition: str
) -> None:
    response = client.get(PATH, headers={field: condition})

    assert (response.status_code, response.get_json()["info"]) == (200, DOCUMENT["info"])
