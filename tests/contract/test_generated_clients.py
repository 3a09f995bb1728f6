"""A client generated from the served document calls every operation, and its answers and errors are typed."""

from __future__ import annotations

import dataclasses
import fcntl
import importlib
import itertools
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import attrs
import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from app import API_POLICY, CONTACT_POLICY, create_app
from app.api.application import Application
from app.errors import ErrorCode
from tests.client import DOCUMENT
from tests.factories import SUNSET, make_settings
from tests.mail.server import SmtpServer

PACKAGE = "generated_client"

OPERATIONS = {
    re.sub(r"(?=[A-Z])", "_", operation["operationId"]).lower(): path
    for path, item in DOCUMENT["paths"].items()
    for operation in item.values()
}
"""The path of each, by the name of the function that is generated for it."""

Arguments = Callable[[Any], dict[str, Any]]
"""Makes the arguments of a call from the generated models."""

addresses = (str(ip_address("198.18.0.0") + number) for number in itertools.count())


class Newer(StrEnum):
    """A value that a client may know from a newer document."""

    VALUE = "newer"


def nothing(_models: Any) -> dict[str, Any]:
    return {}


def as_json(**fields: Any) -> Arguments:
    return lambda models: {
        "body": models.ContactRequest(**{"form_type": models.FormType.DEMO, "email": "maria@example.com"} | fields)
    }


def as_form(**fields: Any) -> Arguments:
    return lambda models: {
        "body": models.ContactForm(**{"form_type": models.FormType.VENTAS, "email": "maria@example.com"} | fields)
    }


def needed_by(operation: str) -> Arguments:
    return as_json() if operation.startswith("submit_") else nothing


@dataclasses.dataclass(frozen=True)
class Api:
    """The generated client and the service that it calls."""

    functions: dict[str, Any]
    models: Any
    client: Any
    app: Application
    port: int

    def call(
        self,
        operation: str,
        arguments: Arguments,
        *,
        prefix: str = "",
        method: str | None = None,
        address: str | None = None,
    ) -> Any:
        """The response to an operation, called from an address of its own unless one is named."""

        def change_method(request: Any) -> None:
            request.method = method or request.method

        client = self.client(
            f"http://127.0.0.1:{self.port}{prefix}",
            headers={"X-Forwarded-For": address or next(addresses)},
            httpx_args={"event_hooks": {"request": [change_method]}},
            raise_on_unexpected_status=True,
            verify_ssl=False,  # There is no TLS here, and to read all authorities takes longer than the call.
        )
        with client:
            return self.functions[operation].sync_detailed(client=client, **arguments(self.models))

    def spend_quota(self, address: str) -> None:
        for _ in range(API_POLICY.quota):
            self.app.test_client().get("/api/v1", headers={"X-Forwarded-For": address})


class SilentHandler(WSGIRequestHandler):
    """Logs no requests: that would change the level of Werkzeug's logger for all tests."""

    def log_request(self, *_: object) -> None:
        pass


@contextmanager
def serving(folder: Path, **environ: str) -> Iterator[tuple[Application, int]]:
    """The service with its own limits and its own mailer, and the port under which it answers."""
    app = create_app(make_settings(folder / "mail", TRUSTED_PROXIES="1", **environ))
    app.background.start(wait=30)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=SilentHandler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield app, server.port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        app.background.stop()


def generate(document: bytes, folder: Path) -> None:
    (folder / "openapi.json").write_bytes(document)
    # The generator would have the code formatted, which nobody reads.
    (folder / "config.yml").write_text("post_hooks: []")
    options = ["--path", "openapi.json", "--config", "config.yml", "--output-path", PACKAGE, "--meta", "none"]
    subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", *options],
        cwd=folder,
        check=True,
        timeout=60,
    )


