"""The look-up of a path and the addresses of endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import NotFound
from werkzeug.routing import Map, MapAdapter, RequestRedirect, Rule

from app.api.addresses import Addresses
from app.api.request import Request


class Router(MapAdapter):
    """The router of one request. Rules that it finds for paths without parameters are remembered by all of them."""

    def __init__(self, url_map: Map, found: dict[tuple[str, str], Rule], addresses: Addresses, of: Request) -> None:
        super().__init__(url_map, "", "/", "", "http", of.path, of.method)
        self._found = found
        self._addresses = addresses
        self._environ = of.environ

    def match(
        self,
        path_info: str | None = None,
        method: str | None = None,
        return_rule: bool = False,  # noqa: FBT001, FBT002 - werkzeug's signature
        query_args: Mapping[str, Any] | str | None = None,
        websocket: bool | None = None,  # noqa: FBT001 - werkzeug's signature
    ) -> tuple[Any, Mapping[str, Any]]:
        """The rule, or its endpoint, and the arguments of the view.

        Raises MethodNotAllowed and NotFound. A path with a slash too many or too few is not found: werkzeug would
        redirect it or serve it.
        """
        path, verb = path_info or self.path_info, method or self.default_method
        rule = self._found.get((path, verb))
        arguments: Mapping[str, Any] = {}
        if rule is None:
            if not path.startswith("/") or path.startswith("//"):
                raise NotFound
            try:
                rule, arguments = super().match(path, verb, True, query_args, websocket)
            except RequestRedirect as error:
                raise NotFound from error
            if rule.methods and not rule.arguments:
                self._found[path, verb] = rule
        return rule if return_rule else rule.endpoint, arguments

    def build(self, *args: Any, **kwargs: Any) -> str:
        """The address of an endpoint. Its host and prefix are those of the base address."""
        self.url_scheme, _, rest = self._addresses.base_url(self._environ).partition("://")
        self.server_name, _, prefix = rest.partition("/")
        self.script_name = f"/{prefix}/" if prefix else "/"
        return super().build(*args, **kwargs)
