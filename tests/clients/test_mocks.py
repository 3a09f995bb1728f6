"""Mocks that are given the served document answer as the service does."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import http_sf
import pytest

from app import API_POLICY, CONTACT_POLICY, create_app
from app.api.paths import LEGACY_CONTACT
from app.errors import ErrorCode
from tests.client import DOCUMENT, resolve, validate_response
from tests.clients.tool import NODE_MODULES, PATIENCE, environment
from tests.factories import make_settings

BODY = {"form_type": "demo", "email": "maria@example.com"}


@dataclass(frozen=True)
class Mock:
    name: str
    command: tuple[str | Path, ...]
    """Starts it on a port of the kernel's choice, when the file of the document is added."""
    answers_options: bool = True
    misses_zero: bool = False
    """It complains that a header field is missing when its value is 0."""


MOCKS = [
    Mock("Prism", (NODE_MODULES / ".bin" / "prism", "mock", "--port=0"), misses_zero=True),
    # It answers OPTIONS by itself, as a preflight that allows everything.
    Mock("Scalar", ("node", Path(__file__).parent / "mock_server.mjs"), answers_options=False),
]


class Documented(NamedTuple):
    """An answer of the document: a response, and one of its examples if it has content."""

    method: str
    path: str
    status: int
    example: str | None

    @property
    def response(self) -> dict[str, Any]:
        return resolve(DOCUMENT["paths"][self.path][self.method.lower()]["responses"][str(self.status)])

    @property
    def headers(self) -> dict[str, str]:
        """The header fields with the values of their examples."""
        headers = {name: resolve(header)["schema"]["examples"][0] for name, header in self.response["headers"].items()}
        return {name: str(value) for name, value in headers.items()}

    @property
    def body(self) -> Any:
        if self.example is None:
            return None
        return resolve(self.response["content"]["application/json"]["examples"][self.example])["value"]


def read_document() -> Iterator[Documented]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                content = resolve(response).get("content", {"application/json": {"examples": [None]}})
                for example in content["application/json"]["examples"]:
                    yield Documented(method.upper(), path, int(status), example)


ANSWERS = list(read_document())
SUCCESSES = {(answer.method, answer.path): answer for answer in reversed(ANSWERS) if answer.status < 300}
"""The first of each operation."""


@contextmanager
def running(mock: Mock, folder: Path) -> Iterator[int]:
    """The port of a mock of the served document."""
    document = create_app(make_settings(folder / "mail")).test_client().get("/openapi.json").data
    (folder / "openapi.json").write_bytes(document)
    log = folder / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*mock.command, folder / "openapi.json"],
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process,
    ):
        try:
            yield wait_for_port(process, log)
        finally:
            # The node of PyPI is a program in Python, which starts the real one.
            os.killpg(process.pid, signal.SIGTERM)


@pytest.fixture(scope="module")
def port_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Mock], int]]:
    """The port of each mock, which is started when it is needed first."""
    with ExitStack() as mocks:
        yield cache(lambda mock: mocks.enter_context(running(mock, tmp_path_factory.mktemp(mock.name))))


def wait_for_port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + PATIENCE
    while not (said := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return int(said[1])


def ask(port: int, method: str, path: str, prefer: str | None = None) -> tuple[http.client.HTTPResponse, bytes]:
    headers = {"Content-Type": "application/json"} | ({"Prefer": prefer} if prefer else {})
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, path, json.dumps(BODY) if method == "POST" else None, headers)
        response = connection.getresponse()
        return response, response.read()


def parse_quota(field: str) -> dict[str, int]:
    [(name, parameters)] = cast("Any", http_sf.parse(field.encode(), tltype="list"))
    assert name == "default"
    return dict(parameters)


def check(mock: Mock, expected: Documented, response: http.client.HTTPResponse, content: bytes) -> None:
    status = response.status
    # It has what is needed of a mapping, and does not tell capitals from small letters.
    headers = cast("Mapping[str, str]", response.headers)
    assert status == expected.status
    # The contact paths share their responses, so a mock sends the optional Link under both.
    names = {*expected.headers, "Content-Type"} - ({"Link"} if expected.path == LEGACY_CONTACT else set())
    fields = [(name, headers[name]) for name in names if name in headers]
    validate_response(expected.method, expected.path, status, fields, content)
    assert (json.loads(content) if content else None) == expected.body
    assert {name: headers[name] for name in expected.headers} == expected.headers
    assert headers["API-Version"] == "v1"
    check_quota(expected, headers)
    assert ("Deprecation" in headers, "Sunset" in headers) == (status == 410, status == 410)
    relations = (status == 410) * ["successor-version"] + ("Link" in expected.headers) * ["service-desc"]
    assert re.findall('rel="(.*?)"', headers.get("Link", "")) == relations
    if status >= 400:
        assert ErrorCode[expected.body["error"]["code"].upper()].status == status
    violations = [violation["message"] for violation in json.loads(headers.get("sl-violations", "[]"))]
    is_missed = mock.misses_zero and headers["X-RateLimit-Remaining"] == "0"
    assert violations == is_missed * ["Response header must have required property 'x-ratelimit-remaining'"]


def check_quota(expected: Documented, headers: Mapping[str, str]) -> None:
    policy = CONTACT_POLICY if "/contact" in expected.path else API_POLICY
    assert parse_quota(headers["RateLimit-Policy"]) == {"q": policy.quota, "w": policy.window_seconds}
    state = parse_quota(headers["RateLimit"])
    assert 0 < state["t"] <= policy.window_seconds
    assert int(headers["X-RateLimit-Limit"]) == policy.quota
    assert int(headers["X-RateLimit-Remaining"]) == state["r"]
    # The contact quota comes after the method and the sunset.
    untouched = policy == CONTACT_POLICY and (expected.method == "OPTIONS" or expected.status in {405, 410})
    assert (state["r"] == policy.quota) == untouched
    if expected.status == 429:
        assert state["r"] == 0
        assert int(headers["Retry-After"]) == state["t"] == expected.body["error"]["retry_after_seconds"]
    else:
        assert "Retry-After" not in headers


def combine(answers: Iterable[Documented]) -> pytest.MarkDecorator:
    """Each mock with each answer."""
    return pytest.mark.parametrize(
        ("mock", "expected"),
        [
            pytest.param(mock, expected, id=" ".join([mock.name, *(str(value) for value in expected if value)]))
            for mock in MOCKS
            for expected in answers
            if mock.answers_options or expected.method != "OPTIONS"
        ],
    )


@combine(SUCCESSES.values())
def test_a_mock_answers_with_the_first_example_of_a_success(
    port_of: Callable[[Mock], int], mock: Mock, expected: Documented
) -> None:
    check(mock, expected, *ask(port_of(mock), expected.method, expected.path))


@combine(ANSWERS)
def test_a_mock_answers_with_the_example_that_is_asked_for(
    port_of: Callable[[Mock], int], mock: Mock, expected: Documented
) -> None:
    prefer = f"code={expected.status}" + (f", example={expected.example}" if expected.example else "")

    check(mock, expected, *ask(port_of(mock), expected.method, expected.path, prefer))
