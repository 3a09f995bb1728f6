"""The client that openapi-python-client makes of the document has typed answers and errors."""

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import pytest

from app import API_POLICY, CONTACT_POLICY
from tests.client import DOCUMENT
from tests.factories import SUNSET
from tests.fuzz.cases import addresses
from tests.mail.server import SmtpServer
from tests.server.gunicorn import serving
from tests.versions import FIRST

PACKAGE = "generated_client"

Arguments = Callable[[Any], dict[str, Any]]
"""Makes the arguments of a call from the generated models."""


class Call(NamedTuple):
    """A call, and the model of its answer. Errors have one model; an answer without content has none."""

    operation: str
    answer: str = "ErrorResponse"
    arguments: Arguments = lambda _: {}
    code: str = ""
    service: str = "live"
    before: int = 0
    """How many calls from the same address come first."""
    prefix: str = ""
    """The path in the base address that the client was given."""


def body(model: str = "ContactRequest", **fields: Any) -> Arguments:
    return lambda models: {
        "body": getattr(models, model)(**{"form_type": models.FormType.DEMO, "email": "maria@example.com"} | fields)
    }


def error(code: str, operation: str, arguments: Arguments = lambda _: {}, **more: Any) -> Call:
    return Call(operation, arguments=arguments, code=code, **more)


NEWER = SimpleNamespace(value="newer")
"""A value that a client may know from a newer document."""


CALLS = [
    Call("submit_contact", "SuccessResponse", body(nombre="Ñandú")),
    Call("submit_contact", "SuccessResponse", body("ContactForm", nombre="Ñandú")),
    Call("submit_contact_legacy", "SuccessResponse", body(nombre="Ñandú")),
    Call("get_contact_options", ""),
    Call("get_contact_legacy_options", ""),
    Call("get_api_index", "ApiIndexResponse"),
    Call("get_api_index", "ApiIndexResponse", lambda models: {"section": models.IndexSection.CONTACT}),
    Call("get_versioning", "VersioningResponse"),
    Call("get_versioning", "VersioningResponse", lambda models: {"version": models.PublishedVersion(FIRST.name)}),
    Call("get_versioning", "VersioningResponse", service="retired"),
    Call("get_v1_index", "EndpointListResponse"),
    Call("get_health", "HealthResponse", lambda models: {"verbose": models.VerboseFlag.TRUE}),
    Call("get_open_api_document", "OpenApiDocument"),
    Call("get_open_api_document", "", lambda _: {"if_none_match": "*"}),
    error("invalid_body", "submit_contact", body(nombre="a" * 201, ts=True)),
    error("invalid_form_type", "submit_contact", body(form_type=NEWER)),
    error("invalid_email", "submit_contact", body("ContactForm", email="maria")),
    error("bad_captcha", "submit_contact", body(captcha_expected="aB3dE", captcha_input="xxxxx")),
    error("too_fast", "submit_contact_legacy", body("ContactForm", ts="1")),
    error("invalid_parameter", "get_api_index", lambda _: {"section": NEWER}),
    error("not_found", "get_health", prefix="/nowhere"),
    error("endpoint_not_found", "get_health", prefix="/api/nowhere"),
    error("unsupported_api_version", "get_api_index", prefix="/api/v9"),
    error("method_not_allowed", "submit_contact", body(), prefix="/api/versioning?"),
    error("rate_limit", "submit_contact", body(), before=CONTACT_POLICY.quota),
    error("rate_limit_exceeded", "get_versioning", before=API_POLICY.quota),
    error("api_version_sunset", "get_v1_index", service="retired"),
    error("mail_delivery_failed", "submit_contact_legacy", body(), service="retired"),
]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The base address of each service."""
    with SmtpServer() as down:
        pass
    with ExitStack() as stack:
        yield {
            name: f"http://127.0.0.1:{server.port}"
            for name, environ in {"live": {}, "retired": SUNSET | down.environ}.items()
            for server in [stack.enter_context(serving(tmp_path_factory.mktemp(name), TRUSTED_PROXIES="1", **environ))]
        }


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The package, its models, and the module of each operation."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(DOCUMENT))
    (folder / "config.yml").write_text("post_hooks: []")  # nobody reads the code, so it need not be formatted
    options = ["--path", "openapi.json", "--config", "config.yml", "--output-path", PACKAGE, "--meta", "none"]
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", *options]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        api = importlib.import_module(f"{PACKAGE}.api").__path__
        modules = [each.name for each in pkgutil.walk_packages(api, f"{PACKAGE}.api.") if not each.ispkg]
        modules.append(f"{PACKAGE}.models")
        yield {name.rpartition(".")[2]: importlib.import_module(name) for name in modules} | {
            "Client": importlib.import_module(PACKAGE).Client
        }


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


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.operation} {call.answer} {call.code}")
def test_a_call_has_its_typed_answer(services: dict[str, str], generated: dict[str, Any], call: Call) -> None:
    models = generated["models"]
    client = generated["Client"](
        services[call.service] + call.prefix,
        headers={"X-Forwarded-For": next(addresses)},
        raise_on_unexpected_status=True,
    )
    with client:
        for _ in range(call.before + 1):
            response = generated[call.operation].sync_detailed(client=client, **call.arguments(models))

    if not call.answer:
        assert (response.parsed, response.content) == (None, b"")
        return
    assert isinstance(response.parsed, getattr(models, call.answer))
    assert response.parsed.to_dict() == json.loads(response.content)
    # A document holds more than the few fields of it that a client reads.
    assert call.answer == "OpenApiDocument" or untyped(response.parsed) == []
    if call.code:
        assert response.parsed.error.code is models.ErrorCode(call.code)
        assert response.parsed.error.status == response.status_code
