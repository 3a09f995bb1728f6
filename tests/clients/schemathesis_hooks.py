"""What schemathesis cannot read in the document: the quotas, the time, the captcha's equality and the honeypot."""

import json
import time
from typing import Any
from urllib.parse import parse_qsl

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure

from tests.fuzz.cases import addresses

Case = schemathesis.Case[Any]


@schemathesis.hook
def before_call(_: schemathesis.HookContext, case: Case, _kwargs: dict[str, Any]) -> None:
    # Each request is the first of its client, so that the quotas refuse none of them.
    case.headers["X-Forwarded-For"] = next(addresses)
    if isinstance(case.body, dict):
        _agree(case.body)


def _agree(body: dict[str, Any]) -> None:
    """Give fields that are valid by themselves the values that JSON Schema cannot ask for; leave the others alone."""
    # A form is rendered shortly before it is sent. Times up to 1970 stay: they are answered with too_fast.
    rendered_at = time.time_ns() // 1_000_000 - 10_000
    match body.get("ts"):
        case bool():
            pass
        case int(ts) if 0 < ts < 1 << 63:
            body["ts"] = rendered_at
        case str(ts) if ts.isascii() and ts.isdigit() and len(ts) <= 19 and int(ts):
            body["ts"] = str(rendered_at)
    # A captcha is typed as it is shown, or there is none.
    if all(_is_code(body.get(name, "")) for name in ("captcha_expected", "captcha_input")):
        body["captcha_input"] = body.setdefault("captcha_expected", "")


def _is_code(text: object) -> bool:
    return text is None or (isinstance(text, str) and len(text) in {0, 5} and "\n" not in text)


@schemathesis.hook
def filter_failure(_: schemathesis.HookContext, failure: Failure, _case: Case, response: schemathesis.Response) -> bool:
    # A filled honeypot is answered as an accepted submission, which is its purpose.
    return not (isinstance(failure, AcceptedNegativeData) and _fills_honeypot(response))


def _fills_honeypot(response: schemathesis.Response) -> bool:
    """Whether the text that was sent, and not only what was meant to be sent, fills it."""
    sent = response.request.body
    text = sent.decode() if isinstance(sent, bytes) else str(sent)
    is_json = response.request.headers.get("Content-Type") == "application/json"
    body = json.loads(text) if is_json else dict(parse_qsl(text, keep_blank_values=True))
    honeypot = body.get("_bp_check") if isinstance(body, dict) else None
    return isinstance(honeypot, str) and honeypot != ""
