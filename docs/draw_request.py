"""``python -m docs.draw_request`` draws docs/request.svg: the way of a request, with the errors of each station."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app import API_POLICY, CONTACT_POLICY
from app.api.body import MAX_BODY_BYTES
from app.contact.antispam import MAX_AGE_SECONDS, MIN_AGE_SECONDS
from app.errors import ErrorCode
from docs.svg import box, picture, text

FILE = Path(__file__).with_name("request.svg")


@dataclass(frozen=True)
class Station:
    """A station of the way: its name, its file, the lines about its work, and the answers that leave the way there."""

    name: str
    file: str
    work: tuple[str, ...]
    errors: tuple[ErrorCode, ...] = ()
    success: str = ""
    outside: tuple[tuple[str, str], ...] = ()
    """The places outside of the service that the station uses, in this order, each with its purpose."""


STATIONS = (
    Station(
        "nginx",
        "deploy/nginx/",
        ("TLS; whole requests; each client to one process",),
        (ErrorCode.INVALID_BODY, ErrorCode.INTERNAL_ERROR),
    ),
    Station("gunicorn worker", "app/worker.py", ("reads HTTP, in one of its threads",), (ErrorCode.INVALID_BODY,)),
    Station(
        "Admission",
        "app/api/hooks.py",
        (f"{API_POLICY.quota} requests in {API_POLICY.window_seconds} s per client; sunset of the version",),
        (ErrorCode.RATE_LIMIT_EXCEEDED, ErrorCode.API_VERSION_SUNSET, ErrorCode.INVALID_BODY),
    ),
    Station(
        "Path and method",
        "app/api/errorhandlers.py",
        ("the view of this path and method",),
        (
            ErrorCode.NOT_FOUND,
            ErrorCode.ENDPOINT_NOT_FOUND,
            ErrorCode.UNSUPPORTED_API_VERSION,
            ErrorCode.METHOD_NOT_ALLOWED,
        ),
        success="204 OPTIONS",
    ),
    Station(
        "View",
        "app/api/",
        (
            f"contact: {CONTACT_POLICY.quota} POST in {CONTACT_POLICY.window_seconds} s per client",
            "GET: query parameters, then the answer",
        ),
        (ErrorCode.RATE_LIMIT, ErrorCode.INVALID_PARAMETER),
        success="200 GET",
    ),
    Station(
        "Body",
        "app/api/body.py",
        (f"JSON or form, at most {MAX_BODY_BYTES // 1024} KiB, parsed strictly",),
        (ErrorCode.INVALID_BODY,),
    ),
    Station("Schema", "app/contact/schema.py", ("types and lengths; faults wait for their check",)),
    Station(
        "Contact checks",
        "app/contact/service.py",
        (
            "honeypot: discarded, and answered as if delivered",
            f"age of the form: {MIN_AGE_SECONDS} s to {MAX_AGE_SECONDS // 3600} h; then captcha,",
            "form_type, email, the other fields",
        ),
        (
            ErrorCode.TOO_FAST,
            ErrorCode.BAD_CAPTCHA,
            ErrorCode.INVALID_FORM_TYPE,
            ErrorCode.INVALID_EMAIL,
            ErrorCode.INVALID_BODY,
        ),
        success="200 honeypot",
    ),
    Station("Message", "app/contact/composer.py", ("the e-mail to the sales team, as text and HTML",)),
    Station(
        "Mailer",
        "app/mail/mailer.py",
        ("one deadline; at most half of the threads",),
        (ErrorCode.MAIL_DELIVERY_FAILED,),
        success="200 delivered",
        outside=(("disk", "keeps it until sent"), ("mail server", "takes it: 250")),
    ),
)
ANYWHERE = ErrorCode.INTERNAL_ERROR
"""The error of anything unforeseen."""

WIDTH, MARGIN = 880, 20
LEFT, RIGHT = 168, 532
"""Edges of the stations."""
SUCCESSES = 64
"""The line of the answers without an error."""
ENVELOPE = 600
"""Left edge of the envelope."""
CODE = 18
"""Height of an error code."""
LINE = 17
"""Height of a line about the work."""
GAP = 16
"""Height between two stations."""

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .name { font-size: 14px; font-weight: 600; }
  .work { font-size: 12px; fill: #59636e; }
  .file, .code, .success-text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
  .file { font-size: 11px; fill: #59636e; text-anchor: end; }
  .code { font-size: 12px; }
  .status { font-weight: 600; fill: #cf222e; }
  .success-text { font-size: 11px; fill: #1a7f37; text-anchor: middle; }
  .middle { text-anchor: middle; }
  .station { fill: #f6f8fa; stroke: #d1d9e0; }
  .outside { fill: #ffffff; stroke: #818b98; stroke-dasharray: 4 3; }
  .ends { fill: #ddf4ff; stroke: #54aeff; }
  .envelope { fill: #fff5f5; stroke: #ffb3ad; }
  .way, .success, .failure { fill: none; stroke-width: 1.5; }
  .way { stroke: #0969da; } .success { stroke: #1a7f37; } .failure { stroke: #cf222e; }
  .way-head { fill: #0969da; } .success-head { fill: #1a7f37; } .failure-head { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; stroke: #3d444d; }
    .work, .file { fill: #9198a1; }
    .status { fill: #ff7b72; }
    .success-text { fill: #56d364; }
    .station { fill: #161b22; stroke: #3d444d; }
    .outside { fill: #0d1117; stroke: #656c76; }
    .ends { fill: #0c2d4d; stroke: #1f6feb; }
    .envelope { fill: #2a1416; stroke: #8e2f2f; }
    .way { stroke: #4493f8; } .success { stroke: #3fb950; } .failure { stroke: #f85149; }
    .way-head { fill: #4493f8; } .success-head { fill: #3fb950; } .failure-head { fill: #f85149; }
  }
"""
HEADS = "".join(
    f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path class="{kind}-head" d="M0 0 8 4 0 8z"/></marker>'
    for kind in ("way", "success", "failure")
)


