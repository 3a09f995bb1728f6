"""The page of the example form in another language: the same page with other texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

SHOWN = {"data-missing", "data-invalid", "aria-label"}
"""The attributes whose values a visitor sees or hears."""


class Translation(HTMLParser):
    """Writes the page again with each text replaced; a text without a translation is a KeyError."""

    def __init__(self, page: str, language: str, texts: Mapping[str, str]) -> None:
        super().__init__(convert_charrefs=False)
        self._language = language
        self._texts = texts
        self._parts: list[str] = []
        self._is_data = False
        self.used: set[str] = set()
        self.feed(page)
        self.page = "".join(self._parts)

    def _translate(self, text: str) -> str:
        text = " ".join(text.split())
        self.used.add(text)
        return self._texts[text]

    def _translate_all(self, value: Any) -> Any:
        match value:
            case dict():
                return {name: self._translate_all(item) for name, item in value.items()}
            case list():
                return list(map(self._translate_all, value))
            case _:
                return self._translate(value)

    def handle_decl(self, decl: str) -> None:
        self._parts.append(f"<!{decl}>")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._is_data = attributes.get("type") == "application/json"
        source = self.get_starttag_text() or ""
        for name, value in attributes.items():
            if value and (name in SHOWN or (name == "content" and attributes.get("name") == "description")):
                assert value in source
                source = source.replace(f'"{value}"', f'"{self._translate(value)}"')
        if tag == "html":
            source = f'<html lang="{self._language}">'
        self._parts.append(source)

    def handle_endtag(self, tag: str) -> None:
        self._parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self._parts.append(json.dumps(self._translate_all(json.loads(data))))
            self._is_data = False
        elif text := data.strip():
            before, _, after = data.partition(text)
            self._parts.append(before + self._translate(text) + after)
        else:
            self._parts.append(data)
