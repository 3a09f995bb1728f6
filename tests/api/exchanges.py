"""Requests and their answers, as data: what is sent under which settings, and what comes back."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from werkzeug.test import Client, TestResponse

from app import API_POLICY, CONTACT_POLICY
from app.api.contact import ACCEPTED
from app.forms import FORM_TYPES
from app.versions import Version
from tests.client import DOCUMENT
from tests.factories import REQUEST_ID, SUNSET, WRONG_BODY
from tests.versions import CONTACT, CONTACT_PATHS, FIRST, HEALTH, INDEX, PUBLISHED
from tools.document import LENGTHS

NOW = "2030-05-01T12:00:00.5"
"""When each row is asked."""
MS = int(datetime.fromisoformat(NOW).replace(tzinfo=UTC).timestamp() * 1000)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
LIMIT = 64 * 1024
SECTIONS = ["versions", "rate_limit", "versioning", "contact", "docs"]
ALLOWED_KINDS = {"error.allowed_values": [*FORM_TYPES]}
VALID = {
    "form_type": "demo",
    "nombre": "Zoraida Ñúñez",
    "empresa": "Almazara S.L.",
    "email": "zoraida@example.com",
    "telefono": "+34 611 222 333",
    "captcha_expected": "aB3dE",
    "captcha_input": "Ab3De",
    "_bp_check": "",
}
CLIENT = "198.51.100.77"
PERSONAL = ("Zoraida", "zoraida@", "611 222", "Almazara")
"""What no log may show, of what the rows send."""
SERVICE_DESC = '</openapi.json>; rel="service-desc"'
"""The Link of every response under /api and of the document."""
STATUSES = {
    "method_not_allowed": 405,
    "invalid_body": 400,
    "bad_captcha": 400,
    "invalid_form_type": 400,
    "invalid_email": 400,
    "rate_limit": 429,
    "rate_limit_exceeded": 429,
    "mail_delivery_failed": 500,
    "invalid_parameter": 400,
    "api_version_sunset": 410,
    "too_fast": 429,
    "internal_error": 500,
    "not_found": 404,
    "endpoint_not_found": 404,
    "unsupported_api_version": 404,
}


class Row(NamedTuple):
    """A request, and what is seen of its answer."""

    request: str
    """Method and target. A POST without a target goes to both contact paths."""
    outcome: int | str
    """The status of a success, or the code of an error."""
    answer: dict[str, Any] = {}  # noqa: RUF012 - never changed, like the next ones
    """Members of the JSON by their path; ``...`` is any value, a set holds the names of an object's members."""
    body: bytes | None = None
    content_type: str | None = JSON
    headers: dict[str, str] = {}  # noqa: RUF012
    settings: dict[str, str] = {}  # noqa: RUF012
    environ: dict[str, Any] = {}  # noqa: RUF012
    before: tuple[str, ...] = ()
    """Requests that came before, those with POST with a valid form; a number in front repeats one."""
    fields: dict[str, Any] = {}  # noqa: RUF012
    """Header fields of the answer; None for one that is not there."""
    kept: bool | None = None
    """While the mailer delivers nothing: whether it keeps the message."""
    sends: int | None = None
    """Messages; one where a POST is answered 200."""

    @property
    def status(self) -> int:
        return self.outcome if isinstance(self.outcome, int) else STATUSES.get(self.outcome, 0)

    @property
    def code(self) -> str:
        return self.outcome if isinstance(self.outcome, str) else ""

    @property
    def method(self) -> str:
        return self.request.partition(" ")[0]

    @property
    def target(self) -> str:
        return self.request.partition(" ")[2]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def sent_headers(self) -> dict[str, str]:
        """Those of a client that is no test client: with the type of the body."""
        return self.headers | ({"Content-Type": self.content_type} if self.body and self.content_type else {})

    @property
    def version(self) -> Version | None:
        """The version that the path belongs to."""
        return PUBLISHED.at(self.path)

    @property
    def earlier(self) -> Iterator["Row"]:
        """The requests that came before."""
        for step in self.before:
            times, request = step.split(" ", 1) if step[0].isdigit() else ("1", step)
            yield from [usual(request)] * int(times)

    @property
    def spends_of_api(self) -> bool:
        return self.method != "OPTIONS" and f"{self.path}/".startswith("/api/")

    @property
    def spends_of_forms(self) -> bool:
        refused_before = self.code in {"rate_limit_exceeded", "api_version_sunset"}
        return self.method == "POST" and self.path in CONTACT_PATHS and not refused_before

    @property
    def messages(self) -> int:
        return int(self.method == "POST" and self.status == 200) if self.sends is None else self.sends


