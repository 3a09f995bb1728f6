"""Requests and their answers, as data: what is sent under which settings, and what comes back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, product
from typing import Any, NamedTuple
from urllib.parse import urlencode

from werkzeug.test import Client, TestResponse

from tests.attack.inputs import BODIES as COSTLY
from tests.client import DOCUMENT
from tests.factories import REQUEST_ID, SUNSET, WRONG_BODY

NOW = "2030-05-01T12:00:00.5"
"""When each row is asked."""
MS = int(datetime.fromisoformat(NOW).replace(tzinfo=UTC).timestamp() * 1000)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CONTACT = ("/api/v1/contact", "/contact.php")
LIMIT = 64 * 1024
KINDS = ["demo", "ventas", "onboarding", "distribuidor"]
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
ACCEPTED = "Hemos recibido su mensaje. Nuestro equipo comercial se pondrá en contacto con usted."
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
    mail_fails: bool = False
    sends: int | None = None
    """Messages; one where a POST is answered 200."""
    says: str = ""
    """A part of the message's text."""

    @property
    def status(self) -> int:
        return self.outcome if isinstance(self.outcome, int) else STATUSES[self.outcome]

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
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def sent_headers(self) -> dict[str, str]:
        """Those of a client that is no test client: with the type of the body."""
        return self.headers | ({"Content-Type": self.content_type} if self.body and self.content_type else {})

    @property
    def is_under_v1(self) -> bool:
        return f"{self.path}/".startswith("/api/v1/")

    @property
    def earlier(self) -> Iterator[Row]:
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
        return self.method == "POST" and self.path in CONTACT and not refused_before

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
        query_string=row.query,
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
    return Row("POST", outcome, answer or {}, typed(**changes), mail_fails=outcome == "mail_delivery_failed")


def reason(name: str) -> dict[str, Any]:
    return {"error.details": {"reason": name}}


def raw(outcome: int | str, body: bytes, content_type: str | None = JSON, why: str | None = None, **more: Any) -> Row:
    """A body as it is; of an error its reason."""
    return Row("POST /contact.php", outcome, reason(why) if why else {}, body, content_type, **more)


def faulty(*names: str) -> dict[str, Any]:
    return {"error.details.fields": {*names}}


TEXTS: dict[str, int] = {
    name: field["maxLength"]
    for name, field in DOCUMENT["components"]["schemas"]["ContactRequest"]["properties"].items()
    if "maxLength" in field and not field.keys() & {"pattern", "format"}
}
"""The fields that may have any text, and how long the document lets it be."""
LINES = ["ñ" * 49] * 100
"""Lines of 4,999 characters, with the 99 line breaks between them."""

GROUPS["form"] = {
    **{f"of kind {kind}": form(200, {"message": ACCEPTED}, form_type=kind) for kind in KINDS},
    "of two fields": Row("POST", 200, body=b'{"form_type":"ventas","email":" a@example.com\\n"}'),
    "with null for nothing": form(200, nombre=None, ts=None, captcha_expected=None, captcha_input=None, _bp_check=None),
    "with an empty text for nothing": form(200, nombre="", ts="", captcha_expected="", captcha_input=""),
    "of a browser": Row("POST", 200, {}, urlencode(VALID).encode(), FORM, says="Zoraida Ñúñez"),
    "of a page that knows when it was loaded": form(200, ts=MS - 10_000),
    "with a field of its own": form(200, tema="Precios & más")._replace(says="Precios & más"),
    "with a query": Row("POST /contact.php?section=x&form_type=x", 200, body=typed()),
    "that is not delivered": form("mail_delivery_failed", {"error.details": {"kept": True}}),
    **{f"with the longest {name}": form(200, **{name: "ñ" * length}) for name, length in TEXTS.items()},
    "with texts that are too long": form(
        "invalid_body", faulty(*TEXTS), **{name: "ñ" * (length + 1) for name, length in TEXTS.items()}
    ),
    "with values that are no texts": form(
        "invalid_body", faulty("nombre", "captcha_input", "_bp_check"), nombre=5, captcha_input=5, _bp_check=5
    ),
    **{
        f"with {end!r} in the longest message": form(200, mensaje=f"{end.join(LINES)}!")._replace(says=f"{LINES[0]}!")
        for end in ("\r\n", "\n", "\r")
    },
    "with line breaks and one letter too many": form("invalid_body", faulty("mensaje"), mensaje="\r\n" * 5000 + "x"),
}

