"""GETs with the whole contract: limits, CORS, versions, an id and a log line for each request.

All serialise a document for each request; that of the rivals never changes. The usual stack is Flask with
Flask-Limiter, flask-cors and ProxyFix. It uses the moving window, because only that one is as exact as the limits of
this service. In memory it forgets no client and slows down as more come. The fixed window beside it is the default of
Flask-Limiter and of slowapi. It admits up to twice the quota when one window ends and the next begins.

All but FastAPI run under one gunicorn worker of 32 threads, bound to one core, with one connection for each request, as
this service has it. wrk keeps 16 connections busy from another core, where nginx runs, too. Each request comes from the
next of 100,000 client addresses. "CPU" is the processor time per request of the server alone, without nginx. Other work
on the machine disturbs it less than it disturbs requests per second. What the metrics cost is less than the noise of a
turn: it is the median of 40 pairs of turns. The lowest and the highest of the rounds are in brackets.

The service has Flask's own hooks, flask-cors, ProxyFix, the log of the standard library, and thirteen ordinary fields
in each response: a GET costs that much more than one of bare Flask. flask-cors alone takes a tenth of the processor
time. Where the goal is missed, this is the price of plain code.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Bar, Chart, Findings, Goal, figure, spread
from bench.machine import cpu_seconds
from bench.rounds import interleaved
from bench.servers import RIVALS, Server, free_port, gunicorn, nginx, php_fpm, proxy, service, uvicorn
from bench.wrk import load

PAIRS = 40

HEALTH = "/api/v1/health"
VERSIONING = "/api/versioning"

OURS_VERSIONING = "this service, GET /api/versioning"
OURS_HEALTH = "this service, GET /api/v1/health"
OURS_WATCHED = "this service, GET /api/versioning, METRICS_BIND"
OURS_SILENT = "this service, GET /api/versioning, LOG_LEVEL=warning"
OURS_BEHIND_NGINX = "nginx, this service, GET /api/v1/health"
BARE = "bare Flask"
RAW = "raw WSGI"
USUAL = "the usual stack, moving window"
USUAL_FIXED = "the usual stack, fixed window"
FASTAPI = "FastAPI with slowapi, fixed window, uvicorn"
LEGACY = "nginx, PHP-FPM with a lock file per client"


@dataclass(frozen=True)
class Contestant:
    """The address of the requests, and the process whose processor time is measured."""

    port: int
    path: str
    pid: int


class Turn(NamedTuple):
    """The figures of one turn."""

    per_second: float
    cpu_microseconds: float


def measure(directory: Path) -> Findings:
    """Run the section."""
    with ExitStack() as stack:
        contestants = _start(stack, directory)
        turns = {name: partial(_take_turn, contestant) for name, contestant in contestants.items()}
        results = interleaved(turns)
        pairs = interleaved({name: turns[name] for name in (OURS_VERSIONING, OURS_WATCHED)}, PAIRS)
    watching = median(
        watched.cpu_microseconds / alone.cpu_microseconds
        for alone, watched in zip(pairs[OURS_VERSIONING], pairs[OURS_WATCHED], strict=True)
    )
    speed = {name: median(turn.per_second for turn in turns) for name, turns in results.items()}
    cost = {name: median(turn.cpu_microseconds for turn in turns) for name, turns in results.items()}

    def ratios(ours: str, rival: str) -> list[float]:
        return [a.per_second / b.per_second for a, b in zip(results[ours], results[rival], strict=True)]

    def ratio(ours: str, rival: str) -> float:
        return median(ratios(ours, rival))

    def cost_ratios(ours: str) -> list[float]:
        return [a.cpu_microseconds / b.cpu_microseconds for a, b in zip(results[ours], results[BARE], strict=True)]

    return Findings(
        columns=["", "requests/s", "x bare Flask", "CPU us/request", "x bare Flask's"],
        rows=[
            [name, figure(speed[name]), spread(ratios(name, BARE)), figure(cost[name]), spread(cost_ratios(name))]
            for name in contestants
        ],
        goals=[
            Goal("GET /api/versioning against bare Flask", ratio(OURS_VERSIONING, BARE), 0.55, "x", True),
            Goal("GET /api/versioning against the usual stack", ratio(OURS_VERSIONING, USUAL), 2.5, "x", True),
            Goal("CPU of GET /api/versioning with metrics against without", watching, 1.05, "x"),
        ],
        charts=[
            Chart(
                "GET, requests per second",
                "requests/s",
                [Bar(name, value, name.find("this service") >= 0) for name, value in speed.items()],
            )
        ],
    )


def _start(stack: ExitStack, directory: Path) -> dict[str, Contestant]:
    def direct(path: str, server: Server) -> Contestant:
        return Contestant(server.port, path, server.pid)

    ours = stack.enter_context(service(directory / "service"))
    metrics = {"METRICS_BIND": f"127.0.0.1:{free_port()}"}
    watched = stack.enter_context(service(directory / "watched", environ=metrics))
    silent = stack.enter_context(service(directory / "silent", environ={"LOG_LEVEL": "warning"}))
    bare = stack.enter_context(gunicorn("bench.rivals.bare_flask:app", directory / "bare"))
    raw = stack.enter_context(gunicorn("bench.rivals.raw_wsgi:app", directory / "raw"))
    usual = stack.enter_context(gunicorn("bench.rivals.usual_stack:moving_window", directory / "usual"))
    fixed = stack.enter_context(gunicorn("bench.rivals.usual_stack:fixed_window", directory / "fixed"))
    fastapi = stack.enter_context(uvicorn("bench.rivals.fastapi_app:app", directory / "fastapi"))
    service_socket, php_socket = directory / "service.sock", directory / "php.sock"
    behind = stack.enter_context(service(directory / "behind", unix=service_socket))
    php = stack.enter_context(php_fpm(php_socket, directory / "php"))
    front = stack.enter_context(nginx(proxy(service_socket), directory / "nginx"))
    legacy_front = stack.enter_context(nginx(_fastcgi(php_socket), directory / "nginx-php"))
    return {
        OURS_VERSIONING: direct(VERSIONING, ours),
        OURS_HEALTH: direct(HEALTH, ours),
        OURS_WATCHED: direct(VERSIONING, watched),
        OURS_SILENT: direct(VERSIONING, silent),
        BARE: direct(HEALTH, bare),
        RAW: direct(HEALTH, raw),
        USUAL: direct(HEALTH, usual),
        USUAL_FIXED: direct(HEALTH, fixed),
        FASTAPI: direct(HEALTH, fastapi),
        OURS_BEHIND_NGINX: Contestant(front.port, HEALTH, behind.pid),
        LEGACY: Contestant(legacy_front.port, HEALTH, php.pid),
    }


def _fastcgi(socket_file: Path) -> str:
    return f"""
    upstream php {{ server unix:{socket_file}; keepalive 8; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:PORT;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {RIVALS}/legacy.php;
            fastcgi_keep_conn on;
            fastcgi_pass php;
        }}
    }}
"""


def _take_turn(contestant: Contestant) -> Turn:
    before = cpu_seconds(contestant.pid)
    seen = load(contestant.port, contestant.path)
    return Turn(seen.per_second, (cpu_seconds(contestant.pid) - before) / seen.requests * 1e6)