def usual(request: str) -> Row:
    """The request, with a valid form where it is a POST."""
    return Row(request, 0, body=typed() if request.startswith("POST") else None)


def send(client: Client, row: Row, address: str = CLIENT) -> TestResponse:
    # PEP 3333 passes the bytes of a path on as Latin-1. The client itself would take //api for a host.
    environ = {"PATH_INFO": row.path.encode(errors="surrogateescape").decode("latin-1"), "REMOTE_ADDR": address}
    return client.open(
        method=row.method,
        query_string=row.target.partition("?")[2],
        headers=row.headers,
        input_stream=None if row.body is None else io.BytesIO(row.body),
        content_type=row.content_type,
        environ_overrides=environ | {"CONTENT_LENGTH": str(len(row.body or b""))} | row.environ,
    )


def member(answer: Any, path: str) -> Any:
    """The member of a JSON answer; None when there is none."""
    for name in path.split("."):
        members = answer if isinstance(answer, dict) else {str(number): item for number, item in enumerate(answer)}
        answer = members.get(name)
    return answer


Rows = dict[str, Row]
GROUPS: dict[str, Rows] = {}


def typed(**changes: Any) -> bytes:
    """A form in JSON, with these changes."""
    return json.dumps(VALID | changes).encode()


def form(outcome: int | str, answer: dict[str, Any] | None = None, /, **changes: Any) -> Row:
    """The form with these changes, sent to both contact paths."""
    return Row("POST", outcome, answer or {}, typed(**changes))


def undelivered(*, is_kept: bool) -> Row:
    row = form("mail_delivery_failed", {"error.details": {"kept": is_kept}})
    return row._replace(kept=is_kept)


def reason(name: str) -> dict[str, Any]:
    return {"error.details": {"reason": name}}


def raw(outcome: int | str, body: bytes, content_type: str | None = JSON, why: str | None = None, **more: Any) -> Row:
    """A body as it is; of an error its reason."""
    return Row("POST /contact.php", outcome, reason(why) if why else {}, body, content_type, **more)


def faulty(*names: str) -> dict[str, Any]:
    return {"error.details.fields": {*names}}


OPTIONAL = (*LENGTHS, "ts", "captcha_expected", "captcha_input", "_bp_check", "x")
OF_ANOTHER_TYPE = {"_bp_check": ["x"], "ts": "ayer", "captcha_expected": 12345, "captcha_input": {}}
"""Wrong values of the fields that are checked early."""

GROUPS["form"] = {
    **{f"of kind {kind}": form(200, {"message": ACCEPTED}, form_type=kind) for kind in FORM_TYPES},
    "of two fields": Row("POST", 200, body=b'{"form_type":"ventas","email":" a@example.com\\n"}'),
    "with null for nothing": form(200, **dict.fromkeys(OPTIONAL)),
    "with an empty text for nothing": form(200, **dict.fromkeys(OPTIONAL, "")),
    "of a browser": Row("POST", 200, {"message": ACCEPTED}, urlencode(VALID).encode(), FORM),
    "with a field of its own": form(200, tema="Precios & más"),
    "that is not delivered": undelivered(is_kept=True),
    "that is neither delivered nor kept": undelivered(is_kept=False),
    "with the longest texts": form(200, **{name: "ñ" * length for name, length in LENGTHS.items()}),
    "with texts that are too long": form(
        "invalid_body", faulty(*LENGTHS), **{name: "ñ" * (length + 1) for name, length in LENGTHS.items()}
    ),
    **{
        f"with a wrong {name}": form("invalid_body", faulty(name), **{name: it}) for name, it in OF_ANOTHER_TYPE.items()
    },
    "with a wrong address, too": form("invalid_email", email=5, **OF_ANOTHER_TYPE),
}

GROUPS["honeypot"] = {
    **{
        f"filled with {trap!a}": form(200, _bp_check=trap)._replace(sends=0) for trap in ("x", " ", "\n", "\u200b", "0")
    },
    "filled by a browser": Row("POST", 200, {}, urlencode(VALID | {"_bp_check": " "}).encode(), FORM, sends=0),
}