TRAPS = ("x", " ", "\t", "\n", "\u00a0", "\u200b", "0")
GROUPS["honeypot"] = {
    **{f"filled with {trap!a}": form(200, {"message": ACCEPTED}, _bp_check=trap)._replace(sends=0) for trap in TRAPS},
    "filled while mail fails": form(200, _bp_check="x")._replace(sends=0, mail_fails=True),
    "filled by a browser": Row("POST", 200, {}, urlencode(VALID | {"_bp_check": " "}).encode(), FORM, sends=0),
}

TOO_FAST: dict[str, tuple[int, str, int]] = {
    "a little too early": (-1_999, "too_early", 30),
    "just rendered": (0, "too_early", 30),
    "28.001 s ahead": (28_001, "too_early", 31),
    "a minute ahead": (60_000, "too_early", 62),
    "3597.999 s ahead": (3_597_999, "too_early", 3600),
    "ages ahead": (7_000_000_000_000, "too_early", 3600),
    "a little too late": (-3_600_001, "expired", 30),
    "a day late": (-86_400_000, "expired", 30),
    "in 1970": (-MS, "expired", 30),
    "before 1970": (-MS - 1, "expired", 30),
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
    **{f"of {ts!r}": form(200, ts=ts) for ts in (MS - 2000, MS - 3_600_000, str(MS - 2000), float(MS - 2000))},
    **{
        f"of {ts!a:.25}": form("invalid_body", faulty("ts"), ts=ts)
        for ts in (1 << 63, -(1 << 63) - 1, str(1 << 63), "9" * 10_000, "\u0661\u0667", True, False, 1.5, "ahora", [0])
    },
}

CAPTCHAS: list[tuple[str | None, str | None, int | str]] = [
    (None, None, 200),
    ("", "", 200),
    ("K7M2Q", "K7M2Q", 200),
    ("K7M2Q", "k7m2q", 200),
    ("K7M2Q", "K7M2R", "bad_captcha"),
    ("K7M2Q", None, "bad_captcha"),
    (None, "K7M2Q", "bad_captcha"),
    ("K7M2Q", "", "bad_captcha"),
    ("K7M2", "K7M2", "bad_captcha"),
    ("K7M2QQ", "K7M2QQ", "bad_captcha"),
    ("ñandú", "ÑANDÚ", 200),
    ("abcd\u03c3", "abcd\u03c2", 200),
    ("aB3dE", "aB3dE ", "bad_captcha"),
    ("aßbcd", "assbcd", "bad_captcha"),
    ("assbcd", "aßbcd", "bad_captcha"),
]
"""The code that was shown and the one that was typed."""
GROUPS["captcha"] = {
    f"{shown!r}, typed {given!r}": form(outcome, captcha_expected=shown, captcha_input=given)
    for shown, given, outcome in CAPTCHAS
}

NO_KINDS: list[Any] = [None, "", "soporte", "DEMO", " demo", 1, True, ["demo"], {"a": "demo"}]
NO_ADDRESSES: list[Any] = [
    None,
    "",
    " ",
    "maria",
    "a@",
    "@b.es",
    "a@b.es, c@d.es",
    "a b@example.com",
    5,
    ["a@b.es"],
    {},
]
GROUPS["required field"] = {
    **{
        f"form_type {value!r}": form("invalid_form_type", {"error.allowed_values": KINDS}, form_type=value)
        for value in NO_KINDS
    },
    **{f"email {value!r}": form("invalid_email", email=value) for value in NO_ADDRESSES},
    "no form_type": Row("POST", "invalid_form_type", body=b'{"email":"a@example.com"}'),
    "no email": Row("POST", "invalid_email", body=b'{"form_type":"demo"}'),
    "email of 32,600 combining marks": raw("invalid_email", COSTLY["email: marks in descending class"][1]),
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
    "quota under /api": Row("POST /api/v1/x", "rate_limit_exceeded", settings=SUNSET, before=("60 GET /api",)),
    "sunset": Row("POST /api/v1/x", "api_version_sunset", settings=SUNSET),
    "sunset of a known path": Row("POST /api/v1/health?verbose=x", "api_version_sunset", settings=SUNSET),
    "path": Row("POST /api/x?section=x", "endpoint_not_found"),
    "method": Row("POST /api?section=x", "method_not_allowed"),
    "query": Row("GET /api?section=x", "invalid_parameter"),
}
for _name, (_mended, _outcome) in MENDING.items():
    _wrong = _wrong | _mended
    _row = Row("POST", _outcome, {}, json.dumps(_wrong).encode(), mail_fails=True, sends=0)
    GROUPS["order of the checks"][_name] = _row

