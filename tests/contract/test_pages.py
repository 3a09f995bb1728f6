"""The pages for people: their links, their tree and their picture are held to the files and the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, get_args

import pytest

from app.errors import ErrorCode
from app.settings import Settings
from docs import draw_request, write_settings

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    pytest.param(page, target, id=f"{page.relative_to(ROOT)} to {target}")
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    linked = (page.parent / name).resolve() if name else page

    assert linked.exists()
    if anchor:
        assert anchor in anchors(linked)


def test_every_page_for_operators_is_linked_from_the_readme() -> None:
    linked = re.findall(r"\]\((docs/\w[\w-]*\.md|[A-Z]+\.md)\)", (ROOT / "README.md").read_text())

    assert {page.relative_to(ROOT).as_posix() for page in PAGES if page.parent in {ROOT, ROOT / "docs"}} == {
        "README.md",
        *linked,
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_every_folder_of_the_tests_is_run_by_some_target(pytestconfig: pytest.Config) -> None:
    run = set(pytestconfig.getini("testpaths")) | set(re.findall(r"\btests/\w+", MAKEFILE))

    assert {f"tests/{file.parent.name}" for file in (ROOT / "tests").glob("*/test_*.py")} <= run


def tree() -> Iterator[Path]:
    """The files of the tree in CONTRIBUTING.md; two spaces more are one folder further down."""
    block = CONTRIBUTING.partition("\n## Where a thing belongs\n")[2].split("```")[1]
    folders: list[str] = []
    for line in block.strip().splitlines():
        indentation, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]  # no line is empty
        depth = len(indentation) // 2
        if depth > len(folders):  # the description of the file above goes on
            continue
        folders[depth:] = [name]
        yield Path(*folders)


TREE = list(tree())


@pytest.mark.parametrize("path", TREE, ids=str)
def test_the_tree_names_files_that_exist(path: Path) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("folder", ["app", "app/api"])
def test_the_tree_names_every_part_of_the_app(folder: str) -> None:
    parts = {path.name for path in (ROOT / folder).iterdir()} - {"__pycache__"}
    if folder != "app":
        parts.discard("__init__.py")

    assert {path.name for path in TREE if path.parent == Path(folder)} == parts


@pytest.mark.parametrize("path", sorted(set(re.findall(r"^\| `([\w./-]+)`", CONTRIBUTING, re.MULTILINE))))
def test_a_recipe_names_files_that_exist(path: str) -> None:
    assert (ROOT / path).exists() or path == "app/api/v2.py"


def test_the_way_of_a_request_is_drawn_from_the_code() -> None:
    assert draw_request.FILE.read_text() == draw_request.draw(), "make docs"


def test_every_error_code_is_at_a_station_of_the_way() -> None:
    drawn = {code for station in draw_request.STATIONS for code in station.errors} | {draw_request.ANYWHERE}

    assert drawn == set(ErrorCode)


@pytest.mark.parametrize("station", draw_request.STATIONS, ids=lambda station: station.name)
def test_a_station_of_the_way_names_a_file_that_exists(station: draw_request.Station) -> None:
    assert (ROOT / station.file).exists()


def test_the_settings_in_the_readme_and_in_the_example_are_those_of_the_code() -> None:
    readme, example = write_settings.README.read_text(), write_settings.EXAMPLE.read_text()

    written = write_settings.with_table(readme), write_settings.with_defaults(example)

    assert written == (readme, example), ".venv/bin/python -m docs.write_settings"


@pytest.mark.parametrize("setting", fields(Settings), ids=lambda setting: setting.name.upper())
def test_a_setting_has_a_meaning_which_names_every_choice(setting: Field[Any]) -> None:
    row = rf"^\| {setting.name.upper()} \| .* \| (.*) \|$"

    (meaning,) = re.findall(row, write_settings.README.read_text(), re.MULTILINE)

    assert meaning
    assert [word for word in get_args(setting.type) if isinstance(word, str) and f"`{word}`" not in meaning] == []
