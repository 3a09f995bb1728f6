"""Makes the calls of the table with the client that OpenAPI Generator has generated for Python."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from openapi_client import (  # type: ignore[import-not-found]  # It is there when this runs.
    ApiClient,
    ApiException,
    Configuration,
    ContactApi,
    ContactRequest,
    DiscoveryApi,
    DocumentApi,
    EndpointMethod,
    ErrorDetails,
    ErrorResponse,
    FormType,
    HealthApi,
    IndexSection,
    PublishedVersion,
    VerboseFlag,
)

Outcome = dict[str, Any]
Argument = TypeVar("Argument")

live, retired, mailless, network = sys.argv[1:]
addresses = (f"{network}.{number}" for number in itertools.count(1))


def client(base: str = live) -> ApiClient:
    """A client at an address of its own.

    urllib3 would wait until a spent quota is full again, and repeat the request.
    """
    client = ApiClient(Configuration(host=base, retries=0))
    client.default_headers["X-Forwarded-For"] = next(addresses)
    return client


def form(**fields: Any) -> ContactRequest:
    return ContactRequest(**{"form_type": FormType.DEMO, "email": "maria@example.com"} | fields)


class Refused(Exception):  # noqa: N818 - It is no error here.
    """The client refuses an argument, so that nothing is sent."""


def permit(make: Callable[[], Argument]) -> Argument:
    try:
        return make()
    except ValueError:
        raise Refused from None


def describe(error: ApiException) -> Outcome:
    response = error.data
    assert isinstance(response, ErrorResponse)
    details = response.error.details or ErrorDetails()
    values = {
        "code": response.error.code.value,
        "status": response.error.status.value,
        "retry_after_seconds": response.error.retry_after_seconds,
        "allowed_values": response.error.allowed_values,
        "reason": details.reason and details.reason.value,
        "fields": details.fields and list(details.fields),
        "kept": details.kept,
        "parameter": details.parameter,
        "supported": details.supported,
    }
    return {name: value for name, value in values.items() if value is not None}


def accept() -> Outcome:
    return {"message": ContactApi(client()).submit_contact(form(nombre="Ñandú")).message}


def accept_legacy() -> Outcome:
    return {"message": ContactApi(client()).submit_contact_legacy(form(form_type=FormType.VENTAS)).message}


def ask_options(operation: Callable[[], Any]) -> Outcome:
    response = operation()
    return {"status": response.status_code, "allow": response.headers["Allow"]}


def read_index() -> Outcome:
    data = DiscoveryApi(client()).get_api_index().data
    assert data.rate_limit
    return {"name": data.name, "current_version": data.current_version, "limit": data.rate_limit.limit}


def read_section() -> Outcome:
    data = DiscoveryApi(client()).get_api_index(section=IndexSection.CONTACT).data
    assert data.contact
    return {"form_types": [form_type.value for form_type in data.contact.form_types]}


def read_policy() -> Outcome:
    data = DiscoveryApi(client()).get_versioning().data
    assert data.deprecation_process
    return {"notice_period_days": data.deprecation_process.notice_period_days}


def read_version(base: str) -> Outcome:
    data = DiscoveryApi(client(base)).get_versioning(version=PublishedVersion.V1).data
    assert data.status
    return {
        "version": data.version,
        "status": data.status.value,
        "sunset_on": data.sunset_on and data.sunset_on.isoformat(),
    }


def read_endpoints() -> Outcome:
    data = DiscoveryApi(client()).get_v1_index(method=EndpointMethod.POST).data
    return {"endpoints": [f"{endpoint.method.value} {endpoint.path}" for endpoint in data.endpoints]}


def read_health() -> Outcome:
    data = HealthApi(client()).get_health(verbose=VerboseFlag.TRUE).data
    assert data.details
    return {"status": data.status.value, "transport": data.details.mail.transport.value}


def read_document() -> Outcome:
    return {"title": DocumentApi(client()).get_open_api_document().info.title}


def send_two_forms() -> None:
    api = ContactApi(client())
    api.submit_contact(form())
    api.submit_contact(form())


def ask_too_often() -> None:
    api = DiscoveryApi(client())
    for _ in range(61):
        api.get_versioning()


CALLS: dict[str, Callable[[], object]] = {
    "form": accept,
    "legacy form": accept_legacy,
    "options": lambda: ask_options(ContactApi(client()).get_contact_options_with_http_info),
    "legacy options": lambda: ask_options(ContactApi(client()).get_contact_legacy_options_with_http_info),
    "index": read_index,
    "section": read_section,
    "policy": read_policy,
    "version": lambda: read_version(live),
    "retired version": lambda: read_version(retired),
    "endpoints": read_endpoints,
    "health": read_health,
    "document": read_document,
    "invalid_email": lambda: ContactApi(client()).submit_contact(form(email="maria")),
    "bad_captcha": lambda: ContactApi(client()).submit_contact_legacy(
        form(captcha_expected="aB3dE", captcha_input="xxxxx")
    ),
    "too_fast": lambda: ContactApi(client()).submit_contact(form(ts=1)),
    "invalid_body": lambda: ContactApi(client()).submit_contact(permit(lambda: form(nombre="a" * 201))),
    "invalid_parameter": lambda: DiscoveryApi(client()).get_api_index(section=permit(lambda: IndexSection("newer"))),
    "endpoint_not_found": lambda: HealthApi(client(f"{live}/api/nowhere")).get_health(),
    "unsupported_api_version": lambda: DiscoveryApi(client(f"{live}/api/v9")).get_api_index(),
    "rate_limit": send_two_forms,
    "rate_limit_exceeded": ask_too_often,
    "api_version_sunset": lambda: DiscoveryApi(client(retired)).get_v1_index(),
    "mail_delivery_failed": lambda: ContactApi(client(mailless)).submit_contact(form()),
}


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except ApiException as error:
        return describe(error)
    except Refused:
        return "refused by the client"
    except Exception as error:  # noqa: BLE001 - The test shows whatever it is.
        return f"{type(error).__name__}: {error}"


sys.stdout.write(json.dumps({name: outcome(call) for name, call in CALLS.items()}))