_DEMO = b'"form_type":"demo","email":"a@example.com"'
_DEMO_FORM = b"form_type=demo&email=a@example.com"
_NAMES = map("".join, product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=3))


def with_member(text: bytes | str) -> bytes:
    """A JSON body that is valid if the member is."""
    return b"{%s,%s}" % (_DEMO, text.encode() if isinstance(text, str) else text)


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return with_member(b'"x":' + opening * levels + b"1" + closing * levels)


VALID_JSON = {
    "two fields": b"{%s}" % _DEMO,
    "white space around it": b" \r\n\t{%s}\n " % _DEMO,
    "object": with_member('"x":{"a":{"b":[1,{"c":null}]}}'),
    "31 levels below it": nested(31),
    "31 objects below it": nested(31, b'{"":', b"}"),
    "number of 1000 digits": with_member(b'"x":' + b"9" * 1000),
    "readable letters": with_member('"x":"¿Qué tal? 🏦"'),
    "escaped pair of surrogates": with_member(r'"x":"\ud83c\udfe6"'),
    "backslash before a u": with_member(r'"x":"\\ud83c"'),
    "escaped null": with_member(r'"x":"\u0000"'),
    "byte order mark": b"\xef\xbb\xbf{%s}" % _DEMO,
    "7000 members": with_member(b",".join(b'"%x":1' % number for number in range(7000))),
    "the last of two names": b'{"form_type":"soporte",%s}' % _DEMO,
}
INVALID_JSON = {
    "empty": {"nothing": b"", "line end alone": b"\r\n"},
    "syntax": {
        "white space": b" \n ",
        "NaN": with_member('"x":NaN'),
        "Infinity": with_member('"x":[{"a":Infinity}]'),
        "-Infinity": with_member('"x":-Infinity'),
        "1e400": with_member('"x":1e400'),
        "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf{%s}" % _DEMO,
        "UTF-16 without a mark": with_member('"x":1').decode().encode("utf-16-le"),
        "number of 5000 digits": with_member(b'"x":' + b"9" * 5000),
        "trailing text": b"{%s}x" % _DEMO,
        "trailing null": b"{%s}\x00" % _DEMO,
        "leading zero": with_member('"x":01'),
        "cut off": b"{%s" % _DEMO,
        "a form": _DEMO_FORM,
    },
    "encoding": {
        "lone high surrogate": with_member(r'"x":"\ud83c"'),
        "lone low surrogate": with_member(r'"x":"\udfe6"'),
        "lone surrogate in a known field": with_member(r'"nombre":"Mar\ud83c"'),
        "lone surrogate in a value that is replaced": with_member(r'"x":"\ud83c","x":"y"'),
        "lone surrogate in an inner name": with_member(r'"x":[{"\ud83c":1}]'),
        "surrogate in UTF-8": with_member(b'"x":"\xed\xa0\xbc"'),
        "invalid UTF-8": with_member(b'"x":"\xff"'),
        "cut UTF-8": with_member(b'"x":"\xc3"'),
        "Latin-1": with_member('"x":"María"'.encode("latin-1")),
        "UTF-16": with_member('"x":1').decode().encode("utf-16"),
    },
    "nesting": {
        "32 levels below it": nested(32),
        "32 objects below it": nested(32, b'{"":', b"}"),
        # Between what the parser takes and what later steps can walk there must be no gap.
        **{f"{levels} levels": nested(levels) for levels in (450, *range(800, 1001), 30_000)},
        "10,000 objects": nested(10_000, b'{"":', b"}"),
        "30,000 open brackets": b"[" * 30_000,
    },
    "not_an_object": {
        "array": b"[{%s}]" % _DEMO,
        "number": b"1",
        "null": b"null",
    },
}
"""By the reason of the refusal."""
VALID_FORMS = {
    "two fields": _DEMO_FORM,
    "UTF-8 as it is": _DEMO_FORM + "&nombre=María".encode(),
    "percent-encoded UTF-8": _DEMO_FORM + b"&nombre=Mar%C3%ADa+%c3%91",
    "blank values": _DEMO_FORM + b"&nombre=&empresa&_bp_check=&ts=",
    "empty pairs": b"&&" + _DEMO_FORM + b"&&",
    "byte order mark": b"\xef\xbb\xbf" + _DEMO_FORM,
    "percent sign alone": _DEMO_FORM + b"&nombre=100%",
    "10,000 fields": _DEMO_FORM + "".join(f"&{name}=1" for name in islice(_NAMES, 10_000)).encode(),
    "the last of two names": b"form_type=soporte&" + _DEMO_FORM,
}
NO_UTF_8 = {
    "Latin-1": _DEMO_FORM + "&nombre=María".encode("latin-1"),
    "percent-encoded Latin-1": _DEMO_FORM + b"&nombre=Mar%EDa",
    "percent-encoded invalid UTF-8 in a name": _DEMO_FORM + b"&%FF=x",
    "percent-encoded surrogate": _DEMO_FORM + b"&nombre=%ED%A0%BC",
    "UTF-16": _DEMO_FORM.decode().encode("utf-16"),
}
GROUPS["JSON"] = {
    **{name: raw(200, body) for name, body in VALID_JSON.items()},
    **{name: raw("invalid_body", body, JSON, why) for why, rows in INVALID_JSON.items() for name, body in rows.items()},
    "an earlier name does not mend the last": raw("invalid_form_type", with_member('"form_type":"soporte"')),
    "with a name like JSON": raw("invalid_form_type", b'{"{":"x"}')._replace(answer={"error.details": None}),
}
GROUPS["urlencoded"] = {
    **{name: raw(200, body, FORM) for name, body in VALID_FORMS.items()},
    **{name: raw("invalid_body", body, FORM, "encoding") for name, body in NO_UTF_8.items()},
    **{f"of {body!r}": raw("invalid_body", body, FORM, "empty") for body in (b"", b"\n")},
    "an earlier name does not mend the last": raw("invalid_form_type", _DEMO_FORM + b"&form_type=soporte", FORM),
    "nor one that is blank": raw("invalid_form_type", _DEMO_FORM + b"&form_type=", FORM),
    **{
        f"that is {name}": raw("invalid_form_type", body, FORM, "content_type")
        for name, body in {
            "JSON": b"{%s}" % _DEMO,
            "JSON with & and =": b'{"mensaje":"a=b&c","form_type":"demo"}',
            "JSON in quotes, as Windows sends it": b"'{form_type:demo}'",
            "JSON of an editor": b'\xef\xbb\xbf{"form_type":"demo"}',
        }.items()
    },
    "with a brace in a later name": raw("invalid_form_type", b"email=a@example.com&{=x", FORM)._replace(
        answer={"error.details": None}
    ),
}
GROUPS["content type"] = {
    **{
        kind: raw(200, typed(), kind)
        for kind in ("application/json; charset=utf-8", "application/json ;charset=UTF-8", "Application/JSON")
    },
    **{kind: raw(200, _DEMO_FORM, kind) for kind in (f"{FORM}; charset=UTF-8", FORM.upper())},
    **{
        str(kind) or "blank": raw("invalid_body", body, kind, "content_type")
        for kind, body in [
            *[(kind, typed()) for kind in (None, "", ";", "json", "text/json", "application/problem+json", "*/*")],
            *[(kind, _DEMO_FORM) for kind in ("text/plain", "multipart/form-data", "application/json, text/plain")],
        ]
    },
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
        for length in ("abc", "-1", "1.5", "²", "9" * 5000)
    },
}

