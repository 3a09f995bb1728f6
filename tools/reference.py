"""``python -m tools.reference [BASE_URL]`` builds the readable reference: build/reference.html and its .gz."""

from __future__ import annotations

import gzip
import json
import re
import sys
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.api.paths import DOCUMENT
from app.api.root import DOCUMENT_FILE
from app.settings import BASE_URL, parse_base_url
from tools import ROOT

FILE = ROOT / "build" / "reference.html"
STYLE = Path(__file__).with_name("reference.css")
# @scalar/api-reference holds the same script and brings 290 MB of libraries, which the script does not need.
PACKAGE = ROOT / "tools" / "node_modules" / "@scalar" / "fastify-api-reference"

CONFIGURATION: dict[str, Any] = {
    "slug": "api",
    # The document is small, so all operations are open, and the browser's own search finds their text. Only the parts
    # of each response are folded.
    "defaultOpenAllTags": True,
    "hideModels": True,
    "orderSchemaPropertiesBy": "preserve",
    # Off: everything that uses the network, and the test client, which would send real forms to the sales team.
    "withDefaultFonts": False,
    "telemetry": False,
    "hideTestRequestButton": True,
    "hideClientButton": True,
    "showDeveloperTools": "never",
    "agent": {"disabled": True},
    "mcp": {"disabled": True},
    # This copy of the document is adapted to the page. The introduction links to the published one.
    "documentDownloadType": "none",
    "localization": {
        "locale": "es",
        # Scalar's own Spanish says tú, and uses other words than the document.
        "translations": {
            "search": {
                "inputLabel": "Escriba lo que busca",
                "instructions": "Pulse las flechas para recorrer los resultados e Intro para abrir uno.",
            },
            "navigation": {"endpoints": "Operaciones: {name}", "mainContent": "Documentación: {name}"},
            "clientLibraries": {"heading": "Lenguaje de los ejemplos", "selectAll": "Ver todos los lenguajes"},
            "operation": {"headers": "Cabeceras", "requestBody": "Cuerpo de la petición"},
            "schema": {"headerCount": "Cabeceras: {count}"},
        },
    },
}

ENGLISH = {
    "`Set light mode`": "`Usar el tema claro`",
    "`Set dark mode`": "`Usar el tema oscuro`",
    "`Request Example for`": "`Ejemplo de petición: `",
    "`Notifications`": "`Avisos`",
    "`Copied to the clipboard`": "`Copiado en el portapapeles`",
    "`Failed to copy to clipboard`": "`No se ha podido copiar`",
    "`Copied`": "`Copiado`",
    "`Copy`": "`Copiar`",
    "` No results found `": "` Sin resultados `",
    "(`array of`)": "(`lista de`)",
    "(`or`)": "(`o`)",
    "return`propertyName`": "return`(cualquier otro)`",
    "`patternProperty`:`additionalProperty`": "`patrón`:`propiedad adicional`",
    "{type:`anything`": "{type:`cualquiera`",
}
"""Texts that Scalar has only in English, as written in its script, each with its Spanish translation."""

LAZY_MARGIN = re.compile(r"`\$\{[\w$]+\}px 0px`")
"""The distance from the viewport within which Scalar renders an operation, as written in its script."""

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0063a8"/>'
    '<path d="M12 9 6 16l6 7m8-14 6 7-6 7" fill="none" stroke="#fff" stroke-width="3"/></svg>'
)


def read_script() -> str:
    """Scalar's script, which the package contains as one string, in Spanish and safe to embed in a page."""
    _, _, text = (PACKAGE / "dist" / "index.js").read_text(encoding="utf-8").partition("\nvar standalone_default = ")
    script: str = json.JSONDecoder(strict=False).raw_decode(text)[0]
    for english, spanish in ENGLISH.items():
        if english not in script:
            raise ValueError(f"{PACKAGE.name} no longer contains {english}: find the new text and translate it")
        script = script.replace(english, spanish)
    # The browser's own search finds only what is rendered, so this margin includes all operations.
    script, places = LAZY_MARGIN.subn("`1000000px 0px`", script)
    if places != 1:
        raise ValueError(f"{PACKAGE.name} has {LAZY_MARGIN.pattern} {places} times: find where it renders lazily")
    # In a page, each of these two would change where the script ends.
    return re.sub("<(?=!--|/script)", r"\\x3c", script)