TOO_FAST: dict[str, tuple[int, str, int]] = {
    "1.999 s old": (-1_999, "too_early", 30),
    "just rendered": (0, "too_early", 30),
    "a minute ahead": (60_000, "too_early", 62),
    "a minute and half a second ahead": (60_500, "too_early", 63),
    "3597.999 s ahead": (3_597_999, "too_early", 3600),
    "1 h and 1 ms old": (-3_600_001, "expired", 30),
    "in 1970": (-MS, "expired", 30),
    "as early as 64 bits go": (-MS - (1 << 63), "expired", 30),
    "as late as 64 bits go": ((1 << 63) - 1 - MS, "too_early", 3600),
}
"""Milliseconds from now, the reason of the refusal, and the wait: never shorter than that for the quota."""
GROUPS["ts"] = {
    **{
        name: form("too_fast", reason(why) | {"error.retry_after_seconds": wait}, ts=MS + offset)
        for name, (offset, why, wait) in TOO_FAST.items()
    },
    "as digits, too late": form("too_fast", reason("expired"), ts="0"),
    "2 s old": form(200, ts=MS - 2000),
    "2 s old, in digits": form(200, ts=str(MS - 2000)),
    "1 h old": form(200, ts=MS - 3_600_000),
}

CAPTCHAS: list[tuple[str | None, str | None, int | str]] = [
    (None, None, 200),
    ("K7M2Q", "K7M2Q", 200),
    ("K7M2Q", "k7m2q", 200),
    ("K7M2Q", "K7M2R", "bad_captcha"),
    ("K7M2Q", None, "bad_captcha"),
    (None, "K7M2Q", "bad_captcha"),
    ("K7M2", "K7M2", "bad_captcha"),
    ("ñandú", "ÑANDÚ", 200),
    ("aB3dE", "aB3dE ", "bad_captcha"),
    ("aßbcd", "assbcd", "bad_captcha"),
]
"""The code that was shown and the one that was typed."""
GROUPS["captcha"] = {
    f"{shown!r}, typed {given!r}": form(outcome, captcha_expected=shown, captcha_input=given)
    for shown, given, outcome in CAPTCHAS
}

NO_KINDS: list[Any] = [None, "", "otro", "DEMO", " demo", 1, ["demo"]]
NO_ADDRESSES: list[Any] = [None, "", "maria", 5]
GROUPS["required field"] = {
    **{f"form_type {kind!r}": form("invalid_form_type", ALLOWED_KINDS, form_type=kind) for kind in NO_KINDS},
    **{f"email {value!r}": form("invalid_email", email=value) for value in NO_ADDRESSES},
    "no form_type": Row("POST", "invalid_form_type", body=b'{"email":"a@example.com"}'),
    "no email": Row("POST", "invalid_email", body=b'{"form_type":"demo"}'),
}

MENDING: dict[str, tuple[dict[str, Any], int | str]] = {
    "honeypot": ({}, 200),
    "ts": ({"_bp_check": ""}, "too_fast"),
    "captcha": ({"ts": ""}, "bad_captcha"),
    "form_type": ({"captcha_input": "AB3DE"}, "invalid_form_type"),
    "email": ({"form_type": "demo"}, "invalid_email"),
    "other fields": ({"email": "a@example.com"}, "invalid_body"),
    "delivery": ({"nombre": "Z"}, "mail_delivery_failed"),
}
"""What each check finds in a form that is all wrong, while mail fails; each mends what the check before it found."""
_wrong = WRONG_BODY
GROUPS["order of the checks"] = {
    "quota": Row("POST", "rate_limit", body=b"{", content_type="text/plain", before=("POST /contact.php",)),
    "content type": Row("POST", "invalid_body", reason("content_type"), b"{", "text/plain"),
    "syntax": Row("POST", "invalid_body", reason("syntax"), b"{" + json.dumps(WRONG_BODY).encode()),
    "quota under /api": Row(f"POST {INDEX}/x", "rate_limit_exceeded", settings=SUNSET, before=("60 GET /api",)),
    "sunset": Row(f"POST {HEALTH}?verbose=x", "api_version_sunset", settings=SUNSET),
    "path": Row("POST /api/x?section=x", "endpoint_not_found"),
    "method": Row("POST /api?section=x", "method_not_allowed"),
    "query": Row("GET /api?section=x", "invalid_parameter"),
}
for _name, (_mended, _outcome) in MENDING.items():
    _wrong = _wrong | _mended
    _row = Row("POST", _outcome, {}, json.dumps(_wrong).encode(), kept=True, sends=0)
    GROUPS["order of the checks"][_name] = _row

_DEMO = b'"form_type":"demo","email":"a@example.com"'
_DEMO_FORM = b"form_type=demo&email=a@example.com"


def with_member(text: bytes | str) -> bytes:
    """A JSON body that is valid if the member is."""
    return b"{%s,%s}" % (_DEMO, text.encode() if isinstance(text, str) else text)


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return with_member(b'"x":' + opening * levels + b"1" + closing * levels)