NO_END: dict[str, Any] = {"version": "v1", "status": "current", "base_path": "/api/v1"}
NO_END |= dict.fromkeys(("deprecated_on", "sunset_on", "successor"))
BASE = "http://localhost"
POLICY = {"limit": 60, "window_seconds": 60, "scope": "ip"}
INDEX: dict[str, Any] = {
    "versions": {"current": "v1", "supported": ["v1"], "deprecated": [], "index": f"{BASE}/api/v1"},
    "rate_limit": POLICY,
    "versioning": {"strategy": "path", "notice_period_days": 180, "policy": f"{BASE}/api/versioning"},
    "contact": {
        "method": "POST",
        "url": f"{BASE}/api/v1/contact",
        "legacy_url": f"{BASE}/contact.php",
        "content_types": [JSON, FORM],
        "form_types": KINDS,
        "rate_limit": POLICY | {"limit": 1, "window_seconds": 30},
    },
    "docs": {
        "openapi": f"{BASE}/openapi.json",
        "endpoints": f"{BASE}/api/v1",
        "versioning": f"{BASE}/api/versioning",
        "health": f"{BASE}/api/v1/health",
    },
}
NAMES = {"name": "Public API", "current_version": "v1", "openapi": f"{BASE}/openapi.json"}
GROUPS["discovery"] = {
    "index": Row("GET /api", 200, {"data": NAMES | INDEX}),
    "index with a name": Row("GET /api", 200, {"data.name": "Pagos Ñandú"}, settings={"API_NAME": "Pagos Ñandú"}),
    **{f"section {name}": Row(f"GET /api?section={name}", 200, {"data": {name: INDEX[name]}}) for name in INDEX},
    "policy": Row(
        "GET /api/versioning",
        200,
        {
            "data.strategy": "path",
            "data.current_version": "v1",
            "data.supported": ["v1"],
            "data.deprecated": [],
            "data.deprecation_process": {"notice_period_days", "after_sunset"},
            "data.deprecation_process.notice_period_days": 180,
            "data.compatibility.3": ...,
            "data.signalling": {"Deprecation", "Sunset", "Link"},
        },
    ),
    "v1": Row("GET /api/versioning?version=v1", 200, {"data": NO_END}),
    "endpoints": Row("GET /api/v1", 200, {"data.version": "v1", "data.endpoints.2.path": "/api/v1/contact"}),
    "endpoints with GET": Row("GET /api/v1?method=GET", 200, {"data.endpoints.1": ..., "data.endpoints.2": None}),
    "endpoints with POST": Row("GET /api/v1?method=POST", 200, {"data.endpoints.0": ..., "data.endpoints.1": None}),
    "health, not verbose": Row("GET /api/v1/health?verbose=false", 200, {"data.details": None}),
    "health, verbose": Row(
        "GET /api/v1/health?verbose=true",
        200,
        {
            "data.details.uptime_seconds": 0,
            "data.details.rate_limit": {"storage": "memory", "status": "ok"},
            "data.details.mail": {"transport", "checked_at", "latency_ms", "undelivered", "server", "storage"},
            "data.details.mail.checked_at": "2030-05-01T12:00:00+00:00",
            "data.details.mail.undelivered": 0,
            "data.details.mail.transport": "smtp",
        },
    ),
}

