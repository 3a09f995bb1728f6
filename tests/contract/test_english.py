"""The mechanical part of plain English: no riddle at the front of a docstring, and no "for" that means "because"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def files(*patterns: str) -> dict[str, Path]:
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())
    return {str(path.relative_to(ROOT)): path for path in found if path.suffix != ".pyc"}


PYTHON = files("app/**/*.py", "bench/**/*.py", "docs/**/*.py", "examples/*.py", "gunicorn.conf.py", "wsgi.py")
OTHERS = files(
    *("*.md", "docs/**/*.md", "examples/**/*.*", "app/contact/templates/*"),
    *("deploy/**/*.*", "bench/**/*.lua", "bench/**/*.php", "Makefile", "pyproject.toml", "setup.cfg"),
)

RIDDLE = re.compile(r"(What|How|Who|When|Where|Whether|Why)\b")
BREAK = re.compile(r"\s*\n[ \t]*(?:(?:#|//|--|\*)[ \t]*)?")
BECAUSE = re.compile(r"[^,]{0,40}, for (?!example\b|instance\b|whom\b|which\b).{0,40}", re.IGNORECASE)
"""A comma before "for" is right in ", for example" and in the relative clauses ", for which" and ", for whom"."""


def docstrings(text: str) -> list[str]:
    """The docstrings of modules, classes, functions and attributes: every text that stands alone."""
    return [
        node.value.value.strip()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def uses_of_for(text: str) -> list[str]:
    return BECAUSE.findall(BREAK.sub(" ", text))


@pytest.mark.parametrize("path", PYTHON.values(), ids=PYTHON)
def test_a_docstring_begins_with_its_subject(path: Path) -> None:
    assert [text for text in docstrings(path.read_text()) if RIDDLE.match(text)] == []


@pytest.mark.parametrize("path", (PYTHON | OTHERS).values(), ids=PYTHON | OTHERS)
def test_no_for_means_because(path: Path) -> None:
    assert uses_of_for(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It stays, for it is small.", True),
        ("It stays,\n    # for it is small.", True),
        ("One value, for example 5, or, for instance, 6.", False),
        ("The form, for which it waits.", False),
        ("Wait for it.", False),
    ],
)
def test_a_for_that_means_because_is_found(text: str, found: bool) -> None:  # noqa: FBT001 - a column of the table
    assert bool(uses_of_for(text)) == found


def test_the_docstring_of_an_attribute_is_read() -> None:
    assert docstrings('"""A module."""\nONE = 1\n"""What it is."""\n') == ["A module.", "What it is."]
