"""The files of the example form: their weight, and where their texts stand."""

import gzip
import re

import pytest

from tests.browser.servers import FOLDER


@pytest.mark.parametrize("markup", ["index.html", "contact-form-element.js"])
def test_the_three_files_are_light(markup: str) -> None:
    files = [FOLDER / name for name in (markup, "contact-form.css", "contact-form.js")]

    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 16 * 1024


def test_every_text_is_in_the_page() -> None:
    """Translating the form means replacing the texts of the page."""
    module, style = ((FOLDER / f"contact-form.{kind}").read_text() for kind in ("js", "css"))
    code = re.sub(r"/\*.*?\*/|//.*", "", module, flags=re.DOTALL)
    # What a person reads has a space in it: in the module only addresses of elements have.
    assert [text for text in re.findall('"([^"\n]*)"', code) if " " in text and text[0] not in "[.#:("] == []
    assert [text for text in re.findall(" content: (.*);", style) if re.search("[a-z]", text)] == []