BEHIND = {"TRUSTED_PROXIES": "1"}
PAY = "https://pay.example.com/base"
OPERATOR = {"PUBLIC_BASE_URL": f"{PAY}/"}
PRIVATE = {"Cache-Control": "private, max-age=300"}
DESCRIBED = {"Link": '</base/openapi.json>; rel="service-desc"'}
ENDING = {"API_V1_DEPRECATED_ON": "2030-01-01", "API_V1_SUNSET_ON": "2031-01-01", "API_V1_SUCCESSOR": "/api/v2"}
DOCUMENTS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    (BASE, PRIVATE, {}),
    ("http://a.example", PRIVATE, {"headers": {"Host": "a.example"}}),
    ("http://b.example", PRIVATE, {"headers": {"X-Forwarded-Host": "b.example"}, "settings": BEHIND}),
    (PAY, {"Cache-Control": "public, max-age=300"}, {"settings": OPERATOR}),
]
"""What the document names as server, who may keep it, and how it is asked for."""
GROUPS["document"] = {
    **{
        f"of {url}": Row("GET /openapi.json", 200, {"servers": [{"url": url}]}, fields=fields, **sent)
        for url, fields, sent in DOCUMENTS
    },
    "of a host that only a proxy may name": Row(
        "GET /openapi.json", 200, {"servers": [{"url": BASE}]}, headers={"X-Forwarded-Host": "c.example"}
    ),
    "that is known": Row("GET /openapi.json", 304, headers={"If-None-Match": "*"}, fields={"ETag": ...}),
    "refused": Row("POST /openapi.json", "method_not_allowed", fields={"Cache-Control": "no-store"}),
    "of the operator, described": Row("HEAD /openapi.json", 200, settings=OPERATOR, fields=DESCRIBED),
    "named by the API": Row("GET /api", 200, settings=OPERATOR, fields=DESCRIBED),
    "named by an error": Row("GET /x", "not_found", {"docs": f"{PAY}/openapi.json"}, settings=OPERATOR),
}

