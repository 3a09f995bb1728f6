"""The OpenAPI document: when it is not sent again, and what it costs to ask for it."""

import tracemalloc

import pytest
from werkzeug.test import Client

from tests.client import ValidatingClient
from tests.conftest import MakeApp

PATH = "/openapi.json"


@pytest.mark.parametrize("condition", ["W/{tag}", "{tag}", '"other", {tag}'])
def test_a_known_document_is_not_sent_again(client: ValidatingClient, condition: str) -> None:
    tag = client.get(PATH).headers["ETag"].removeprefix("W/")

    response = client.get(PATH, headers={"If-None-Match": condition.format(tag=tag)})

    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == f"W/{tag}"


def test_the_hosts_that_clients_name_do_not_fill_the_memory(make_app: MakeApp) -> None:
    client = Client(make_app())
    size = len(client.get(PATH).data)
    tracemalloc.start()
    try:
        for number in range(50):
            client.get(PATH, headers={"Host": f"{number}.example"})
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 40 * size
