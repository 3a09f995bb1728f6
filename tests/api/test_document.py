"""When the OpenAPI document is not sent again."""

from __future__ import annotations

import pytest

from tests.client import ValidatingClient

PATH = "/openapi.json"


@pytest.mark.parametrize("condition", ["W/{tag}", "{tag}", '"other", {tag}'])
def test_a_known_document_is_not_sent_again(client: ValidatingClient, condition: str) -> None:
    tag = client.get(PATH).headers["ETag"].removeprefix("W/")

    response = client.get(PATH, headers={"If-None-Match": condition.format(tag=tag)})

    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == f"W/{tag}"