VALID_JSON = {
    "two fields": b"{%s}" % _DEMO,
    "31 levels below it": nested(31),
    "31 objects below it": nested(31, b'{"":', b"}"),
    "readable letters": with_member('"x":"¿Qué tal? 🏦"'),
    "escaped pair of surrogates": with_member(r'"x":"\ud83c\udfe6"'),
    "backslash before a u": with_member(r'"x":"\\ud83c"'),
    "byte order mark": b"\xef\xbb\xbf{%s}" % _DEMO,
    "7000 members": with_member(b",".join(b'"%x":1' % number for number in range(7000))),
    "the last of two names": b'{"form_type":"otro",%s}' % _DEMO,
}
INVALID_JSON = {
    "empty": {"nothing": b"", "line end alone": b"\r\n"},
    "syntax": {
        "white space": b" \n ",
        "NaN": with_member('"x":NaN'),
        "Infinity": with_member('"x":[{"a":Infinity}]'),
        "1e400": with_member('"x":1e400'),
        "number of 5000 digits": with_member(b'"x":' + b"9" * 5000),
        "trailing text": b"{%s}x" % _DEMO,
        "leading zero": with_member('"x":01'),
        "cut off": b"{%s" % _DEMO,
    },
    "encoding": {
        "lone high surrogate": with_member(r'"x":"\ud83c"'),
        "lone low surrogate": with_member(r'"x":"\udfe6"'),
        "lone surrogate behind an escaped backslash": with_member(r'"x":"\\\ud83c"'),
        "lone surrogate before a pair": with_member(r'"x":"\ud83c\ud83c\udfe6"'),
        "lone surrogate in a value that is replaced": with_member(r'"x":"\ud83c","x":"y"'),
        "lone surrogate in an inner name": with_member(r'"x":[{"\ud83c":1}]'),
        "invalid UTF-8": with_member(b'"x":"\xff"'),
        "Latin-1": with_member('"x":"María"'.encode("latin-1")),
        "UTF-16": with_member('"x":1').decode().encode("utf-16"),
    },
    "nesting": {
        "32 levels below it": nested(32),
        "32 objects below it": nested(32, b'{"":', b"}"),
        **{f"{levels} levels": nested(levels) for levels in (450, 950, 30_000)},
        "65,536 open brackets": b"[" * 65_536,
    },
    "not_an_object": {"array": b"[{%s}]" % _DEMO, "null": b"null"},
}
"""By the reason of the refusal."""
VALID_FORMS = {
    "two fields": _DEMO_FORM,
    "UTF-8 as it is": _DEMO_FORM + "&nombre=María".encode(),
    "percent-encoded UTF-8": _DEMO_FORM + b"&nombre=Mar%C3%ADa+%c3%91",
    "blank values": _DEMO_FORM + b"&nombre=&empresa&_bp_check=&ts=",
    "5,000 fields": _DEMO_FORM + b"".join(b"&_%x=1" % number for number in range(5_000)),
    "the last of two names": b"form_type=otro&" + _DEMO_FORM,
}
NO_UTF_8 = {
    "Latin-1": _DEMO_FORM + "&nombre=María".encode("latin-1"),
    "percent-encoded Latin-1": _DEMO_FORM + b"&nombre=Mar%EDa",
    "percent-encoded invalid UTF-8 in a name": _DEMO_FORM + b"&%FF=x",
    "UTF-16": _DEMO_FORM.decode().encode("utf-16"),
}
GROUPS["JSON"] = {
    **{name: raw(200, body) for name, body in VALID_JSON.items()},
    **{name: raw("invalid_body", body, JSON, why) for why, rows in INVALID_JSON.items() for name, body in rows.items()},
    "an earlier name does not mend the last": raw("invalid_form_type", with_member('"form_type":"otro"')),
}
GROUPS["urlencoded"] = {
    **{name: raw(200, body, FORM) for name, body in VALID_FORMS.items()},
    **{name: raw("invalid_body", body, FORM, "encoding") for name, body in NO_UTF_8.items()},
    **{f"of {body!r}": raw("invalid_body", body, FORM, "empty") for body in (b"", b"\n")},
    "an earlier name does not mend the last": raw("invalid_form_type", _DEMO_FORM + b"&form_type=otro", FORM)._replace(
        answer={"error.details": None}
    ),
    "that is JSON": raw("invalid_form_type", b"{%s}" % _DEMO, FORM, "content_type"),
    "that is JSON with & and =": raw("invalid_form_type", b'{"mensaje":"a=b&c"}', FORM, "content_type"),
    "that is JSON in quotes, as Windows sends it": raw(
        "invalid_form_type", b"'{form_type:demo}'", FORM, "content_type"
    ),
}
JSON_TYPES = ("application/json; charset=utf-8", "application/json ;charset=UTF-8", "Application/JSON")
OTHER_TYPES = (None, "", ";", "text/json", "application/problem+json", "*/*", "text/plain", "multipart/form-data")
GROUPS["content type"] = {
    **{kind: raw(200, typed(), kind) for kind in JSON_TYPES},
    **{kind: raw(200, _DEMO_FORM, kind) for kind in (f"{FORM}; charset=UTF-8", FORM.upper())},
    **{str(kind): raw("invalid_body", typed(), kind, "content_type") for kind in OTHER_TYPES},
    "two": raw("invalid_body", typed(), "application/json, text/plain", "content_type"),
}

