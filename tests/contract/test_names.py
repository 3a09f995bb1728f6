"""What the code takes of its libraries: documented names, and the few others that names.toml lists with a reason."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.contract.names import names, used

ROOT = Path(__file__).parents[2]
LIST: dict[str, Any] = tomllib.loads((Path(__file__).parent / "names.toml").read_text())
UNDOCUMENTED: list[dict[str, str]] = LIST["undocumented"]
MOST = {"gunicorn": 10, "smtplib": 3}
"""How many undocumented names of a library the code may use. Of the others: none."""


def test_the_list_has_what_the_code_uses_and_nothing_else() -> None:
    code = used([*(ROOT / "app").rglob("*.py"), ROOT / "wsgi.py", ROOT / "gunicorn.conf.py"])

    documented = {name for names_of_page in LIST["documented"].values() for name in names_of_page}
    undocumented = {entry["name"] for entry in UNDOCUMENTED}
    assert documented.isdisjoint(undocumented)
    assert code == documented | undocumented


def test_a_library_is_bent_in_few_places() -> None:
    count = Counter(entry["name"].replace(":", ".").partition(".")[0] for entry in UNDOCUMENTED)

    assert {library: number for library, number in count.items() if number > MOST.get(library, 0)} == {}


@pytest.mark.parametrize("entry", UNDOCUMENTED, ids=lambda entry: str(entry["name"]))
def test_an_undocumented_name_has_its_reason(entry: dict[str, str]) -> None:
    assert entry.keys() <= {"name", "reason", "upstream"}
    assert entry["reason"].endswith(".")


WORKER = "from gunicorn.workers.gthread import ThreadWorker\nclass W(ThreadWorker):\n"
FOUND = {
    "import": ("from gunicorn.http.wsgi import Response", "gunicorn.http.wsgi.Response"),
    "import of a module": ("from gunicorn import util\nutil.close", "gunicorn.util.close"),
    "attribute of a library": ("import smtplib\nsmtplib.bCRLF", "smtplib.bCRLF"),
    "override": (
        "from flask import Flask\nclass A(Flask):\n    def dispatch_request(self): pass",
        "flask.Flask.dispatch_request",
    ),
    "override by an attribute": (
        "import flask\nclass A(flask.Flask):\n    session_interface = None",
        "flask.Flask.session_interface",
    ),
    "attribute of the class": (
        f"{WORKER}    def go(self): return self.alive",
        "gunicorn.workers.gthread.ThreadWorker.alive",
    ),
    "attribute that a method sets": (
        f"{WORKER}    def go(self): self.nr_conns = 0",
        "gunicorn.workers.gthread.ThreadWorker.nr_conns",
    ),
    "super": (
        "import smtplib\nclass A(smtplib.SMTP):\n    def go(self): super().putcmd('x')",
        "smtplib.SMTP.putcmd",
    ),
    "attribute of an object of gunicorn": ("def on_exit(server): server.cfg.bind", "gunicorn: server.cfg.bind"),
    "environment variable": ("import os\nos.environ['GUNICORN_PID']", "gunicorn: GUNICORN_PID"),
    "key of the environ": ("environ['gunicorn.socket']", "gunicorn: gunicorn.socket"),
    "import of an inner module": ("import gunicorn.util", "gunicorn.util"),
    "argument of a hook": ("def on_starting(arbiter): arbiter.LISTENERS", "gunicorn: arbiter.LISTENERS"),
    "private attribute": ("context._session", "any: _session"),
    "special attribute": ("start_response.__self__", "any: __self__"),
    "attribute of the request": ("request.routing_exception", "flask.Request.routing_exception"),
}
"""A line of code, and the name that it uses."""


@pytest.mark.parametrize(("code", "name"), FOUND.values(), ids=FOUND)
def test_a_further_name_is_found(code: str, name: str) -> None:
    assert name in names(code)