def read_document(base_url: str | None = None) -> dict[str, Any]:
    """The published document, with ``base_url`` in its servers and examples, adapted to the page."""
    text = DOCUMENT_FILE.read_text(encoding="utf-8")
    published = json.loads(text)
    [server] = published["servers"]
    if base_url:
        text = text.replace(server["url"], base_url)
        server = {"url": base_url}
    examples = json.loads(text)["components"]["examples"]

    def adapt(part: dict[str, Any]) -> dict[str, Any]:
        # Scalar shows some references to examples unresolved, and labels the others with their key.
        if part.get("$ref", "").startswith("#/components/examples/"):
            example: dict[str, Any] = examples[part["$ref"].rpartition("/")[2]]
            return example
        # JavaScript rounds 64-bit bounds, so the page would show wrong numbers. A "not" tells client generators what
        # the description tells people.
        unread = {"not", "minimum", "maximum"} if part.get("maximum", 0) > 2**53 else {"not"}
        return {name: value for name, value in part.items() if name not in unread}

    document: dict[str, Any] = json.loads(text, object_hook=adapt)
    address = server["url"] + DOCUMENT
    # Their addresses are placeholders, and without one their names mean nothing.
    del document["info"]["contact"], document["info"]["license"]
    for path in document["paths"].values():
        # The document lists it for two paths, but the service has it for all. The section CORS says so.
        path.pop("options", None)
    document["info"]["description"] += f"\n\n## Documento OpenAPI\n\nEsta página procede de [{address}]({address}).\n"
    return document | {"servers": [server]}


def build(base_url: str | None = None) -> str:
    """The whole page: one file that loads nothing else."""
    document = read_document(base_url)
    info = document["info"]
    address = escape(document["servers"][0]["url"] + DOCUMENT)
    configuration = json.dumps(
        CONFIGURATION | {"customCss": STYLE.read_text(encoding="utf-8"), "content": document}, ensure_ascii=False
    ).replace("<", r"\u003c")
    scripts = (read_script(), f'Scalar.createApiReference("#reference", {configuration})')
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # The text is visible while the page loads, and without JavaScript. Scalar needs its own element empty.
    return f"""<!doctype html>
<html lang="es">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(info["title"])}: referencia</title>
<meta name="description" content="{escape(info["summary"])}">
<link rel="icon" href="data:image/svg+xml,{quote(ICON)}">
<style>
body {{ margin: 0; font-family: system-ui, sans-serif }}
body > p {{ padding: 1rem; line-height: 1.5; overflow-wrap: anywhere }}
#reference:not(:empty) + p {{ display: none }}
</style>
</head>
<!-- Scalar:
{(PACKAGE / "LICENSE").read_text(encoding="utf-8")}-->
<body>
<div id="reference"></div>
<p>Cargando la referencia, que necesita JavaScript. Sin él, lea el documento: <a href="{address}">{address}</a></p>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def read_base_url(given: str) -> str | None:
    """The given base URL, checked by the rules of PUBLIC_BASE_URL; None if it is empty."""
    try:
        return parse_base_url(given) if given else None
    except ValueError:
        sys.exit(f"BASE_URL={given!r}: expected {BASE_URL}")


def main(arguments: Sequence[str]) -> None:
    """Write the page, with the base URL from the arguments or else from the document."""
    [given] = arguments or [""]
    page = build(read_base_url(given)).encode()
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(page)
    # Without a timestamp, the same page always gives the same file.
    FILE.with_name(f"{FILE.name}.gz").write_bytes(gzip.compress(page, 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
