"""The application is a Flask application like any other: what one registers on it runs, and the contract stays."""

from collections.abc import Callable

import flask
import pytest
from flask import Blueprint, Flask
from flask.signals import got_request_exception, request_finished, request_started
from flask_talisman import Talisman
from prometheus_client import CollectorRegistry
from prometheus_flask_exporter import PrometheusMetrics
from werkzeug.test import Client

from tests.api.exchanges import Row, send, typed
from tests.api.fields import hold
from tests.conftest import MakeApp

HOOKS = ("url_value_preprocessor", "before_request", "teardown_request", "teardown_appcontext")
SIGNALS = (request_started, request_finished, got_request_exception)


def register_one_of_everything(app: Flask, registry: CollectorRegistry) -> list[str]:
    """Returns the names of what runs, as it runs."""
    seen: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_, **__: seen.append(name)

    def change(response: flask.Response) -> flask.Response:
        seen.append("after_request")
        response.set_cookie("visitor", "ana")
        response.vary.add("Cookie")  # as Flask's session does
        response.cache_control.public = True
        response.headers["X-Request-ID"] = "theirs"
        return response

    for name in HOOKS:
        getattr(app, name)(note(name))
    app.after_request(change)
    for signal in SIGNALS:
        signal.connect(note(signal.name), app, weak=False)
    rooms = Blueprint("rooms", __name__, url_prefix="/rooms")
    rooms.get("/", endpoint="list")(lambda: {"ok": True})
    rooms.get("/<name>", endpoint="read")(lambda name: {"ok": True, "room": name})
    rooms.post("/<name>", endpoint="write")(lambda name: {"ok": True, "room": int(name)})
    app.register_blueprint(rooms)
    PrometheusMetrics(app, registry=registry)
    Talisman(app, force_https=False)
    return seen


ROWS = {
    "index": Row("GET /api", 200),
    "document": Row("GET /openapi.json", 200),
    "form": Row("POST /contact.php", 200, body=typed()),
    "refused form": Row("POST /contact.php", "invalid_body", body=b"{"),
    "wrong method": Row("DELETE /contact.php", "method_not_allowed"),
    "unknown path": Row("GET /no-such-page", "not_found"),
    "preflight": Row("OPTIONS /api", 204),
    "view of their own": Row("GET /rooms/ana", 200, {"room": "ana"}),
    "crash": Row("POST /rooms/ana", "internal_error"),
}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_sees_the_request_and_the_answer_keeps_the_contract(make_app: MakeApp, row: Row) -> None:
    app, registry = make_app(), CollectorRegistry()
    seen = register_one_of_everything(app, registry)

    response = send(Client(app), row)

    hold(row, response.status_code, [*response.headers], response.data)
    assert response.headers["X-Frame-Options"] == "SAMEORIGIN"  # of Talisman
    assert response.headers["Set-Cookie"].startswith("visitor=ana;")
    expected = [*HOOKS, "after_request", "request-started", "request-finished"]
    assert sorted(seen) == sorted(expected + ["got-request-exception"] * (row.status == 500))
    counted = {"method": row.method, "status": str(row.status)}
    assert registry.get_sample_value("flask_http_request_total", counted) == 1


@pytest.mark.parametrize("path", ["/rooms", "//rooms/", "//rooms/ana", "/rooms/ana/"])
def test_a_slash_too_few_or_too_many_is_an_unknown_path_and_no_redirect(make_app: MakeApp, path: str) -> None:
    app, row = make_app(), Row(f"GET {path}", "not_found", fields={"Location": None})
    register_one_of_everything(app, CollectorRegistry())

    response = send(Client(app), row)

    hold(row, response.status_code, [*response.headers], response.data)
