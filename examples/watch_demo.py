"""``make watch-demo``: two minutes of the service as Prometheus sees them, with an outage of the mail server."""  # noqa: INP001 - no package

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.utils import parseaddr
from http import HTTPStatus
from pathlib import Path
from types import FrameType

from app.contact.submission import FORM_TYPES
from docs.draw_watch import Span, Watch, draw
from examples.demo import SIGNALS
from examples.watch_figures import FAILED, PATIENCE, REDELIVERED, Prometheus, View, answers, bands, panels, request
from tests.factories import contact_body
from tests.mail.server import HANG, SmtpServer, parse

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "deploy" / "prometheus"


@contextmanager
def running(command: list[str], log_file: Path, **environ: str) -> Iterator[Callable[[str], re.Match[str]]]:
    """Run a program until the block ends. Yields a function that waits until its log says something."""
    with log_file.open("wb") as log:
        # A process group of its own keeps the terminal's signals away: this process ends the program.
        process = subprocess.Popen(  # noqa: S603 - the program is ours
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environ},
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )

    def wait_for(pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, log_file.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command} has not started:\n{log_file.read_text()}")
            time.sleep(0.05)
        return found

    try:
        yield wait_for
    finally:
        process.terminate()
        process.wait()


class Visitors:
    """They come by chance, as visitors do, each from an address of its own."""

    PER_SECOND = 40
    PAGES = ("/api", "/api/versioning", "/api/v1", "/api/v1/health", "/api/v1?method=POST", "/openapi.json")
    PROBES = ("/.env", "/wp-login.php", "/.git/config", "/admin.php", "/api/v2/contact")

    def __init__(self, port: int) -> None:
        self.port = port
        self._chance = random.Random(17)  # noqa: S311 - the same visitors each time
        self._numbers = itertools.count()
        self._stopped = threading.Event()
        self.owed: list[str] = []
        """The email addresses of the forms that the service has delivered or kept, by its own word."""

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Let them come until the block ends; then all have their answers."""
        with ThreadPoolExecutor(64) as pool:
            arrivals = pool.submit(self._arrive, pool)
            try:
                yield
            finally:
                self._stopped.set()
                arrivals.result()

    def _arrive(self, pool: ThreadPoolExecutor) -> None:
        visits = {self._read: 80, self._probe: 4, self._send: 13, self._mistype: 1, self._spam: 1, self._send_twice: 1}
        while not self._stopped.wait(self._chance.expovariate(self.PER_SECOND)):
            (visit,) = self._chance.choices(list(visits), list(visits.values()))
            pool.submit(visit, next(self._numbers))

    def _read(self, number: int) -> None:
        self._ask("GET", self.PAGES[number % len(self.PAGES)], number)

    def _probe(self, number: int) -> None:
        self._ask("GET", self.PROBES[number % len(self.PROBES)], number)

    def _send(self, number: int) -> None:
        email = f"visitor{number}@example.com"
        status, answer = self._post(number, email=email)
        if status == HTTPStatus.OK or b'"kept":true' in answer:
            self.owed.append(email)

    def _mistype(self, number: int) -> None:
        self._post(number, email="visitor at example.com")

    def _spam(self, number: int) -> None:
        self._post(number, _bp_check="https://spam.example")

    def _send_twice(self, number: int) -> None:
        self._send(number)
        self._send(number)  # refused: one form in 30 s

    def _post(self, number: int, **changes: object) -> tuple[int, bytes]:
        body = contact_body(form_type=FORM_TYPES[number % len(FORM_TYPES)], **changes)
        return self._ask("POST", "/api/v1/contact", number, json.dumps(body).encode())

    def _ask(self, method: str, path: str, number: int, body: bytes | None = None) -> tuple[int, bytes]:
        address = f"198.18.{number // 250 % 256}.{number % 250}"
        headers = {"X-Forwarded-For": address, "Content-Type": "application/json"}
        return request(self.port, method, path, body, headers)


@contextmanager
def outage(relay: SmtpServer) -> Iterator[Callable[[], None]]:
    """The mail server answers nothing any more; once the function is called, its machine refuses connections."""
    is_there = True

    def stop() -> None:
        nonlocal is_there
        is_there = False
        relay.__exit__(None, None, None)
        relay.replies.clear()

    # Nothing hangs after DATA: a message whose fate nobody knows would not be sent again by itself.
    relay.replies.update(dict.fromkeys(("connect", "MAIL", "NOOP"), HANG))
    try:
        yield stop
    finally:
        if is_there:
            stop()
        relay.__enter__()


def shorten(rules: str) -> str:
    """The rules with a second in place of each minute."""
    return re.sub(r"\b(\d+)m\b", r"\1s", rules).replace("* 60\n", "* 1\n")


def configure(directory: Path, metrics_port: int) -> Path:
    """Write the configuration of Prometheus: the shipped one, with this service, and with seconds for minutes."""
    for file in RULES.glob("*.rules.yml"):
        (directory / file.name).write_text(shorten(file.read_text()))
    shipped = (RULES / "prometheus.yml").read_text()
    configuration = directory / "prometheus.yml"
    configuration.write_text(
        re.sub(r"targets: \[.*\]", f'targets: ["127.0.0.1:{metrics_port}"]', re.sub(r": 15s", ": 1s", shipped))
    )
    return configuration


@dataclass(frozen=True)
class Result:
    """The outcome of the demo."""

    watch: Watch
    owed: list[str]
    """The email addresses of the forms that the service has delivered or kept, by its own word."""
    arrived: list[str]
    """Those of the messages that have come to the mail server."""


def run(seconds: float, directory: Path, **environ: str) -> Result:
    """Let it all happen in about so many seconds; ``environ`` changes the settings of the service."""
    with ExitStack() as stack:
        relay = stack.enter_context(SmtpServer())
        settings = {
            "BIND": "127.0.0.1:0",
            "METRICS_BIND": "127.0.0.1:0",
            "TRUSTED_PROXIES": "1",
            "MAIL_DIR": str(directory / "mail"),
            "RUNTIME_DIRECTORY": str(directory),
        }
        gunicorn = [sys.executable, "-m", "gunicorn"]
        said = stack.enter_context(running(gunicorn, directory / "service.log", **relay.environ, **settings | environ))
        visitors = Visitors(int(said(r"Listening at: http://127\.0\.0\.1:(\d+)")[1]))
        metrics = int(said(r"The metrics are at: http://127\.0\.0\.1:(\d+)")[1])
        command = [
            "prometheus",
            f"--config.file={configure(directory, metrics)}",
            f"--storage.tsdb.path={directory / 'figures'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        said = stack.enter_context(running(command, directory / "prometheus.log"))
        port = int(said(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')[1])
        said("Server is ready")
        print(f"The service: http://127.0.0.1:{visitors.port}   Prometheus: http://127.0.0.1:{port}", flush=True)  # noqa: T201
        prometheus = Prometheus(port)
        stack.enter_context(visitors.coming())
        prometheus.wait_for("count_over_time(up[11s]) > 10 and on () absent(ALERTS)")
        begin = time.time()
        time.sleep(seconds / 4)
        hangs = time.time()
        with outage(relay) as stop:
            time.sleep(seconds / 8)
            stop()
            refuses = time.time()
            time.sleep(seconds * 5 / 24)
            prometheus.wait_for('ALERTS{alertname="PublicWebInterfaceMailServerFails", alertstate="firing"}')
            ends = time.time()
        time.sleep(max(0.0, seconds * 0.5 - (ends - hangs)))
        prometheus.wait_for(f"{REDELIVERED} >= {FAILED} and on () absent(ALERTS)")
        time.sleep(max(seconds / 24, begin + seconds - time.time()))
        view = View(prometheus, begin, time.time())
        parts = [
            Span(hangs - begin, refuses - begin, "", "hangs"),
            Span(refuses - begin, ends - begin, "", "is gone"),
        ]
        watch = Watch(
            "An outage of the mail server",
            view.length,
            answers(view, ends - hangs),
            parts,
            bands(view),
            panels(view),
        )
    return Result(watch, visitors.owed, [parseaddr(parse(arrival)["Reply-To"])[1] for arrival in relay.arrivals])


def main() -> None:
    """Run the demo, and leave its picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "watch-demo.svg")
    arguments = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, _leave)
    with tempfile.TemporaryDirectory() as directory:
        result = run(arguments.seconds, Path(directory))
    arguments.picture.parent.mkdir(exist_ok=True)
    arguments.picture.write_text(draw(result.watch))
    for answer in result.watch.answers:
        print(answer.question, answer.words)  # noqa: T201 - for whoever runs it
    print(arguments.picture)  # noqa: T201


def _leave(number: int, _frame: FrameType | None) -> None:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
