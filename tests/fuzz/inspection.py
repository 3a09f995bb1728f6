"""What every answer must be, whatever was sent: read by parsers that follow the RFCs."""

import re
from collections.abc import Iterable
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast

import http_sf
from requests.utils import parse_header_links

from app import API_POLICY, CONTACT_POLICY
from tests.factories import API_QUOTA, CONTACT_QUOTA

QUOTAS: set[tuple[int, int]] = {API_QUOTA, CONTACT_QUOTA, API_POLICY, CONTACT_POLICY}
"""Those of the apps in the tests and those of the service that runs by itself."""


class State(NamedTuple):
    """What the fields of a response say of the quota and of the version's end."""

    policy: tuple[int, int]
    remaining: int
    reset_after: int
    reset_at: int
    retry_after: int | None
    sunset: datetime | None


def read_state(status: int, headers: Iterable[tuple[str, str]]) -> State:
    fields: dict[str, str] = {}
    links: dict[str, str] = {}
    for name, value in headers:
        if name.lower() == "link":
            links |= {link["rel"]: link["url"] for link in parse_header_links(value)}
            continue
        assert name.lower() not in fields, f"{name} occurs twice"
        fields[name.lower()] = value
    policy = _quota(fields["ratelimit-policy"], "q", "w")
    remaining, reset_after = _quota(fields["ratelimit"], "r", "t")
    reset_at = int(fields["x-ratelimit-reset"])
    retry_after = int(fields["retry-after"]) if "retry-after" in fields else None
    ends = "sunset" in fields
    sunset = parsedate_to_datetime(fields["sunset"]) if ends else None

    assert policy in QUOTAS
    assert 0 <= remaining <= policy[0]
    assert 1 <= reset_after <= policy[1]
    assert int(fields["x-ratelimit-limit"]) == policy[0]
    assert int(fields["x-ratelimit-remaining"]) == remaining
    assert (retry_after is not None) == (status == 429)
    assert retry_after is None or reset_after <= retry_after <= 3600
    assert ("allow" in fields) == (status in {204, 405})
    assert fields["vary"] == "Accept, Accept-Encoding, Origin"
    assert fields["x-content-type-options"] == "nosniff"
    assert re.fullmatch("[0-9a-f]{32}", fields["x-request-id"])
    assert links.pop("service-desc", "/openapi.json").endswith("/openapi.json")
    assert links.keys() == ({"successor-version"} if ends else set())
    assert fields.get("deprecation") == ("true" if ends else None)
    assert sunset is None or format_datetime(sunset, usegmt=True) == fields["sunset"]
    return State(policy, remaining, reset_after, reset_at, retry_after, sunset)


@lru_cache(maxsize=1_000)
def _quota(value: str, *names: str) -> tuple[int, ...]:
    """The parameters of the one member of an RFC 9651 list."""
    [(member, parameters)] = cast("Any", http_sf.parse(value.encode(), tltype="list"))
    assert (member, tuple(parameters)) == ("default", names)
    assert all(type(number) is int for number in parameters.values())
    return tuple(parameters.values())
