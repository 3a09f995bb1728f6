"""README.md states facts: the code is held to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import ErrorCode
from app.settings import Settings
from tests.client import DOCUMENT

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def table(heading: str) -> list[list[str]]:
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


def test_the_error_table_is_the_catalogue() -> None:
    assert [(code, int(status)) for code, status, _ in table("Errors")] == [(code, code.status) for code in ErrorCode]


def test_the_endpoint_table_lists_what_the_document_does() -> None:
    documented = {
        (method.upper(), path)
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method in {"get", "post"}
    }

    assert {(method, path) for method, path, _ in table("Endpoints")} == documented


class RecordingEnvironment(dict[str, str]):
    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.asked: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.asked[name] = None
        return super().get(name, default)


def test_the_settings_table_lists_every_variable_that_is_read(tmp_path: Path) -> None:
    environ = RecordingEnvironment({"MAIL_DIR": str(tmp_path)})

    Settings.from_env(environ)

    assert sorted(name for name, _, _ in table("Settings")) == sorted(environ.asked)


@pytest.mark.parametrize(("name", "default"), [row[:2] for row in table("Settings")])
def test_the_settings_table_has_the_defaults_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, default: str
) -> None:
    monkeypatch.chdir(tmp_path)

    value = getattr(Settings.from_env({}), name.lower())

    if name == "MAIL_DIR":
        assert value == tmp_path / default
    elif default in {"none", "from the request", "in the process"}:
        assert value is None
    elif not default.startswith("required"):
        shown = ",".join(value) if isinstance(value, tuple) else value
        assert shown == type(shown)(default)


def test_the_figures_of_performance_are_those_of_the_document() -> None:
    goals = (ROOT / "docs" / "performance.md").read_text().partition("\n## Goals\n")[2].partition("\n## ")[0]
    measured = goals.splitlines()
    quoted = README.partition("\n## Performance\n")[2].partition("\n## ")[0]

    lines = [line for line in quoted.splitlines() if line.startswith("|")]
    assert len(lines) > len(["heading", "rule"])
    assert [line for line in lines if line not in measured] == []


def tree() -> Iterator[Path]:
    block = README.partition("## How it is built")[2].split("```")[1]
    folder = Path()
    for line in block.splitlines()[1:]:
        indented, name = line.startswith("  "), line.split()[0]
        yield (folder / name) if indented else Path(name)
        if not indented:
            folder = Path(name)


@pytest.mark.parametrize("path", list(tree()), ids=str)
def test_the_tree_names_files_that_exist(path: Path) -> None:
    assert (ROOT / path).exists()


def test_the_tree_names_every_part_of_the_app() -> None:
    listed = {path.name for path in tree() if path.parts[0] == "app" and len(path.parts) > 1}

    assert listed == {path.name for path in (ROOT / "app").iterdir() if path.name != "__pycache__"}


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()

    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