def draw() -> str:
    """The picture as SVG; it suits light and dark pages, because it brings its own background."""
    middle = (LEFT + RIGHT) // 2
    first = MARGIN + 36 + GAP
    stations, end = [], first
    for station in STATIONS:
        stations.append((end, station))
        end += _height(station) + GAP
    end += 12
    elements = [
        box("ends", LEFT, MARGIN, RIGHT - LEFT, 36),
        text("name middle", middle, MARGIN + 23, "Request"),
        box("envelope", ENVELOPE, MARGIN, WIDTH - MARGIN - ENVELOPE, end - 24 - MARGIN),
        text("name", ENVELOPE + 16, MARGIN + 23, "Error envelope"),
        text("file", WIDTH - MARGIN - 16, MARGIN + 23, "app/envelope.py"),
        _arrow("way", f"M{middle} {MARGIN + 36}V{first}"),
    ]
    for top, station in stations:
        bottom = top + _height(station)
        elements += _station(station, top, bottom)
        if station is not STATIONS[-1]:
            elements.append(_arrow("way", f"M{middle} {bottom}V{bottom + GAP}"))
    anywhere = end - 24 - 18
    first_success = next(_axis(top, station) for top, station in stations if station.success)
    elements += [
        *_code(ANYWHERE, anywhere - CODE),
        text("work", ENVELOPE + 16, anywhere, "for anything unforeseen, anywhere"),
        _arrow("success", f"M{SUCCESSES} {first_success}V{end}"),
        _arrow("failure", f"M{(ENVELOPE + WIDTH - MARGIN) // 2} {end - 24}V{end}"),
        box("ends", MARGIN, end, WIDTH - 2 * MARGIN, 56),
        text("name", MARGIN + 16, end + 24, "Response"),
        text("file", WIDTH - MARGIN - 16, end + 24, "app/api/hooks.py"),
        text("work", MARGIN + 16, end + 43, "on every one: the version and its end date, the rest of the quota, CORS"),
    ]
    height = end + 56 + MARGIN
    elements.insert(0, f"<defs>{HEADS}</defs>")
    return picture("The way of a request through the service", STYLE, elements, width=WIDTH, height=height)


def _height(station: Station) -> int:
    return max(38 + LINE * len(station.work) + 58 * bool(station.outside), CODE * len(station.errors) + 14)


def _axis(top: int, station: Station) -> int:
    """The height at which answers leave a station."""
    return top + 28 if station.outside else top + _height(station) // 2


def _station(station: Station, top: int, bottom: int) -> Iterator[str]:
    yield box("station", LEFT, top, RIGHT - LEFT, bottom - top)
    height = 20 + LINE * len(station.work)
    head = top + 23 if station.outside else (top + bottom - height) // 2 + 14
    yield text("name", LEFT + 16, head, station.name)
    yield text("file", RIGHT - 16, head, station.file)
    for number, line in enumerate(station.work):
        yield text("work", LEFT + 16, head + 20 + number * LINE, line)
    width = (RIGHT - LEFT - 48) // 2
    for number, (place, use) in enumerate(station.outside):
        left = LEFT + 16 + number * (width + 16)
        yield box("outside", left, bottom - 56, width, 42)
        yield text("middle", left + width // 2, bottom - 39, f"{number + 1}. {place}")
        yield text("work middle", left + width // 2, bottom - 22, use)
    axis = _axis(top, station)
    if station.success:
        yield f'<path class="success" d="M{LEFT} {axis}H{SUCCESSES}"/>'
        yield text("success-text", (SUCCESSES + LEFT) // 2, axis - 6, station.success)
    if station.errors:
        yield _arrow("failure", f"M{RIGHT} {axis}H{ENVELOPE}")
    first = axis - CODE * len(station.errors) // 2
    for number, code in enumerate(station.errors):
        yield from _code(code, first + number * CODE + 13)


def _code(code: ErrorCode, baseline: int) -> Iterator[str]:
    yield text("code status", ENVELOPE + 16, baseline, str(code.status))
    yield text("code", ENVELOPE + 48, baseline, code)


def _arrow(kind: str, path: str) -> str:
    return f'<path class="{kind}" d="{path}" marker-end="url(#{kind})"/>'


if __name__ == "__main__":
    FILE.write_text(draw())
