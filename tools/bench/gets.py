"""GETs with the whole contract: limits, CORS, versions, an id and a log line for each request."""

from contextlib import ExitStack
from functools import partial
from statistics import median

from tools.bench.report import Figure
from tools.bench.rounds import interleaved
from tools.bench.servers import HEALTH, gunicorn, service, uvicorn
from tools.bench.wrk import load

VERSIONING = "/api/versioning"
OURS, BARE, USUAL, FASTAPI = "this service", "bare Flask", "the usual stack", "FastAPI with slowapi"


def measure() -> tuple[list[Figure], dict[str, float]]:
    """The figures, and the requests per second of each server."""
    servers = {
        OURS: service(),
        BARE: gunicorn("tools.bench.rivals.bare_flask:app"),
        USUAL: gunicorn("tools.bench.rivals.usual_stack:app"),
        FASTAPI: uvicorn("tools.bench.rivals.fastapi_app:app"),
    }
    with ExitStack() as stack:
        ports = {name: stack.enter_context(server).port for name, server in servers.items()}
        rounds = interleaved({name: partial(_per_second, name, port) for name, port in ports.items()})

    def against(rival: str) -> float:
        return median(each[OURS] / each[rival] for each in rounds)

    figures = [
        Figure(
            "GET against bare Flask",
            against(BARE),
            "x",
            at_least=0.55,
            why_missed="limits, CORS, ids, header fields and a log line come on top of Flask.",
        ),
        Figure(
            "GET against the usual stack, equally exact",
            against(USUAL),
            "x",
            at_least=2,
            why_missed="the usual stack forgets no client, and slows down only after many of them.",
        ),
        Figure("GET against FastAPI with slowapi", against(FASTAPI), "x"),
    ]
    return figures, {name: median(each[name] for each in rounds) for name in servers}


def _per_second(name: str, port: int) -> float:
    return load(port, VERSIONING if name == OURS else HEALTH).per_second
