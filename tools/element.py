"""Write the markup of docs/contact-form/index.html into the module of the element ``<contact-form>``."""

from __future__ import annotations

import re

from tools import ROOT, put

PAGE = ROOT / "docs" / "contact-form" / "index.html"
OWN = re.compile(r"""<!--.*?-->|\s+data-intro="[^"]*"|\s+action="[^"]*"|(?<=\n)\s+""", re.DOTALL)
"""The attributes that only the page has, the comments and the indentation: none of them is copied."""


def element(module: str) -> str:
    """The module with the element ``contact-form`` of the page as its markup, in the page's language."""
    page = PAGE.read_text()
    (language,) = re.findall(r'<html lang="(\w+)"', page)
    (form,) = re.findall(r'^  (<div class="contact-form".*?^  </div>\n)', page, re.MULTILINE | re.DOTALL)
    markup = OWN.sub("", form.replace("<div ", f'<div lang="{language}" ', 1))
    return put(module, r"(String\.raw`\n)[^`]*", markup)
