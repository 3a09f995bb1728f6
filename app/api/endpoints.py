"""The endpoints of a version, and the index that lists them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Blueprint
from marshmallow import Schema
from marshmallow.validate import OneOf

from app.api import envelope
from app.api.envelope import Body
from app.api.request import QueryParameter
from app.versions import Version

METHOD = QueryParameter("method", ("GET", "POST"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method and a path below the base path of a version, with what the index says of them and their view."""

    method: str
    path: str
    description: str
    view: Callable[[], Body]
    parameters: Sequence[QueryParameter] = ()
    body: type[Schema] | None = None

    def describe(self, version: Version) -> dict[str, Any]:
        """The endpoint's entry in the index of a version."""
        parameters = [_query(parameter) for parameter in self.parameters] + (_body(self.body) if self.body else [])
        path = version.base_path + self.path
        return {"method": self.method, "path": path, "description": self.description, "parameters": parameters}


def create_version_blueprint(version: Version, *endpoints: Endpoint) -> Blueprint:
    """The blueprint of a version, mounted at its base path: the endpoints, and the index that lists them."""
    blueprint = Blueprint(version.name, __name__, url_prefix=version.base_path)

    def list_endpoints() -> Body:
        method = METHOD.read()
        data = [entry for entry in entries if method in (None, entry["method"])]
        return envelope.success(data={"version": version.name, "endpoints": data})

    served = (Endpoint("GET", "", "Enumera los recursos de esta versión.", list_endpoints, [METHOD]), *endpoints)
    entries = [endpoint.describe(version) for endpoint in served]
    for endpoint in served:
        blueprint.add_url_rule(endpoint.path, view_func=endpoint.view, methods=[endpoint.method])
    return blueprint


def _query(parameter: QueryParameter) -> dict[str, Any]:
    values = list(parameter.allowed_values)
    return {"name": parameter.name, "in": "query", "required": False, "allowed_values": values}


def _body(schema: type[Schema]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "body", "required": field.required}
        | next(({"allowed_values": [*rule.choices]} for rule in field.validators if isinstance(rule, OneOf)), {})
        for name, field in schema().fields.items()
    ]