CHUNKED = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
"""What a server's WSGI environ says of a body in chunks: no length, but an end of the stream."""
GROUPS["length"] = {
    f"{kind} of {size:,} bytes, {framing}": raw(outcome, body.ljust(size, fill), kind, why, environ=environ)
    for size, outcome, why in (
        (LIMIT, 200, None),
        (LIMIT + 1, "invalid_body", "too_large"),
        (10 * LIMIT, "invalid_body", "too_large"),
    )
    for kind, body, fill in ((JSON, b"{%s}" % _DEMO, b" "), (FORM, _DEMO_FORM + b"&x=", b"x"))
    for framing, environ in {"declared": {}, "in chunks": CHUNKED}.items()
} | {
    "one byte missing in JSON": raw("invalid_body", typed(), JSON, "incomplete", environ={"CONTENT_LENGTH": "999"}),
    "one byte missing in a form": raw("invalid_body", _DEMO_FORM, FORM, "incomplete", environ={"CONTENT_LENGTH": "35"}),
    "more than declared": raw(200, typed() + b"next", environ={"CONTENT_LENGTH": str(len(typed()))}),
    **{
        f"of {length:.5}": raw("invalid_body", b"{}", JSON, "http", environ={"CONTENT_LENGTH": length})
        for length in ("abc", "-1", "²", "9" * 5000)
    },
}

BASE = "http://localhost"


def example(name: str) -> dict[str, Any]:
    """All that the document says with this example, of another address."""
    text = json.dumps(DOCUMENT["components"]["examples"][name]["value"])
    return json.loads(text.replace("http://127.0.0.1:8000", BASE))  # type: ignore[no-any-return]


def without_quotas(answer: dict[str, Any]) -> dict[str, Any]:
    """By the paths of the members: an app of the tests has quotas of its own."""
    data = answer["data"]
    contact = {f"data.contact.{name}": it for name, it in data["contact"].items() if name != "rate_limit"}
    return contact | {f"data.{name}": it for name, it in data.items() if name not in {"rate_limit", "contact"}}


STATE = {"status", "version", "timestamp", "checks"}
GROUPS["discovery"] = {
    "index": Row("GET /api", 200, without_quotas(example("ApiIndex"))),
    "index with a name": Row("GET /api", 200, {"data.name": "Pagos Ñandú"}, settings={"API_NAME": "Pagos Ñandú"}),
    **{f"section {name}": Row(f"GET /api?section={name}", 200, {"data": {name}}) for name in SECTIONS},
    "section as in the example": Row("GET /api?section=rate_limit", 200, example("ApiIndexSection")),
    "policy": Row("GET /api/versioning", 200, example("VersioningPolicy")),
    "a version": Row(f"GET /api/versioning?version={FIRST.name}", 200, example("VersionCurrent")),
    "endpoints": Row(f"GET {INDEX}", 200, example("EndpointList")),
    "endpoints with GET": Row(f"GET {INDEX}?method=GET", 200, example("EndpointListGet")),
    "endpoints with POST": Row(f"GET {INDEX}?method=POST", 200, {"data.endpoints.0": ..., "data.endpoints.1": None}),
    **{f"index of {it.name}": Row(f"GET {it.base_path}", 200, {"data.version": it.name}) for it in PUBLISHED.values()},
    **{f"health of {it.name}": Row(f"GET {it.base_path}/health", 200, {"data": STATE}) for it in PUBLISHED.values()},
    "health, not verbose": Row(f"GET {HEALTH}?verbose=false", 200, {"data": STATE}),
    "health, verbose": Row(
        f"GET {HEALTH}?verbose=true",
        200,
        {
            "data.details": {"uptime_seconds", "rate_limit", "mail"},
            "data.details.rate_limit": {"storage": "memory", "status": "ok"},
            "data.details.mail": {"transport", "checked_at", "latency_ms", "undelivered", "server", "storage"},
            "data.details.mail.transport": "smtp",
        },
    ),
}

