"""What the code knows of the pages, of nginx's files and of the example of the settings."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

from marshmallow.validate import Length, OneOf

from app import API_POLICY, CONTACT_POLICY, envelope
from app.api.v1 import ACCEPTED
from app.contact.schema import LABELS, ContactSchema
from app.errors import MAX_BODY_BYTES, ErrorCode
from app.kinds import KINDS
from app.settings import VARIABLES
from tools.document import CODES, failure

ROOT = Path(__file__).parents[1]

DEFAULTS: dict[str, str | None] = {name: each.metadata["default"] for name, each in VARIABLES.items()}
IN_WORDS = {
    "SALES_EMAIL": "required with SMTP_HOST",
    **{f"SALES_EMAIL_{kind.upper()}": "SALES_EMAIL" for kind in KINDS},
    "MAIL_FROM": "required with SMTP_HOST",
    "PUBLIC_BASE_URL": "from the request",
    "RATE_LIMIT_STORAGE": "in the process",
}
"""The defaults that the table describes in place of showing them."""


FIELDS = ContactSchema().fields


def readme(page: str) -> str:
    """README with its tables. What a row means stays as it is written there; a new row has the code's own words."""
    document = json.loads((ROOT / "static" / "openapi.json").read_bytes())
    page = table(
        page,
        "endpoints",
        {
            (f"{method.upper()} {path}",): operation["summary"]
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if method != "options"
        },
    )
    page = table(
        page,
        "quotas",
        {
            (paths, str(policy.quota), str(policy.window_seconds)): ""
            for paths, policy in (("`/api` and all below", API_POLICY), ("the contact paths", CONTACT_POLICY))
        },
    )
    page = table(page, "fields", {(f"`{name}`", *_rules(name)): _read_as(name) for name in FIELDS})
    page = table(page, "errors", {(code, str(code.status)): code.message for code in ErrorCode})
    page = table(
        page,
        "settings",
        {
            (name, IN_WORDS.get(name, text or "none")): "Likewise" if name.startswith("SALES_EMAIL_") else ""
            for name, text in DEFAULTS.items()
        },
    )
    window = CONTACT_POLICY.window_seconds
    refused = failure(ErrorCode.RATE_LIMIT, {"retry_after_seconds": window})
    for shown, known in {
        r"\d+(?= KiB)": str(MAX_BODY_BYTES // 1024),
        r'(?<="default";)q=\d+;w=\d+': f"q={CONTACT_POLICY.quota};w={window}",
        r'(?<="default";)r=\d+;t=\d+': f"r={CONTACT_POLICY.quota - 1};t={window}",
        r"(?<=Retry-After: )\d+": str(window),
        r'\{"ok":true.*\}': _as_json(envelope.success(message=ACCEPTED)),
        r'\{"ok":false.*\}': _as_json(refused),
    }.items():
        page = re.sub(shown, known, page)
    return page


def _as_json(body: envelope.Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def table(page: str, name: str, rows: dict[tuple[str, ...], str]) -> str:
    """The page with a row for each of these keys. The words of the last column stay; a new row has the given ones."""

    def write(found: re.Match[str]) -> str:
        written = dict(re.findall(r"^\| (.+?) \|(?:.*\|)? (.*) \|$", found["rows"], re.MULTILINE))
        lines = (f"| {' | '.join(key)} | {written.get(key[0], words)} |\n" for key, words in rows.items())
        return found["head"] + "".join(lines)

    head = rf"<!-- make docs: {name} -->\n\n.*\n\|[-|]+\|\n"
    return re.sub(rf"(?P<head>{head})(?P<rows>(\|.*\n)*)", write, page)


def _rules(name: str) -> tuple[str, str]:
    """Whether a field is required, and what it takes."""
    field = FIELDS[name]
    takes = ""
    for rule in field.validators:
        if isinstance(rule, Length):
            takes = f"{rule.max} characters"
        elif isinstance(rule, OneOf):
            takes = ", ".join(rule.choices)
    return "yes" if field.required else "no", takes


def _read_as(name: str) -> str:
    return f"What the sales team reads as *{LABELS[name]}*" if name in LABELS else ""


def example(settings: str) -> str:
    """The example with the default of each setting that stands in a comment, and with each kind of form.

    Those of v1's end have none and show a value. BIND stays empty, because the unit sets it.
    """
    kinds = "".join(f"#SALES_EMAIL_{kind.upper()}=\n" for kind in KINDS)
    settings = re.sub(r"(#SALES_EMAIL_\w+=\n)+", kinds, settings)
    commented = re.compile(r"^#(?!API_V1_|BIND=)([A-Z0-9_]+)=.*", re.MULTILINE)
    return commented.sub(lambda line: f"#{line[1]}={DEFAULTS[line[1]] or ''}", settings)


def number(found: str, known: float) -> Callable[[str], str]:
    """Writes a number into a page, wherever it is found."""
    return lambda page: re.sub(found, f"{known:.0f}", page)


def nginx_answers(text: str) -> str:
    """The errors that nginx answers itself: the envelope, with the details that stand there."""

    def write(found: re.Match[str]) -> str:
        written = json.loads(found["body"])["error"]
        body = failure(CODES[written["code"]], written, docs="https://$server_name/openapi.json")
        return f"return {body['error']['status']} '{_as_json(body)}';"

    return re.sub(r"return \d+ '(?P<body>\{.*\})';", write, text)


def nginx_quotas(text: str) -> str:
    """The maps of the quotas and of their windows."""
    for name, api, contact in (
        ("quota", API_POLICY.quota, CONTACT_POLICY.quota),
        ("window", API_POLICY.window_seconds, CONTACT_POLICY.window_seconds),
    ):
        numbers = rf'(\$public_web_interface_{name} \{{\n +default )\d+(;\n +".*" )\d+;'
        text = re.sub(numbers, rf"\g<1>{api}\g<2>{contact};", text)
    return text


def contributing(page: str) -> str:
    """CONTRIBUTING with the tree of app/: what the first line of each module says."""
    lines = []
    for path in sorted((ROOT / "app").rglob("*.py"), key=_place):
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        is_room = path.name == "__init__.py"
        depth = len(path.relative_to(ROOT).parts) - 1 - is_room
        name = "  " * depth + (f"{path.parent.name}/" if is_room else path.name)
        lines.append(f"{name:<24}{first}\n")
    return re.sub(r"(?m)^app/ (.*\n  )*.*\n", lambda _: "".join(lines), page)


def _place(path: Path) -> tuple[str, bool, str]:
    """Behind the modules of a room come the rooms in it."""
    return (path.parent.as_posix(), path.name != "__init__.py", path.name)
