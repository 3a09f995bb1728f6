"""The load generator wrk. Each request comes from another client address."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.machine import LOAD_CORE, pinned
from bench.rounds import SECONDS

CLIENTS = 100_000
CONNECTIONS = 16

_next_client = 0


@dataclass(frozen=True)
class Load:
    """The result of wrk: the requests, their times in milliseconds, and the number not answered 2xx or 3xx."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    failed: int

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def command(
    port: int,
    path: str,
    *,
    method: str = "GET",
    seconds: int = SECONDS,
    connections: int = CONNECTIONS,
    pause_ms: int = 0,
) -> list[str]:
    """The command line; each connection waits ``pause_ms`` before a request."""
    options = [
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout=60s",
        "-s",
        str(Path(__file__).with_suffix(".lua")),
    ]
    return ["wrk", *options, f"http://127.0.0.1:{port}", "--", method, path, str(_next_client), str(pause_ms)]


def load(
    port: int,
    path: str,
    *,
    core: int | None = LOAD_CORE,
    pause_ms: int = 0,
    connections: int = CONNECTIONS,
    method: str = "GET",
) -> Load:
    """Send requests for a while; raises RuntimeError when one fails."""
    global _next_client  # noqa: PLW0603 - no address comes again before all others have
    arguments = command(port, path, method=method, connections=connections, pause_ms=pause_ms)
    prefix = [] if core is None else pinned(core)
    output = subprocess.run([*prefix, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout
    seen = Load(**json.loads(output.splitlines()[-1]))
    if seen.failed or not seen.requests:
        raise RuntimeError(f"{path}: {output}")
    _next_client = (_next_client + seen.requests + connections) % CLIENTS  # plus those that were under way at the end
    return seen