BEHIND, FORWARDED = {"TRUSTED_PROXIES": "1"}, {"X-Forwarded-Host": "b.example"}
PAY = "https://pay.example.com/base"
OPERATOR = {"PUBLIC_BASE_URL": f"{PAY}/"}
PRIVATE = {"Cache-Control": "private, max-age=300"}
ANY_TAG = {"If-None-Match": "*"}
CONDITIONS = [("If-None-Match", '"other"'), ("If-None-Match", '"'), ("If-Match", '"x"'), ("Range", "bytes=0-1")]
"""Those that do not keep the document back."""
DESCRIBED = {"Link": '</base/openapi.json>; rel="service-desc"'}


def document(url: str, fields: dict[str, Any] = PRIVATE, **sent: Any) -> Row:
    """The published document, with the address that it names as its server."""
    return Row("GET /openapi.json", 200, DOCUMENT | {"servers": [{"url": url}]}, fields=fields, **sent)


GROUPS["document"] = {
    f"of {BASE}": document(BASE),
    "of another host": document("http://a.example", headers={"Host": "a.example"}),
    "of a host that a proxy names": document("http://b.example", headers=FORWARDED, settings=BEHIND),
    # Behind nginx, whose sites have PUBLIC_BASE_URL, every cache may keep it.
    "of a host that only a proxy may name": document(BASE, {"Cache-Control": ...}, headers=FORWARDED),
    "of the operator": document(PAY, {"Cache-Control": "public, max-age=300"}, settings=OPERATOR),
    "that is known": Row("GET /openapi.json", 304, headers=ANY_TAG, fields={"ETag": ...}),
    "that is known, asked with HEAD": Row("HEAD /openapi.json", 304, headers=ANY_TAG, fields={"ETag": ...}),
    **{f"under {field}: {value}": document(BASE, headers={field: value}) for field, value in CONDITIONS},
    "refused": Row("POST /openapi.json", "method_not_allowed", fields={"Cache-Control": "no-store"}),
    "named by the API": Row(
        "GET /api", 200, {"data.openapi": f"{PAY}/openapi.json"}, settings=OPERATOR, fields=DESCRIBED
    ),
    "named by an error": Row("GET /x", "not_found", {"docs": f"{PAY}/openapi.json"}, settings=OPERATOR),
}

PARAMETERS = {
    "/api": ("section", SECTIONS),
    "/api/versioning": ("version", [*PUBLISHED]),
    INDEX: ("method", ["GET", "POST"]),
    HEALTH: ("verbose", ["true", "false"]),
}
"""The parameter of each path, and what it may be."""
WRONG = {
    "/api": (
        "section section=docs&section=x section=x&section=docs section=docs&section= section=Docs section=name"
        " section=docs%20 section=%FF section=docs&undocumented=1&section=DOCS"
    ),
    "/api/versioning": f"version=v9 version=1 version={FIRST.name.upper()} version={FIRST.name},x",
    INDEX: "method=HEAD method=OPTIONS method=get",
    HEALTH: "verbose=1 verbose=True verbose=null",
}
RIGHT = (
    "/api? /api?section=docs&section=docs /api?s%65ction=d%6Fcs /api?section=docs&undocumented=%FF /api?Section=x"
    f" /api?version=v9 {INDEX}?section=x /openapi.json?section=x"
)
GROUPS["query"] = {
    **{
        f"{path}?{query}": Row(
            f"GET {path}?{query}",
            "invalid_parameter",
            {"error.allowed_values": values, "error.details": {"parameter": name}},
        )
        for path, (name, values) in PARAMETERS.items()
        for query in (f"{name}=", f"{name}=x", *WRONG.get(path, "").split())
    },
    **{target: Row(f"GET {target}", 200) for target in RIGHT.split()},
    "of HEAD": Row("HEAD /api?section=x", "invalid_parameter"),
    "of OPTIONS": Row("OPTIONS /api?section=x", 204),
}