PARAMETERS = {
    "/api": ("section", ["versions", "rate_limit", "versioning", "contact", "docs"]),
    "/api/versioning": ("version", ["v1"]),
    "/api/v1": ("method", ["GET", "POST"]),
    "/api/v1/health": ("verbose", ["true", "false"]),
}
"""The parameter of each path, and what it may be."""
WRONG = {
    "/api": [
        *("section", "section=docs&section=x", "section=x&section=docs", "section=docs&section=", "section=Docs"),
        *("section=name", "section=docs;section=x", "section=docs&undocumented=1&section=DOCS"),
    ],
    "/api/versioning": ["version=v9", "version=1", "version=V1", "version=v01"],
    "/api/v1": ["method=HEAD", "method=OPTIONS", "method=get"],
    "/api/v1/health": ["verbose=1", "verbose=True", "verbose=yes"],
}
RIGHT = (
    "/api? /api?section=docs&section=docs /api?s%65ction=d%6Fcs /api?section=docs&undocumented=%FF /api?Section=x"
    " /api?version=v9 /api?&&=& /api/v1?section=x /api/v1/health?method=x /openapi.json?section=x"
)
WRONG_OF_ALL: tuple[str, ...] = ("{name}=", "{name}=x", "{name}=null", "{name}=%FF", "{name}=%00")
WRONG_OF_ALL += ("{name}={value}%20", "{name}=+{value}", "{name}={value},x")
GROUPS["query"] = {
    **{
        f"{path}?{query}": Row(
            f"GET {path}?{query}",
            "invalid_parameter",
            {"error.allowed_values": values, "error.details": {"parameter": name}},
        )
        for path, (name, values) in PARAMETERS.items()
        for query in (*WRONG[path], *(wrong.format(name=name, value=values[0]) for wrong in WRONG_OF_ALL))
    },
    **{target: Row(f"GET {target}", 200) for target in RIGHT.split()},
    "of HEAD": Row("HEAD /api?section=x", "invalid_parameter"),
    "of OPTIONS": Row("OPTIONS /api?section=x", 204),
}

PATHS = dict.fromkeys(("/api", "/api/versioning", "/api/v1", "/api/v1/health", "/openapi.json"), "GET, HEAD, OPTIONS")
PATHS |= dict.fromkeys(CONTACT, "POST, OPTIONS")
"""Every path of the service, and its methods."""
GROUPS["method"] = {
    f"{method} {path}": Row(
        f"{method} {path}",
        (204 if method == "OPTIONS" else 200) if method in allow else "method_not_allowed",
        fields={"Allow": allow if method == "OPTIONS" or method not in allow else None},
    )
    for path, allow in PATHS.items()
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
    if not (path in CONTACT and method == "POST")
}

