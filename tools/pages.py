"""Update the facts that come from the code in the pages, nginx's files and the example settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from marshmallow.validate import OneOf

from app import API_POLICY, CONTACT_POLICY
from app.api import envelope
from app.api.contact import ACCEPTED
from app.api.paths import LEGACY_CONTACT, contact_paths
from app.api.root import DOCUMENT_FILE
from app.contact.schema import LABELS
from app.errors import ErrorCode
from app.mail import health, redelivery
from app.mail.queued import GIVE_UP_AFTER, GIVE_UP_ATTEMPTS, LONGEST_PAUSE
from app.mail.spool import UNFINISHED_SECONDS
from app.ratelimit import shared
from app.settings import BY_FORM_TYPE, NOTICE_PERIOD_DAYS, VARIABLES
from app.versions import V1, Versions
from tools import put, put_all
from tools.document import CODES, FIELDS, KIB, LENGTHS, VERSIONS, failure

LATE = round(shared.TIMEOUT * 1000)
NUMBERS: dict[str, dict[str, object]] = {
    "deploy/nginx/snippets/service.conf": {
        r"(?<=client_max_body_size )\d+": KIB,
        r"(?<=client_body_buffer_size )\d+": 2 * KIB,
    },
    "docs/mail.md": {
        r"\d+ days(?= and at least)": f"{GIVE_UP_AFTER // 86_400} days",
        r"(?<=at least )\d+(?= attempts)": GIVE_UP_ATTEMPTS,
        r"(?<=given up after )\d+(?= days)": GIVE_UP_AFTER // 86_400,
        r"(?<=later )\d+(?= minutes)": LONGEST_PAUSE // 60,
        r"(?<=after a failure one every )\d+": round(redelivery.LONGEST_GAP),
        r"(?<=tried for )\d+": round(redelivery.IN_DOUBT_PAUSE) // 60,
        r"(?<=`tmp/` after )\d+(?= hours)": UNFINISHED_SECONDS // 3600,
        r"(?<=the mail server every )\d+": round(health.CHECK_INTERVAL),
    },
    "docs/shared-limits.md": {
        r"(?<=within )\d+(?= ms)": LATE,
        r"\d+ failed probes, \d+ s": f"{shared.FAILURES_IN_A_ROW} failed probes, {shared.PROBE_INTERVAL:.0f} s",
    },
}
"""The numbers in the prose of the pages."""

DEFAULTS: dict[str, str | None] = {name: each.metadata["default"] for name, each in VARIABLES.items()}
IN_WORDS = {
    "SMTP_SECURITY": "starttls; with port 465 tls",
    "SALES_EMAIL": "required with SMTP_HOST",
    **dict.fromkeys(BY_FORM_TYPE.values(), "SALES_EMAIL"),
    "MAIL_FROM": "required with SMTP_HOST",
    "PUBLIC_BASE_URL": "from the request",
    "RATE_LIMIT_STORAGE": "in the process",
}
"""The defaults that the table describes instead of showing them."""


def readme(page: str) -> str:
    """README with its tables updated. The text of existing rows stays; a new row gets the code's text."""
    document = json.loads(DOCUMENT_FILE.read_bytes())
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
    window = CONTACT_POLICY.window_seconds
    known = {
        r"(?<=at most )\d+(?= KiB)": KIB,
        r'(?<="default";)q=\d+;w=\d+': f"q={CONTACT_POLICY.quota};w={window}",
        r'(?<="default";)r=\d+;t=\d+': f"r={CONTACT_POLICY.quota - 1};t={window}",
        r"(?<=Retry-After: )\d+": window,
        r"(?<=must wait )\d+(?= seconds)": window,
        r"(?<=second form within )\d+(?= seconds)": window,
        r'\{"ok":true.*\}': _as_json(envelope.success(message=ACCEPTED)),
        r'\{"ok":false.*\}': _as_json(failure(ErrorCode.RATE_LIMIT, {})),
    }
    return put_all(known, page)


