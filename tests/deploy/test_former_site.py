"""The service behind the nginx site of the former release, which kept connections and took bodies of 128 KiB."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.deploy.load import new_client
from tests.deploy.site import Site, site
from tests.factories import contact_body

FORMER = {
    "1/gunicorn.sock max_fails=0;": "1/gunicorn.sock max_fails=0; keepalive 16; keepalive_timeout 1s;",
    "proxy_http_version 1.0;": 'proxy_http_version 1.1; proxy_set_header Connection "";',
    "client_max_body_size 64k;": "client_max_body_size 128k;",
}
"""What stands in the site of this release, and what stood there."""

TIMES = 20
SIZES = {60_000: "ok", 127_000: "too_large"}
FORM = json.dumps(contact_body()).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("former"), "0", "1", changes=FORMER) as served:
        yield served


def ask(served: Site, method: str, path: str, client: str, size: int) -> str:
    """What becomes of a form, which white space makes that long."""
    body = json.loads(served.request(method, path, client=client, body=FORM.ljust(size), headers=JSON).body)
    error = body.get("error", {})
    reason: str = "ok" if body["ok"] else error.get("details", {}).get("reason") or error["code"]
    return reason


@pytest.mark.parametrize(("size", "first"), SIZES.items(), ids=str)
def test_large_bodies_are_answered_read_or_unread(served: Site, size: int, first: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        clients = [new_client() for _ in range(TIMES)]
        read = Counter(pool.map(lambda client: ask(served, "POST", "/contact.php", client, size), clients))
        over_quota = Counter(pool.map(lambda client: ask(served, "POST", "/contact.php", client, size), clients))
        refused = Counter(pool.map(lambda client: ask(served, "POST", "/api", client, size), clients))
        without_body = Counter(pool.map(lambda client: ask(served, "GET", "/api", client, 0), clients))

    assert read == {first: TIMES}
    assert over_quota == {"rate_limit": TIMES}
    assert refused == {"method_not_allowed": TIMES}
    assert without_body == {"ok": TIMES}