@pytest.fixture(scope="session")
def folder_of_the_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of a run share, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, folder_of_the_run: Path) -> Iterator[Api]:
    with (
        serving(tmp_path_factory.mktemp("service")) as (app, port),
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = folder_of_the_run / "generated"
        with (folder_of_the_run / "generated.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                fresh = tmp_path_factory.mktemp("generated")
                generate(app.test_client().get("/openapi.json").data, fresh)
                fresh.rename(folder)
        patch.syspath_prepend(folder)
        package, models, operations = map(importlib.import_module, (PACKAGE, f"{PACKAGE}.models", f"{PACKAGE}.api"))
        functions = {
            module.name.rpartition(".")[2]: importlib.import_module(module.name)
            for module in pkgutil.walk_packages(operations.__path__, f"{PACKAGE}.api.")
            if not module.ispkg
        }
        yield Api(functions, models, package.Client, app, port)


@pytest.fixture(scope="module")
def retired(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(tmp_path_factory.mktemp("retired"), **SUNSET) as (app, port):
        yield dataclasses.replace(api, app=app, port=port)


@pytest.fixture(scope="module")
def mailless(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with SmtpServer() as down:
        pass
    with serving(tmp_path_factory.mktemp("mailless"), **down.environ) as (app, port):
        yield dataclasses.replace(api, app=app, port=port)


def untyped(value: Any) -> list[str]:
    """The fields of an answer for which the generated models have no attribute."""
    if isinstance(value, list):
        return [name for item in value for name in untyped(item)]
    if not attrs.has(type(value)):
        return []
    fields = attrs.asdict(value, recurse=False)
    additional = fields.pop("additional_properties")
    if not fields:  # It is a map, whose values have a type of their own.
        return untyped(list(additional.values()))
    return [*additional, *untyped(list(fields.values()))]


class Success(NamedTuple):
    operation: str
    model: str | None = None
    """None: the answer has no content."""
    arguments: Arguments = nothing
    status: int = 200


SUCCESSES = {
    "a contact form as JSON": Success("submit_contact", "SuccessResponse", as_json(nombre="Ñandú", mensaje=None)),
    "a contact form as a form": Success("submit_contact", "SuccessResponse", as_form(nombre="Ñandú")),
    "a legacy contact form as JSON": Success("submit_contact_legacy", "SuccessResponse", as_json()),
    "a legacy contact form as a form": Success("submit_contact_legacy", "SuccessResponse", as_form()),
    "the index": Success("get_api_index", "ApiIndexResponse"),
    "a section of the index": Success(
        "get_api_index", "ApiIndexResponse", lambda models: {"section": models.IndexSection.CONTACT}
    ),
    "the policy": Success("get_versioning", "VersioningResponse"),
    "the state of a version": Success(
        "get_versioning", "VersioningResponse", lambda models: {"version": models.PublishedVersion.V1}
    ),
    "the endpoints": Success("get_v1_index", "EndpointListResponse"),
    "the endpoints of a method": Success(
        "get_v1_index", "EndpointListResponse", lambda models: {"method": models.EndpointMethod.POST}
    ),
    "the health": Success("get_health", "HealthResponse"),
    "the health in detail": Success(
        "get_health", "HealthResponse", lambda models: {"verbose": models.VerboseFlag.TRUE}
    ),
    "the document": Success("get_open_api_document", "OpenApiDocument"),
    "the document, unchanged": Success("get_open_api_document", arguments=lambda _: {"if_none_match": "*"}, status=304),
} | {name: Success(name, status=204) for name in OPERATIONS if name.endswith("_options")}


class Failure(NamedTuple):
    operation: str
    code: str
    arguments: Arguments = nothing
    prefix: str = ""
    """What stands between the server and the operation's path in the address that the client was given."""
    method: str | None = None
    """Another one than the document says, as a careless proxy would send."""


FAILURES = {
    "a field that is too long": Failure("submit_contact", "invalid_body", as_json(nombre="a" * 201)),
    "an unknown form type": Failure("submit_contact", "invalid_form_type", as_json(form_type=Newer.VALUE)),
    "no address": Failure("submit_contact", "invalid_email", as_form(email="maria")),
    "another captcha": Failure(
        "submit_contact_legacy", "bad_captcha", as_json(captcha_expected="aB3dE", captcha_input="xxxxx")
    ),
    "an old form": Failure("submit_contact_legacy", "too_fast", as_form(ts="1")),
    "an unknown section": Failure("get_api_index", "invalid_parameter", lambda _: {"section": Newer.VALUE}),
    "an unknown version": Failure("get_versioning", "invalid_parameter", lambda _: {"version": Newer.VALUE}),
    "an unknown method": Failure("get_v1_index", "invalid_parameter", lambda _: {"method": Newer.VALUE}),
    "an unknown flag": Failure("get_health", "invalid_parameter", lambda _: {"verbose": Newer.VALUE}),
    "a path outside the API": Failure("get_health", "not_found", prefix="/nowhere"),
    "a path inside the API": Failure("get_health", "endpoint_not_found", prefix="/api/nowhere"),
    "a path of no version": Failure("get_api_index", "unsupported_api_version", prefix="/api/v9"),
    "a refused method": Failure("get_versioning", "method_not_allowed", method="DELETE"),
    "a refused method of the form": Failure("submit_contact", "method_not_allowed", as_json(), method="PUT"),
}


def code_of(response: Any) -> str:
    """The code of a typed error."""
    error = response.parsed.error
    assert type(error.code).__name__ == "ErrorCode"
    assert error.status == response.status_code
    assert type(error.status).__name__ == "ErrorStatus"
    assert response.parsed.to_dict() == json.loads(response.content)
    assert untyped(response.parsed) == []
    return str(error.code.value)


def test_the_client_has_every_operation_and_every_one_is_called_here(api: Api) -> None:
    called = {success.operation for success in SUCCESSES.values()}

    assert set(api.functions) == set(OPERATIONS) == called


@pytest.mark.parametrize("success", SUCCESSES.values(), ids=SUCCESSES)
def test_a_success_is_parsed_into_its_model(api: Api, success: Success) -> None:
    response = api.call(success.operation, success.arguments)

    assert response.status_code == success.status
    if success.model is None:
        assert (response.parsed, response.content) == (None, b"")
    else:
        assert isinstance(response.parsed, getattr(api.models, success.model))
        assert response.parsed.to_dict() == json.loads(response.content)
        # A document holds more than the few fields of it that a client reads.
        assert success.model == "OpenApiDocument" or untyped(response.parsed) == []


def test_the_state_of_a_version_has_dates(retired: Api) -> None:
    response = retired.call("get_versioning", lambda models: {"version": models.PublishedVersion.V1})

    state = response.parsed.data
    assert isinstance(state, retired.models.VersioningData)
    assert state.status is retired.models.VersionStatus.SUNSET
    assert (state.deprecated_on, state.sunset_on) == (date(2020, 1, 1), date(2021, 1, 1))


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_an_error_is_typed(api: Api, failure: Failure) -> None:
    response = api.call(failure.operation, failure.arguments, prefix=failure.prefix, method=failure.method)

    assert code_of(response) == failure.code


def test_the_messages_of_the_fields_are_typed(api: Api) -> None:
    response = api.call("submit_contact", as_json(nombre="a" * 201, ts=True))

    fields = response.parsed.error.details.fields
    assert isinstance(fields, api.models.FieldErrors)
    assert {name: [type(message) for message in fields[name]] for name in fields.additional_keys} == {
        "nombre": [str],
        "ts": [str],
    }


@pytest.mark.parametrize("operation", ["submit_contact", "submit_contact_legacy"])
def test_a_form_too_many_is_refused_with_a_typed_error(api: Api, operation: str) -> None:
    address = next(addresses)
    for _ in range(CONTACT_POLICY.quota):
        api.call("submit_contact", as_json(), address=address)

    response = api.call(operation, as_json(), address=address)

    assert code_of(response) == "rate_limit"
    assert response.parsed.error.retry_after_seconds == int(response.headers["Retry-After"])


def counting(prefix: str) -> list[str]:
    """The operations under a path, but for OPTIONS, which neither a quota nor a sunset refuses."""
    return [name for name, path in OPERATIONS.items() if path.startswith(prefix) and not name.endswith("_options")]


def test_a_spent_quota_is_told_by_every_operation_that_counts(api: Api) -> None:
    address = next(addresses)
    api.spend_quota(address)
    operations = counting("/api")

    responses = {name: api.call(name, needed_by(name), address=address) for name in operations}

    codes = {name: code_of(response) for name, response in responses.items()}
    assert codes == dict.fromkeys(operations, "rate_limit_exceeded")


def test_a_retired_version_is_told_by_every_operation_under_it(retired: Api) -> None:
    operations = counting("/api/v1")

    responses = {name: retired.call(name, needed_by(name)) for name in operations}

    codes = {name: code_of(response) for name, response in responses.items()}
    assert codes == dict.fromkeys(operations, "api_version_sunset")


@pytest.mark.parametrize("operation", ["submit_contact", "submit_contact_legacy"])
def test_a_failed_delivery_is_a_typed_error(mailless: Api, operation: str) -> None:
    response = mailless.call(operation, as_json())

    assert code_of(response) == "mail_delivery_failed"


def test_every_error_that_can_be_provoked_is_provoked_here() -> None:
    elsewhere = {"rate_limit", "rate_limit_exceeded", "api_version_sunset", "mail_delivery_failed"}
    unprovokable = {"internal_error"}

    assert {failure.code for failure in FAILURES.values()} | elsewhere | unprovokable == set(ErrorCode)