def settings(page: str) -> str:
    """docs/settings.md with its table updated in the same way."""
    words = {name: each.metadata["accepted"] for name, each in VARIABLES.items()}
    words |= dict.fromkeys(BY_FORM_TYPE.values(), "Likewise")
    page = table(
        page, "settings", {(name, IN_WORDS.get(name, text or "none")): words[name] for name, text in DEFAULTS.items()}
    )
    return put(page, r"(?<=at least )\d+(?= days)", NOTICE_PERIOD_DAYS)


def _as_json(body: envelope.Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def table(page: str, name: str, rows: dict[tuple[str, ...], str]) -> str:
    """The page with a row for each key. Texts in the last column stay; a new row gets the given one."""
    head = rf"(<!-- make docs: {name} -->\n\n.*\n\|[-|]+\|\n)"
    written = dict(re.findall(r"^\| (.+?) \|(?:.*\|)? (.*) \|$", re.split(head, page)[-1], re.MULTILINE))
    lines = (f"| {' | '.join(key)} | {written.get(key[0], words)} |\n" for key, words in rows.items())
    return put(page, rf"{head}(?:\|.*\n)*", "".join(lines))


def _rules(name: str) -> tuple[str, str]:
    """A field's cells in the columns Required and Takes."""
    field = FIELDS[name]
    choices = [", ".join(rule.choices) for rule in field.validators if isinstance(rule, OneOf)]
    takes = f"{LENGTHS[name]} characters" if name in LENGTHS else "".join(choices)
    return "yes" if field.required else "no", takes


def _read_as(name: str) -> str:
    return f"What the sales team reads as *{LABELS[name]}*" if name in LABELS else ""


def example(text: str) -> str:
    """The example settings, with the default of each commented setting and with a line for each form type.

    The settings for v1's end have no defaults and show a value. BIND stays empty, because the unit sets it.
    """
    kinds = "".join(f"#{name}=\n" for name in BY_FORM_TYPE.values())
    text = put(text, r"(?:#SALES_EMAIL_\w+=\n)+", kinds)
    commented = re.compile(r"^#(?!API_V1_|BIND=)([A-Z0-9_]+)=.*", re.MULTILINE)
    return commented.sub(lambda line: f"#{line[1]}={DEFAULTS.get(line[1]) or ''}", text)


def nginx_answers(text: str) -> str:
    """Nginx's own error responses: the envelope, with the details that the file already has."""

    def write(found: re.Match[str]) -> str:
        written = json.loads(found["body"])["error"]
        body = failure(CODES[written["code"]], written, docs="https://$server_name/openapi.json")
        return f"return {body['error']['status']} '{_as_json(body)}';"

    return re.sub(r"return \d+ '(?P<body>\{.*\})';", write, text)


def nginx_maps(text: str, versions: Versions = VERSIONS) -> str:
    """The maps of the quotas, of their windows and of the versions."""
    forms = [f'"~^({_alternatives(contact_paths(versions))})(\\?|$)"']
    for name, api, contact in zip(("quota", "window"), API_POLICY, CONTACT_POLICY, strict=True):
        text = _map(text, name, {"default": api} | dict.fromkeys(forms, contact))
    earlier = [version for version in versions.values() if version is not versions.current]
    served = {f'"~^{version.base_path}([/?]|$)"': version.name for version in earlier}
    legacy = {f'"~^{_alternatives([LEGACY_CONTACT])}(\\?|$)"': V1}
    return _map(text, "version", {"default": versions.current.name} | served | legacy)


def _alternatives(paths: Iterable[str]) -> str:
    return "|".join(path.replace(".", r"\.") for path in sorted(paths))


def _map(text: str, name: str, rows: Mapping[str, object]) -> str:
    lines = "".join(f"    {key} {value};\n" for key, value in rows.items())
    return put(text, rf"(\$public_web_interface_{name} \{{\n)(?: .*\n)+", lines)