UNKNOWN = {
    "not_found": (
        "/ /index.html /favicon.ico /static/ /static/openapi.json /openapi.json/ /contact /contact.php/ /contact.php/x"
        " // //contact.php ///contact.php //api //api\udcb2 //api/v1 /API /apix /api;x /./api /ñ"
    ),
    "endpoint_not_found": (
        "/api/ /api// /api//v1 /api/x /api/versioning/ /api/v1/ /api/v1//health /api/v1/health/ /api/v1/contact/"
        " /api/v1/contact.php /api/v1/x /api/V1 /api/v /api/v/ /api/vx /api/v1x /api/v-1 /api/v1.0 /api/v9x /api/9"
        " /api/x/v9 /api/../contact.php /api/v\u0662 /api/v\udcb2"
    ),
    "unsupported_api_version": (
        "/api/v9 /api/v9/ /api/v9/x /api/v9/contact /api/v0 /api/v01 /api/v01/health /api/v10 /api/v" + "9" * 1000
    ),
}
"""A lone surrogate stands for a byte that is no UTF-8."""
GROUPS["unknown path"] = {
    **{
        f"{method} {path!a:.30}": Row(f"{method} {path}", code, fields={"Location": None})
        for code, paths in UNKNOWN.items()
        for path in paths.split()
        for method in ("GET", "POST", "OPTIONS")
    },
    "with POST": Row("POST /api/v9/contact", "unsupported_api_version", {"error.details": {"supported": ["v1"]}}),
    **{
        f"without a slash, {method} {path!r}": Row(f"{method} {path}", "invalid_body", reason("http"))
        for path in ("", "*", "api", "api/v1/health", "api/v1/contact", "contact.php", "x:api/v1/health")
        for method in ("GET", "POST", "OPTIONS")
    },
}

GROUPS["quota"] = {
    "of both paths": Row("POST", "rate_limit", body=typed(), before=("POST /contact.php",)),
    "of both paths, spent on the other": Row("POST", "rate_limit", body=typed(), before=("POST /api/v1/contact",)),
    "of forms, not spent by others": form(200)._replace(before=("3 OPTIONS /contact.php", "GET /contact.php")),
    "of /api/*, spent by errors": Row("GET /api", "rate_limit_exceeded", before=("59 GET /api/x", "HEAD /api/v9")),
    "of /api/*, on an error": Row("GET /api/x", "rate_limit_exceeded", before=("60 GET /api",)),
    "of /api/*, on a form": Row("POST /api/v1/contact", "rate_limit_exceeded", body=typed(), before=("60 GET /api",)),
    "of /api/*, on a wrong method": Row("GET /api/v1/contact", "rate_limit_exceeded", before=("60 GET /api",)),
    "of /api/*, not on the alias": Row("POST /contact.php", 200, body=typed(), before=("60 GET /api",)),
    "of /api/*, not on the document": Row("GET /openapi.json", 200, before=("60 GET /api",)),
    "of /api/*, not on OPTIONS": Row("OPTIONS /api", 204, before=("61 GET /api",)),
    "of /api/*, before the sunset": Row(
        "GET /api/v1", "rate_limit_exceeded", settings=SUNSET, before=("60 GET /api/v1",)
    ),
    "of forms, after the sunset": Row("POST /api/v1/contact", "api_version_sunset", body=typed(), settings=SUNSET),
}

PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, x-a"}
READING = {"Access-Control-Request-Method": "GET"}
LISTED = ["https://www.example.com", "https://shop.example.com:8443", "http://[::1]:3000", "http://localhost"]
LISTING = {"CORS_ORIGINS": f"https://WWW.Example.com:443, {LISTED[1]}, {LISTED[2]}, {LISTED[3]}:80"}
FOREIGN = [
    *("https://evil.example", "http://www.example.com", "https://www.example.com:444", "https://www.example.com:443"),
    *("https://www.example.com.evil.example", "https://evil-www.example.com", "https://wwwXexample.com"),
    *("https://shop.example.com", "https://www.example.com/", "https://WWW.Example.com", "null", "*", ""),
]


ORIGINS: dict[str, str | None] = {origin: origin for origin in LISTED} | dict.fromkeys(FOREIGN)
SENDING = "OPTIONS /contact.php"


