"""The direction of imports: data flows one way, and so do dependencies."""

import ast
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"
MAY_IMPORT = {
    "app.api": "api contact errors forms mail ratelimit settings versions flask",
    "app.contact": "contact errors forms mail mailbox",
    "app.mail": "background mail mailbox resolver settings",
    "app.ratelimit": "background ratelimit resolver settings",
    "app.metrics": "api errors forms mail metrics ratelimit release settings flask",
    "app.background": "",
    "app.errors": "",
    "app.mailbox": "",
    "app.release": "",
    "app.resolver": "",
    "app.forms": "",
    "app.settings": "forms mailbox",
    "app.versions": "settings",
    "app.logs": "settings flask",
    "app.worker": "",
}
"""Of this project, and Flask: nothing below ``api`` knows its requests."""
COMMAND = "app.mail.cli"
"""Registers a command with Flask's command line, which is no request."""
MODULES = {
    ".".join(path.relative_to(APP.parent).with_suffix("").parts): path.read_text()
    for path in APP.rglob("*.py")
    if path != APP / "__init__.py"
}
READERS = {"os.environ": set[str](), "getenv": set[str](), "PATH_INFO": {"app.api.request", "app.worker"}}
"""``create_app`` alone reads the environment, and one module for each way in the path of a request."""


def imports_of(module: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            inner = node.module in ("app", "app.api")
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if inner else {node.module or ""}
    return names


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_package_may(module: str) -> None:
    allowed = MAY_IMPORT[".".join(module.split(".")[:2])].split() + ["flask"] * (module == COMMAND)

    own = {name.removeprefix("app.") for name in imports_of(module) if f"{name}.".startswith(("app.", "flask."))}

    assert {name.split(".")[0] for name in own} - {*allowed} == set()


@pytest.mark.parametrize(("name", "readers"), READERS.items())
def test_only_these_modules_read(name: str, readers: set[str]) -> None:
    assert {module for module, code in MODULES.items() if name in code} == readers
