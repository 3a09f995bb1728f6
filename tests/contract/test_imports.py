"""The direction of imports: data flows one way, and so do dependencies."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"

COMMON = {"app.errors", "app.settings", "app.versions"}
MAY_IMPORT = {
    "app.api": {
        *("app.addresses", "app.api", "app.contact", "app.envelope", "app.mail", "app.ratelimit"),
        *COMMON,
    },
    "app.contact": {"app.contact", "app.mail", "app.errors", "app.mailbox"},
    "app.mail": {"app.mail", "app.loop", "app.mailbox", "app.settings"},
    "app.ratelimit": {"app.ratelimit", "app.loop", "app.settings"},
    "app.metrics": {"app.metrics", "app.api", "app.contact", "app.mail", "app.ratelimit", "app.errors", "app.settings"}
    | {"app.release"},
    "app.addresses": {"app.settings"},
    "app.background": {"app.loop", "app.mail", "app.ratelimit"},
    "app.envelope": {"app.errors"},
    "app.errors": set(),
    "app.loop": set(),
    "app.mailbox": set(),
    "app.release": set(),
    "app.settings": {"app.mailbox"},
    "app.versions": {"app.settings"},
    "app.logs": {"app.settings"},
    "app.listeners": {"app.settings"},
    "app.worker": set(),
}
FREE_OF_FLASK = (
    "app.contact",
    "app.mail",
    "app.ratelimit",
    "app.errors",
    "app.loop",
    "app.mailbox",
    "app.settings",
    "app.versions",
)
MODULES = {
    ".".join(path.relative_to(APP.parent).with_suffix("").parts): path
    for path in APP.rglob("*.py")
    if path != APP / "__init__.py"
}


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names} if module in ("app", "app.api") else {module}
    return names


def belongs_to(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_package_may(module: str) -> None:
    package = ".".join(module.split(".")[:2])

    foreign = {
        name
        for name in imports_of(MODULES[module])
        if belongs_to(name, "app") and not any(belongs_to(name, allowed) for allowed in MAY_IMPORT[package])
    }

    assert foreign == set()


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith(FREE_OF_FLASK)])
def test_the_domain_knows_nothing_of_flask_requests(module: str) -> None:
    # mail/cli.py registers a command with Flask's command line, which is no request.
    if module != "app.mail.cli":
        assert not {name for name in imports_of(MODULES[module]) if belongs_to(name, "flask")}


@pytest.mark.parametrize("module", [name for name in MODULES if name != "app.settings"])
def test_only_the_settings_are_read_from_the_environment(module: str) -> None:
    assert "os.environ" not in MODULES[module].read_text()
    assert "getenv" not in MODULES[module].read_text()


API = {name: imports_of(path) for name, path in MODULES.items() if name.startswith("app.api.")}
VIEWS = {"app.api.discovery", "app.api.root", "app.api.v1"}


def floor(module: str) -> int:
    """1 for a module that imports none of its package, else one above the highest of those that it imports."""
    return 1 + max((floor(name) for name in API[module] if name in API), default=0)


def test_the_http_layer_has_four_floors() -> None:
    assert max(map(floor, API)) == 4


@pytest.mark.parametrize("module", sorted(VIEWS))
def test_views_are_peers(module: str) -> None:
    assert not API[module] & VIEWS


@pytest.mark.parametrize("module", [name for name in API if name != "app.api.request"])
def test_only_the_request_says_what_its_path_is(module: str) -> None:
    assert "PATH_INFO" not in MODULES[module].read_text()