def granted(origin: str | None, methods: str = "") -> dict[str, Any]:
    """What an origin may read that is allowed, and what a preflight grants it."""
    of_preflight = {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": "content-type, x-a",
        "Access-Control-Max-Age": "86400",
    }
    return ({"Access-Control-Allow-Origin": origin} | (of_preflight if methods else {})) if origin else {}


def from_page(request: str, outcome: int | str, origin: str, **more: Any) -> Row:
    """A request of a page, with a preflight's fields if it is one."""
    preflight = PREFLIGHT if "contact" in request else PREFLIGHT | READING
    headers = {"Origin": origin} | (preflight if request.startswith("OPTIONS") else {})
    return Row(request, outcome, headers=headers, **more)


def asking(path: str, origin: str, allowed: str, **more: Any) -> Row:
    """A page asks whether it may use a path, and is granted its methods."""
    methods = ", ".join(sorted(PATHS[path].split(", ")))
    return from_page(f"OPTIONS {path}", 204, origin, fields=granted(allowed, methods), **more)


ALLOWED = granted(LISTED[0])
GROUPS["page of another origin"] = {
    **{f"asks whether it may use {path}": asking(path, "null", "*") for path in PATHS},
    **{
        f"is listed and asks whether it may use {path}": asking(path, LISTED[0], LISTED[0], settings=LISTING)
        for path in PATHS
    },
    "asks whether it may read a form": Row("OPTIONS /contact.php", 204, headers=PREFLIGHT | READING),
    "asks whether it may post to the index": Row("OPTIONS /api", 204, headers=PREFLIGHT),
    "reads the index": from_page("GET /api", 200, "null"),
    **{
        f"{origin!r} reads": from_page("GET /api", 200, origin, settings=LISTING, fields=granted(allowed))
        for origin, allowed in ORIGINS.items()
    },
    **{
        f"{origin!r} sends": from_page(SENDING, 204, origin, settings=LISTING, fields=granted(allowed, "OPTIONS, POST"))
        for origin, allowed in ORIGINS.items()
    },
    "is listed and reads an error": from_page("GET /x", "not_found", LISTED[0], settings=LISTING, fields=ALLOWED),
    "asks whether it may post to nothing": Row("OPTIONS /x", "not_found", headers={"Origin": "null"} | PREFLIGHT),
    "reads an unknown path": from_page("GET /x", "not_found", "null"),
    "reads a refusal": from_page("POST /contact.php", "invalid_body", "null"),
    "reads why it has to wait": from_page("GET /api", "rate_limit_exceeded", "null", before=("60 GET /api",)),
}

GROUPS["version that ends"] = {
    "index": Row(
        "GET /api/v1", 200, settings=ENDING, fields={"Link": f'</api/v2>; rel="successor-version", {SERVICE_DESC}'}
    ),
    "quota of forms": Row("POST /api/v1/contact", "rate_limit", settings=ENDING, before=("POST /contact.php",)),
    "quota of /api/*": Row("GET /api/v1", "rate_limit_exceeded", settings=ENDING, before=("60 GET /api",)),
    "delivery": form("mail_delivery_failed")._replace(settings=ENDING),
    "gone": Row("GET /api/v1", "api_version_sunset", settings=SUNSET),
}

GROUPS["request id"] = {
    "of a client": Row("GET /api", 200, headers={"X-Request-ID": REQUEST_ID}),
    "of the proxy": Row(
        "GET /api", 200, headers={"X-Request-ID": REQUEST_ID}, settings=BEHIND, fields={"X-Request-ID": REQUEST_ID}
    ),
    "that is none": Row("GET /api", 200, headers={"X-Request-ID": "ABC"}, settings=BEHIND),
}


def _cases() -> Rows:
    """Every row under its name, those for both contact paths twice."""
    cases: Rows = {}
    for group, rows in GROUPS.items():
        for name, row in rows.items():
            if row.request == "POST":
                cases |= {f"{group}: {name}, {path}": row._replace(request=f"POST {path}") for path in CONTACT}
            else:
                cases[f"{group}: {name}"] = row
    return cases


CASES = _cases()
