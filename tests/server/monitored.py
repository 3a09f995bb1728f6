"""The service as deploy/monitoring has it watched, and its visitors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.receiver import Receiver
from tests.server.gunicorn import ROOT, Server, serving

FOLDER = ROOT / "deploy" / "monitoring"

WORD = "MARIA-4929"
"""It is in every part of a request that a visitor chooses, in the method of some, too."""

TRACE_ID = "4929abcd" * 4

FIELDS = {"form_type": "demo", "email": f"{WORD}@example.com", "mensaje": WORD, WORD: WORD}
JSON = ("application/json", json.dumps(FIELDS).encode())
FORM = ("application/x-www-form-urlencoded", urlencode(FIELDS).encode())

SPEAKING = dict.fromkeys(
    ("Cookie", "Referer", "User-Agent", "Authorization", "X-Forwarded-For", "X-Real-IP", "Accept", "X-Other"), WORD
) | {
    "Host": f"{WORD}.example",
    "Sentry-Trace": f"{TRACE_ID}-{TRACE_ID[:16]}-1",
    "Traceparent": f"00-{TRACE_ID}-{TRACE_ID[:16]}-01",
    "Baggage": f"sentry-trace_id={TRACE_ID},sentry-release={WORD},other={WORD}",
    "Tracestate": f"other={WORD}",
}


@contextmanager
def watched(directory: Path, name: str, receiver: Receiver) -> Iterator[Server]:
    """The service as this drop-in of deploy/monitoring starts it, which tells the receiver both.

    Its requests fail where they ask for that.

    Sentry's timings are of no use here, and yet some people will ask for them.
    """
    unit = (FOLDER / f"{name}.conf").read_text()
    (command,) = re.findall(r"exec (.*)'$", unit, re.MULTILINE)
    module = command.rpartition(" ")[2].removesuffix(":app")
    timings = 'import sentry_sdk; sentry_sdk.get_client().options["traces_sample_rate"] = 1.0'
    (directory / "monitored.py").write_text(f"from {module} import app\n{timings}\n")
    programs = str(Path(sys.executable).parent)
    words = command.replace(".venv/bin", programs).replace(f"{module}:app", "tests.server.crashing:app").split()
    environ = dict(re.findall(r"([A-Z_]+)=(\S+)", "".join(re.findall("^Environment=(.*\n)", unit, re.MULTILINE))))
    environ["PYTHONPATH"] += f":{directory}"
    environ |= {
        "SENTRY_DSN": receiver.address.replace("://", "://key@") + "/1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    with serving(directory, command=words, **environ) as server:
        yield server


class Visitor:
    """Asks from an address of its own, and chooses WORD wherever it can choose."""

    addresses = (f"127.4.9.{last}" for last in range(2, 255))

    def __init__(self, server: Server) -> None:
        self.address = next(self.addresses)
        self._server = replace(server, client=self.address)

    def ask(
        self,
        crash: str,
        *,
        method: str = "POST",
        path: str = "/contact.php",
        body: tuple[str, bytes] = JSON,
        **fields: Any,
    ) -> tuple[int, str]:
        """The status of the answer, and the id of the request."""
        headers = SPEAKING | {"Content-Type": body[0], "X-Crash": crash} | fields
        response, _ = self._server.request(method, f"{path}?{WORD}", body[1], headers)
        return response.status, str(response.headers["X-Request-ID"])

    def assert_unknown(self, content: bytes) -> None:
        """Nothing of this visitor is in there: no word, no address, and no trace that it claims to be part of."""
        for chosen in (WORD.encode(), TRACE_ID.encode(), bytes.fromhex(TRACE_ID), self.address.encode()):
            assert chosen.lower() not in content.lower()
