"""The load generator wrk. Each request comes from another client address."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """The result of wrk: the requests, their times in milliseconds, and the number without a 2xx or 3xx response."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def load(port: int, path: str, *, method: str = "GET", connections: int = 16, seconds: int = 1) -> Load:
    """Send requests for a while; raises RuntimeError when one fails."""
    script = str(Path(__file__).with_suffix(".lua"))
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=60s", "-s", script, f"http://127.0.0.1:{port}"]
    output = subprocess.check_output(["wrk", *options, "--", method, path], text=True)
    seen = Load(**json.loads(output.splitlines()[-1]))
    if seen.failed or not seen.requests:
        raise RuntimeError(f"{path}: {output}")
    return seen