READABLE = [
    "/api",
    "/api/versioning",
    "/openapi.json",
    *(version.base_path for version in PUBLISHED.values()),
    *(f"{version.base_path}/health" for version in PUBLISHED.values()),
]
PATHS = dict.fromkeys(READABLE, "GET, HEAD, OPTIONS") | dict.fromkeys(CONTACT_PATHS, "POST, OPTIONS")
"""Every path of the service, and its methods."""
GROUPS["method"] = {
    f"{method} {path}": Row(
        f"{method} {path}",
        (204 if method == "OPTIONS" else 200) if method in allow else "method_not_allowed",
        fields={"Allow": allow if method == "OPTIONS" or method not in allow else None},
    )
    for path, allow in PATHS.items()
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "PROPFIND")
    if not (path in CONTACT_PATHS and method == "POST")
}

UNKNOWN = {
    "not_found": (
        "/ /favicon.ico /static/ /static/openapi.json /openapi.json/ /contact /contact.php/ /contact.php/x"
        f" // //contact.php //api //api\udcb2 /{INDEX} /API /apix /./api /ñ"
    ),
    "endpoint_not_found": (
        f"/api/ /api// /api/{INDEX[4:]} /api/x /api/versioning/ {INDEX}/ {INDEX}//health {HEALTH}/ {CONTACT}/"
        f" {INDEX}/x /api/{FIRST.name.upper()} /api/v {INDEX}x {INDEX}.0 /api/v9x /api/9 /api/../contact.php"
        " /api/v\u0662 /api/v\udcb2"
    ),
    "unsupported_api_version": f"/api/v9 /api/v9/ /api/v9/contact /api/v0 /api/v01/health {INDEX}0 /api/v" + "9" * 1000,
}
"""A lone surrogate stands for a byte that is no UTF-8."""
GROUPS["unknown path"] = {
    **{
        f"{method} {path!a:.30}": Row(f"{method} {path}", code, fields={"Location": None})
        for code, paths in UNKNOWN.items()
        for path in paths.split()
        for method in ("GET", "OPTIONS")
    },
    "with POST": Row("POST /api/v9/contact", "unsupported_api_version", {"error.details": {"supported": [*PUBLISHED]}}),
    **{
        f"without a slash, {method} {path!r}": Row(f"{method} {path}", "invalid_body", reason("http"))
        for path in ("", "*", HEALTH[1:], "contact.php", f"x:{HEALTH[1:]}")
        for method in ("GET", "POST", "OPTIONS")
    },
}

GROUPS["quota"] = {
    "of both paths": Row("POST", "rate_limit", body=typed(), before=(f"{CONTACT_POLICY.quota} POST /contact.php",)),
    "of forms, not spent by others": form(200)._replace(before=("3 OPTIONS /contact.php", "GET /contact.php")),
    "of /api/*, spent by errors": Row("GET /api", "rate_limit_exceeded", before=("59 GET /api/x", "HEAD /api/v9")),
    "of /api/*, on an error": Row("GET /api/x", "rate_limit_exceeded", before=(f"{API_POLICY.quota} GET /api",)),
    "of /api/*, on a form": Row(f"POST {CONTACT}", "rate_limit_exceeded", body=typed(), before=("60 GET /api",)),
    "of /api/*, not on the alias": Row("POST /contact.php", 200, body=typed(), before=("60 GET /api",)),
    "of /api/*, not on the document": Row("GET /openapi.json", 200, before=("60 GET /api",)),
    "of /api/*, not on OPTIONS": Row("OPTIONS /api", 204, before=("61 GET /api",)),
}

LISTED = ["https://www.example.com", "https://shop.example.com:8443", "http://[::1]:3000", "http://localhost"]
LISTING = {"CORS_ORIGINS": f"https://WWW.Example.com:443, {LISTED[1]}, {LISTED[2]}, {LISTED[3]}:80"}
FOREIGN = [
    *("https://evil.example", "http://www.example.com", "https://www.example.com:444", "https://shop.example.com"),
    *("https://www.example.com.evil.example", "https://evil-www.example.com", "https://wwwXexample.com"),
    *("https://www.example.com/", "null", "*", ""),
]
ORIGINS: dict[str, str | None] = {origin: origin for origin in LISTED} | dict.fromkeys(FOREIGN)
ASKED = "content-type, x-a"


def asking(method: str) -> dict[str, str]:
    return {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": ASKED}


def page(request: str, outcome: int | str, origin: str = "null", allowed: str | None = "*", **more: Any) -> Row:
    """A request of a page of another origin, and the origin that is allowed; OPTIONS asks for what the path is for.

    One that is not allowed has its answer without the fields of CORS, which ``hold`` asks of every response.
    """
    path = request.partition(" ")[2]
    headers, fields = {"Origin": origin}, {"Access-Control-Allow-Origin": allowed}
    if request.startswith("OPTIONS"):
        headers |= asking("POST" if path in CONTACT_PATHS else "GET")
        fields["Access-Control-Allow-Methods"] = ", ".join(sorted(PATHS[path].split(", ")))
        fields |= {"Access-Control-Allow-Headers": ASKED, "Access-Control-Max-Age": "86400"}
    return Row(request, outcome, headers=headers, fields=fields if allowed else {}, **more)


GROUPS["page of another origin"] = {
    **{f"asks whether it may use {path}": page(f"OPTIONS {path}", 204) for path in PATHS},
    "asks whether it may read a form": Row("OPTIONS /contact.php", 204, headers=asking("GET")),
    "asks whether it may post to the index": Row("OPTIONS /api", 204, headers=asking("POST")),
    "asks whether it may post to nothing": Row("OPTIONS /x", "not_found", headers={"Origin": "null"} | asking("POST")),
    **{
        f"{origin!r} asks whether it may send": page("OPTIONS /contact.php", 204, origin, allowed, settings=LISTING)
        for origin, allowed in ORIGINS.items()
    },
    "is not listed and reads": page("GET /api", 200, FOREIGN[0], None, settings=LISTING),
    "is listed and reads an error": page("GET /x", "not_found", LISTED[0], LISTED[0], settings=LISTING),
    "reads the index": page("GET /api", 200),
    "reads a refusal": page("POST /contact.php", "invalid_body"),
    "reads why it has to wait": page("GET /api", "rate_limit_exceeded", before=("60 GET /api",)),
}

ENDING = {"API_V1_DEPRECATED_ON": "2030-01-01", "API_V1_SUNSET_ON": "2031-01-01", "API_V1_SUCCESSOR": "/api/v2"}
UNTIL_SUNSET: dict[str, int | str] = {
    f"GET {INDEX}": 200,
    f"HEAD {HEALTH}": 200,
    f"PUT {CONTACT}": "method_not_allowed",
    f"GET {INDEX}?method=PUT": "invalid_parameter",
    f"GET {INDEX}/nothing": "endpoint_not_found",
    f"OPTIONS {INDEX}/nothing": "endpoint_not_found",
    f"POST {CONTACT}": "invalid_body",
}
"""Requests that the version answers while it is deprecated, and no longer after the sunset."""
AT_ALL_TIMES: dict[str, int | str] = {
    f"OPTIONS {CONTACT}": 204,
    "POST /contact.php": "invalid_body",
    "GET /api": 200,
    "GET /openapi.json": 200,
    f"GET {INDEX}0": "unsupported_api_version",
    f"GET {INDEX}x": "endpoint_not_found",
}
GROUPS["version that ends"] = {
    **{asked: Row(asked, outcome, settings=ENDING) for asked, outcome in (UNTIL_SUNSET | AT_ALL_TIMES).items()},
    **{f"{asked}, gone": Row(asked, "api_version_sunset", settings=SUNSET) for asked in UNTIL_SUNSET},
    **{f"{asked}, after it": Row(asked, outcome, settings=SUNSET) for asked, outcome in AT_ALL_TIMES.items()},
    "takes forms": form(200)._replace(settings=ENDING),
    "leaves the alias": Row("POST /contact.php", 200, body=typed(), settings=SUNSET),
    "quota of forms": Row(f"POST {CONTACT}", "rate_limit", settings=ENDING, before=("POST /contact.php",)),
    "quota of /api/*": Row(f"GET {INDEX}", "rate_limit_exceeded", settings=SUNSET, before=(f"60 GET {INDEX}",)),
}

IDENTIFIED = {"X-Request-ID": REQUEST_ID}
GROUPS["request id"] = {
    "of a client": Row("GET /api", 200, headers=IDENTIFIED),
    "of the proxy": Row("GET /api", 200, headers=IDENTIFIED, settings=BEHIND, fields=IDENTIFIED),
    **{
        f"that is none, {given!r}": Row("GET /api", 200, headers={"X-Request-ID": given}, settings=BEHIND)
        for given in ("", "ABC", REQUEST_ID[1:], REQUEST_ID.upper(), f"{VALID['email']:0<32}")
    },
}


def _cases() -> Rows:
    """Every row under its name, those for both contact paths twice."""
    cases: Rows = {}
    for group, rows in GROUPS.items():
        for name, row in rows.items():
            if row.request == "POST":
                cases |= {f"{group}: {name}, {path}": row._replace(request=f"POST {path}") for path in CONTACT_PATHS}
            else:
                cases[f"{group}: {name}"] = row
    return cases


CASES = _cases()
