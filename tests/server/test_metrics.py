"""The metrics of the real gunicorn, as they are read at METRICS_BIND."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.contact.submission import FORM_TYPES
from app.mail.kept import State
from tests.exposition import Samples, read
from tests.factories import contact_body
from tests.mail.scripted import Act, ScriptedServer
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.server.gunicorn import GUNICORN, PATIENCE, ROOT, Server, newest_worker, serving, start
from tests.server.test_redelivery import HURRIED, store
from tests.waiting import wait_until

OUT_OF_REACH = "redis://127.0.0.1:1"
"""With it several workers are allowed. Each of them limits by itself."""

SECRET = "ana.garcia"

_CLIENTS = (f"192.0.{third}.{fourth}" for third, fourth in itertools.product(range(2, 256), range(256)))


class Watched(NamedTuple):
    """A service and the address of its metrics."""

    server: Server
    address: str

    def samples(self) -> Samples:
        return Samples.of(self.address)

    def ask(
        self, method: str, path: str, body: Any = None, *, client: str | None = None, **headers: str
    ) -> http.client.HTTPResponse:
        """Send a request, from a new client unless one is given; what is no text goes as JSON."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if content is not None else {}
        given = {"X-Forwarded-For": client or next(_CLIENTS)} | kind | headers
        return self.server.request(method, path, content, given)[0]


@contextmanager
def watching(directory: Path, **environ: str) -> Iterator[Watched]:
    address = f"127.0.0.1:{free_port()}"
    with serving(directory, METRICS_BIND=address, TRUSTED_PROXIES="1", **environ) as server:
        yield Watched(server, address)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    with ExitStack() as stack:
        yield lambda **environ: stack.enter_context(watching(tmp_path, **environ))


@pytest.fixture(scope="module")
def relay() -> Iterator[SmtpServer]:
    with SmtpServer() as relay:
        yield relay


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, relay: SmtpServer) -> Iterator[Watched]:
    """A service that most tests share. Its pauses are short."""
    hurried = {"GUNICORN_CMD_ARGS": HURRIED, "RETRY_SECONDS": "1"}
    with watching(tmp_path_factory.mktemp("watched"), **relay.environ | hurried) as watched:
        yield watched


@pytest.fixture
def broken(relay: SmtpServer) -> Iterator[Callable[..., None]]:
    """Gives the mail server other replies, until the test ends."""

    def answer(**replies: str) -> None:
        relay.replies.update(replies)

    yield answer
    relay.replies.clear()


class Increase:
    """The growth of a counter since this was made."""

    def __init__(self, watched: Watched, name: str, *labels: str) -> None:
        self._watched = watched
        self._name = name
        self._labels = labels
        self._before = self._total()

    def _total(self) -> dict[tuple[str, ...], float]:
        return self._watched.samples().all(self._name, *self._labels)

    def __call__(self) -> dict[tuple[str, ...], float]:
        gained = {key: value - self._before.get(key, 0) for key, value in self._total().items()}
        return {key: value for key, value in gained.items() if value}


REQUESTS: dict[str, tuple[str, str, tuple[str, str, str, str]]] = {
    "answered": ("GET", "/api/versioning", ("GET", "/api/versioning", "200", "-")),
    "head": ("HEAD", "/openapi.json", ("HEAD", "/openapi.json", "200", "-")),
    "preflight": ("OPTIONS", "/contact.php", ("OPTIONS", "/contact.php", "204", "-")),
    "parameter": ("GET", f"/api?section={SECRET}", ("GET", "/api", "400", "invalid_parameter")),
    "form": ("POST", "/contact.php", ("POST", "/contact.php", "400", "invalid_body")),
    "refused method": ("DELETE", "/api/v1/contact", ("DELETE", "/api/v1/contact", "405", "method_not_allowed")),
    "unknown method": (SECRET.upper(), "/api", ("-", "/api", "405", "method_not_allowed")),
    "unknown path": ("GET", f"/{SECRET}", ("GET", "other", "404", "not_found")),
    "unknown endpoint": ("PUT", f"/api/v1/{SECRET}", ("PUT", "api/other", "404", "endpoint_not_found")),
    "unknown version": ("GET", "/api/v2", ("GET", "api/other", "404", "unsupported_api_version")),
    "hidden file": ("GET", f"/{SECRET}/.env", ("GET", "dotfile", "404", "not_found")),
    "PHP": ("POST", f"/{SECRET}/Login.PHP?x", ("POST", "php", "404", "not_found")),
    "well-known": ("GET", f"/.well-known/{SECRET}", ("GET", "well-known", "404", "not_found")),
    "malformed": ("GET", f"http:/{SECRET}", ("GET", "malformed", "400", "invalid_body")),
}
"""Requests, each with the labels under which it counts."""


@pytest.mark.parametrize(("method", "path", "labels"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_counts_once_under_its_route_status_and_code(
    watched: Watched, method: str, path: str, labels: tuple[str, ...]
) -> None:
    requests = Increase(watched, "http_requests_total", "method", "route", "status", "code")
    durations = Increase(watched, "http_request_duration_seconds_count", "route")

    watched.ask(method, path)

    assert requests() == {labels: 1}
    assert durations() == {(labels[1],): 1}


def test_a_request_that_gunicorn_refuses_counts_as_malformed(watched: Watched) -> None:
    requests = Increase(watched, "http_requests_total", "method", "route", "status", "code")

    with closing(watched.server.connect()) as connection:
        connection.sendall(b"GET / ana\r\n\r\n")
        connection.recv(1000)

    assert requests() == {("GET", "malformed", "400", "invalid_body"): 1}


SUBMISSIONS: dict[str, tuple[Any, tuple[str, str]]] = {
    **{f"a {kind}": (contact_body(form_type=kind, ts=None), (kind, "delivered")) for kind in ("demo", "onboarding")},
    "a honeypot": (contact_body(_bp_check="x", form_type="ventas"), ("ventas", "discarded")),
    "a honeypot of unknown kind": (contact_body(_bp_check="x", form_type=SECRET), ("-", "discarded")),
    "a wrong captcha": (contact_body(captcha_input="xxxxx", ts=None), ("demo", "refused")),
    "too early": (contact_body(ts=0, form_type="distribuidor"), ("distribuidor", "refused")),
    "an unknown kind": (contact_body(form_type=SECRET), ("-", "refused")),
    "a kind of another type": (contact_body(form_type=["demo"]), ("-", "refused")),
    "no JSON": (b"{", ("-", "refused")),
}
"""Bodies, each with the kind and the outcome under which it counts."""


@pytest.mark.parametrize("path", ["/contact.php", "/api/v1/contact"])
@pytest.mark.parametrize(("body", "labels"), SUBMISSIONS.values(), ids=SUBMISSIONS)
def test_a_form_counts_once_under_its_kind_and_outcome(
    watched: Watched, path: str, body: Any, labels: tuple[str, str]
) -> None:
    submissions = Increase(watched, "contact_submissions_total", "form_type", "outcome")

    watched.ask("POST", path, body)

    assert submissions() == {labels: 1}


def test_what_a_quota_refuses_counts_as_a_form_and_under_the_policy(watched: Watched) -> None:
    submissions = Increase(watched, "contact_submissions_total", "form_type", "outcome")
    refusals = Increase(watched, "rate_limit_refusals_total", "policy")
    client = next(_CLIENTS)

    for _ in range(2):
        watched.ask("POST", "/contact.php", b"{", client=client)
    for _ in range(61):
        watched.ask("POST", "/api/v1/contact", b"{", client=client)

    assert submissions() == {("-", "refused"): 63}
    # The first form was counted by the contact quota, and the last one was refused by the other quota.
    assert refusals() == {("contact",): 61, ("api",): 1}


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
def test_only_a_post_is_a_form(watched: Watched, method: str) -> None:
    submissions = Increase(watched, "contact_submissions_total", "form_type", "outcome")

    watched.ask(method, "/contact.php", b"{")

    assert submissions() == {}


def test_without_a_mail_server_a_form_is_stored(watch: Callable[..., Watched]) -> None:
    watched = watch()

    watched.ask("POST", "/contact.php", contact_body())

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("demo", "stored"): 1}
    assert not any(name.startswith("mail_places") for name in samples.names())


def test_durations_are_in_seconds(watch: Callable[..., Watched]) -> None:
    reply = 0.2
    with ScriptedServer(seconds_per_reply=reply) as relay:
        watched = watch(**relay.environ)
        begun = time.perf_counter()
        assert watched.ask("POST", "/contact.php", contact_body()).status == 200
        passed = time.perf_counter() - begun

    samples = watched.samples()
    request = samples.sum("http_request_duration_seconds_sum", route="/contact.php")
    assert reply < samples.sum("mail_handover_duration_seconds_sum", outcome="delivered") < request < passed


class TestMail:
    def test_a_form_that_fails_is_handed_over_again_and_both_are_counted(
        self, watched: Watched, broken: Callable[..., None]
    ) -> None:
        submissions = Increase(watched, "contact_submissions_total", "form_type", "outcome")
        retries = Increase(watched, "mail_retries_total", "outcome")
        handovers = Increase(watched, "mail_handover_duration_seconds_count", "outcome")
        broken(RCPT="451 4.3.0 later")

        assert watched.ask("POST", "/contact.php", contact_body()).status == 500
        wait_until(lambda: ("waiting",) in retries())
        broken(RCPT="250 2.1.5 ok")
        wait_until(lambda: ("delivered",) in retries())

        assert submissions() == {("demo", "failed"): 1}
        assert retries()["delivered",] == 1
        assert handovers() == {("failed",): 1 + retries()["waiting",], ("delivered",): 1}

    def test_a_message_that_is_neither_delivered_nor_kept_is_lost(self, watch: Callable[..., Watched]) -> None:
        with ScriptedServer({"RCPT": "451 4.3.0 later"}) as relay:
            watched = watch(**relay.environ)
            watched.ask("POST", "/contact.php", contact_body())
            assert watched.samples().sum("mail_messages_lost_total") == 0
            mail_dir = watched.server.mail_dir
            mail_dir.rename(mail_dir.with_name("away"))
            mail_dir.touch()

            watched.ask("POST", "/contact.php", contact_body())

            assert watched.samples().sum("mail_messages_lost_total") == 1

    def test_what_has_not_happened_yet_is_zero(self, watch: Callable[..., Watched], relay: SmtpServer) -> None:
        """Prometheus sees an increase from the second value on."""
        samples = watch(**relay.environ).samples()

        forms = itertools.product((*FORM_TYPES, "-"), ("delivered", "stored", "discarded", "refused", "failed"))
        outcomes = {("delivered",), ("waiting",), ("in_doubt",), ("refused",), ("given_up",)}
        assert _labels(samples, "contact_submissions_total", "form_type", "outcome") == {*forms}
        assert "mail_messages_lost_total" in samples.names()
        assert _labels(samples, "rate_limit_refusals_total", "policy") == {("api",), ("contact",)}
        assert _labels(samples, "mail_retries_total", "outcome") == outcomes
        assert _labels(samples, "mail_handover_duration_seconds_count", "outcome") == {("delivered",), ("failed",)}

    @pytest.mark.parametrize(
        ("replies", "outcome"),
        [({"MAIL": "550 5.7.1 no"}, "refused"), ({"message": Act.DROP}, "in_doubt")],
        ids=["refused", "in doubt"],
    )
    def test_a_retry_counts_under_the_state_that_the_message_has_then(
        self, watch: Callable[..., Watched], tmp_path: Path, replies: dict[str, str], outcome: str
    ) -> None:
        store(tmp_path / "mail", messages=1)
        with ScriptedServer(replies) as relay:
            watched = watch(**relay.environ, GUNICORN_CMD_ARGS=HURRIED, RETRY_SECONDS="1")
            wait_until(lambda: watched.samples().all("mail_retries_total", "outcome") == {(outcome,): 1})

    def test_messages_are_counted_by_their_state_and_the_oldest_has_an_age(
        self, watch: Callable[..., Watched], tmp_path: Path
    ) -> None:
        begun = time.time()
        store(tmp_path / "mail", messages=3)
        with ScriptedServer({"MAIL": "451 4.3.0 later"}) as relay:
            watched = watch(**relay.environ)
            wait_until(lambda: watched.samples().all("mail_messages", "state") == {("waiting",): 3})
            first = watched.samples().sum("mail_oldest_message_age_seconds", state="waiting")
            assert 0 < first < time.time() - begun
            wait_until(lambda: watched.samples().sum("mail_oldest_message_age_seconds", state="waiting") > first)

            labels = {key for (key,) in _labels(watched.samples(), "mail_messages", "state")}

        assert labels == {state.replace(" ", "_") for state in State}

    def test_the_checks_of_server_and_storage_are_told_apart(
        self, watched: Watched, broken: Callable[..., None]
    ) -> None:
        wait_until(lambda: watched.samples().all("mail_check_success", "check") == {("server",): 1, ("storage",): 1})

        broken(connect="421 4.3.2 busy", NOOP="421 4.3.2 busy")

        wait_until(lambda: watched.samples().all("mail_check_success", "check") == {("storage",): 1})

    def test_places_and_waiting_room_are_shown_while_all_threads_wait(self, watch: Callable[..., Watched]) -> None:
        """And nobody else waits for the metrics."""
        with ThreadPoolExecutor(3) as visitors, ScriptedServer({"MAIL": Act.HANG}) as relay:
            watched = watch(**relay.environ, THREADS="4", SMTP_TIMEOUT="60")
            for _ in range(3):
                visitors.submit(watched.ask, "POST", "/contact.php", contact_body())

            wait_until(lambda: watched.samples().sum("mail_waiting_room_in_use") == 1)
            samples = watched.samples()

        places = ("mail_places", "mail_places_in_use", "mail_waiting_room", "mail_waiting_room_in_use")
        assert [samples.sum(name) for name in places] == [2, 2, 1, 1]


def _labels(samples: Samples, name: str, *labels: str) -> set[tuple[str, ...]]:
    return {tuple(given[label] for label in labels) for sample, given, _ in samples if sample == name}


class TestLimits:
    def test_the_clients_that_the_process_remembers_are_counted(self, watch: Callable[..., Watched]) -> None:
        watched = watch()

        for _ in range(3):
            watched.ask("GET", "/api")
        watched.ask("POST", "/contact.php", b"{")

        clients = {("api",): 3, ("contact",): 1}
        wait_until(lambda: watched.samples().all("rate_limit_clients", "policy") == clients)

    @pytest.mark.parametrize(
        ("environ", "storage", "in_reach"),
        [({}, "memory", 1), ({"RATE_LIMIT_STORAGE": OUT_OF_REACH}, "redis", 0)],
        ids=["memory", "out of reach"],
    )
    def test_the_storage_is_in_reach_or_not(
        self, watch: Callable[..., Watched], environ: dict[str, str], storage: str, in_reach: int
    ) -> None:
        samples = watch(**environ).samples()

        assert _labels(samples, "rate_limit_storage_in_reach", "storage") == {(storage,)}
        assert samples.sum("rate_limit_storage_in_reach") == in_reach


class TestWorkers:
    COUNT = 3
    REQUESTS = 40

    @pytest.fixture
    def several(self, watch: Callable[..., Watched]) -> Watched:
        watched = watch(WORKERS=str(self.COUNT), RATE_LIMIT_STORAGE=OUT_OF_REACH)
        self.wait_for_seats(watched, self.COUNT)
        return watched

    @staticmethod
    def wait_for_seats(watched: Watched, number: int) -> None:
        """Return once so many workers show what memory they take. The one that answers may be killed meanwhile."""

        def seats() -> int:
            with suppress(OSError):
                return len(watched.samples().all("process_resident_memory_bytes", "pid"))
            return 0

        wait_until(lambda: seats() == number)

    @staticmethod
    def wait_for_the_next(watched: Watched, gone: int) -> None:
        """Return once another worker has taken the place of this one."""
        wait_until(lambda: newest_worker(watched.server.log) != gone and not Path(f"/proc/{gone}").exists())
        watched.server.wait_until_it_answers()

    @staticmethod
    def count(watched: Watched) -> float:
        samples = watched.samples()
        count = samples.sum("http_requests_total", route="/api/versioning")
        assert samples.sum("http_request_duration_seconds_count", route="/api/versioning") == count
        return count

    def ask_all(self, watched: Watched) -> None:
        with ThreadPoolExecutor(8) as pool:
            statuses = [answer.status for answer in pool.map(self._ask, [watched] * self.REQUESTS)]
        assert statuses == [200] * self.REQUESTS

    @staticmethod
    def _ask(watched: Watched) -> http.client.HTTPResponse:
        return watched.ask("GET", "/api/versioning")

    def test_whoever_answers_has_the_numbers_of_all(self, several: Watched) -> None:
        self.ask_all(several)

        with ThreadPoolExecutor(8) as pool:
            counts = list(pool.map(self.count, [several] * 16))

        assert counts == [self.REQUESTS] * 16

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
    def test_the_numbers_of_a_worker_outlive_it(self, several: Watched, end: int) -> None:
        self.ask_all(several)
        gone = newest_worker(several.server.log)

        os.kill(gone, end)
        self.wait_for_the_next(several, gone)
        self.wait_for_seats(several, self.COUNT)
        self.ask_all(several)

        assert self.count(several) == 2 * self.REQUESTS

    def test_the_state_of_a_worker_ends_with_it(self, several: Watched) -> None:
        """gunicorn's first process clears its seat, although no other worker takes it."""
        several.server.process.send_signal(signal.SIGTTOU)

        self.wait_for_seats(several, self.COUNT - 1)

    def test_the_places_of_all_are_added_up(self, watch: Callable[..., Watched], relay: SmtpServer) -> None:
        watched = watch(**relay.environ, WORKERS="2", THREADS="8", RATE_LIMIT_STORAGE=OUT_OF_REACH)

        wait_until(lambda: watched.samples().all("mail_places") == {(): 8})

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP])
    def test_no_counter_goes_back_and_no_file_is_added_however_many_workers_end(
        self, watch: Callable[..., Watched], tmp_path: Path, end: int
    ) -> None:
        runtime = tmp_path / "run"
        runtime.mkdir()
        watched = watch(RUNTIME_DIRECTORY=str(runtime))
        scraped = [self.count(watched)]
        for _ in range(4):
            watched.ask("GET", "/api/versioning")
            gone = newest_worker(watched.server.log)
            os.kill(watched.server.process.pid if end == signal.SIGHUP else gone, end)
            wait_until(lambda gone=gone: newest_worker(watched.server.log) != gone)  # type: ignore[misc]
            scraped.append(self.count(watched))
            self.wait_for_the_next(watched, gone)
            scraped.append(self.count(watched))

        assert scraped == sorted(scraped)
        assert scraped[-1] == 4
        # The next worker of a reload begins before the last one ends.
        assert {file.stem for file in runtime.rglob("counter_*.db")} <= {"counter_0", "counter_1"}

    def test_the_memory_of_each_worker_shows(self, several: Watched) -> None:
        memory = several.samples().all("process_resident_memory_bytes", "pid")

        assert memory.keys() == {(str(seat),) for seat in range(self.COUNT)}
        assert all(1e7 < size < 1e9 for size in memory.values())


class TestPrivacy:
    def test_nothing_that_a_client_sends_shows(self, watched: Watched) -> None:
        body = contact_body(email=f"{SECRET}@example.com", nombre=SECRET, extra={SECRET: SECRET})
        for method, path, _ in REQUESTS.values():
            watched.ask(method, path, body, Origin=f"https://{SECRET}.example", Referer=SECRET)
        watched.ask("POST", "/contact.php", body, client="203.0.113.77")

        page = read(watched.address)

        assert SECRET not in page.lower()
        assert "203.0.113" not in page

    def test_they_are_not_on_the_public_address_nor_is_the_service_on_theirs(self, watched: Watched) -> None:
        assert watched.ask("GET", "/metrics").status == 404
        host, _, port = watched.address.partition(":")
        with closing(http.client.HTTPConnection(host, int(port), PATIENCE)) as connection:
            connection.request("GET", "/api/v1/health")
            assert b"http_requests_total" in connection.getresponse().read()
            connection.request("POST", "/contact.php", json.dumps(contact_body()))
            assert connection.getresponse().status == 501


class TestStart:
    def test_without_the_extra_it_stops_with_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['prometheus_client'] = None\n")

        process, log_file = start(tmp_path, METRICS_BIND="127.0.0.1:0", PYTHONPATH=str(tmp_path))

        assert process.wait(60) != 0
        (line,) = log_file.read_text().splitlines()
        assert line.startswith("METRICS_BIND is set: requires the extra [metrics], ")
        assert line.endswith("pip install --require-hashes -r requirements-metrics.txt")

    def test_an_address_that_is_taken_stops_it(self, tmp_path: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            process, log_file = start(tmp_path, METRICS_BIND=address)

            assert process.wait(60) != 0

        assert log_file.read_text().splitlines()[-1] == (
            f"METRICS_BIND='{address}': Address already in use: set METRICS_BIND to another address, such as"
            " 127.0.0.1:9110"
        )

    def test_a_runtime_directory_that_cannot_be_written_stops_it_with_one_line(self, tmp_path: Path) -> None:
        process, log_file = start(tmp_path, METRICS_BIND="127.0.0.1:0", RUNTIME_DIRECTORY=str(tmp_path / "missing"))

        assert process.wait(60) != 0
        assert log_file.read_text().splitlines()[-1] == (
            f"METRICS_BIND is set: its files cannot be in {tmp_path}/missing: No such file or directory"
        )

    def test_an_app_that_is_loaded_before_the_workers_stops_it(self, tmp_path: Path) -> None:
        """Its numbers would be in no file, and nobody would miss them."""
        process, log_file = start(tmp_path, METRICS_BIND="127.0.0.1:0", GUNICORN_CMD_ARGS="--preload")

        assert process.wait(60) != 0
        assert log_file.read_text().splitlines()[-1] == "METRICS_BIND is set: gunicorn counts nothing with --preload"

    def test_a_worker_without_metrics_does_not_load_their_library(self, tmp_path: Path) -> None:
        program = "import sys, wsgi; sys.exit('prometheus_client' in sys.modules)"
        environ = {"PATH": os.environ["PATH"], "MAIL_DIR": str(tmp_path)}

        assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, check=False).returncode == 0

    def test_the_flask_command_has_nothing_to_serve_and_works(self, tmp_path: Path) -> None:
        environ = {"PATH": os.environ["PATH"], "MAIL_DIR": str(tmp_path), "METRICS_BIND": "127.0.0.1:1"}
        command = [sys.executable, "-m", "flask", "--app", "wsgi", "mail", "list"]

        result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)

        assert (result.returncode, result.stderr) == (0, "0 undelivered\n")

    @pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
    def test_the_files_lie_in_the_runtime_directory_until_it_ends(
        self, watch: Callable[..., Watched], tmp_path: Path, end: signal.Signals
    ) -> None:
        runtime = tmp_path / "run"
        runtime.mkdir()
        # A short time to stop: a SIGQUIT at the wrong moment blocks the worker until gunicorn kills it.
        server = watch(RUNTIME_DIRECTORY=str(runtime), SMTP_TIMEOUT="1").server
        (directory,) = runtime.iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        assert [*directory.glob("counter_0.db")]

        server.process.send_signal(end)
        server.process.wait(PATIENCE)

        assert [*runtime.iterdir()] == []


class TestFullDisk:
    """Where the files of the metrics are. The kernel would end a process that writes to a file without room."""

    SMALL = 'mount -t tmpfs -o size={size}k tmpfs "$0" && exec "$@"'

    def serving(self, directory: Path, size: int) -> AbstractContextManager[Server]:
        runtime = directory / "run"
        runtime.mkdir()
        disk = ("unshare", "--map-root-user", "--mount", "sh", "-c", self.SMALL.format(size=size), str(runtime))
        environ = {"METRICS_BIND": f"127.0.0.1:{free_port()}", "RUNTIME_DIRECTORY": str(runtime)}
        return serving(directory, command=(*disk, *GUNICORN), **environ)

    @staticmethod
    def fill(directory: Path) -> None:
        with (directory / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(4096))

    def test_the_service_starts_without_metrics(self, tmp_path: Path) -> None:
        with self.serving(tmp_path, size=64) as server:
            assert server.request("GET", "/api")[0].status == 200
            server.wait_for("this worker has no metrics")
            assert server.log.count("this worker has no metrics until the next start: ") == 1

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP])
    def test_the_service_outlives_a_worker(self, tmp_path: Path, end: int) -> None:
        with self.serving(tmp_path, size=1000) as server:
            first = newest_worker(server.log)
            self.fill(Path(f"/proc/{server.process.pid}/root{tmp_path}/run"))
            os.kill(server.process.pid if end == signal.SIGHUP else first, end)
            wait_until(lambda: newest_worker(server.log) != first and not Path(f"/proc/{first}").exists())
            server.wait_until_it_answers()

            assert server.request("GET", "/api")[0].status == 200
            assert "SIGBUS" not in server.log


@pytest.mark.parametrize(
    ("folder", "release"),
    [("releases/20261124T014400Z-73bd0d6", "20261124T014400Z-73bd0d6"), ("source", "development")],
)
def test_the_release_shows_in_the_start_line_and_in_the_metrics(tmp_path: Path, folder: str, release: str) -> None:
    for part in ("app", "static"):
        shutil.copytree(ROOT / part, tmp_path / folder / part)
    for file in ("wsgi.py", "gunicorn.conf.py"):
        shutil.copy(ROOT / file, tmp_path / folder)
    (tmp_path / "current").symlink_to(folder)  # the unit follows it once, when it starts
    command = ("sh", "-c", f"cd -P {tmp_path}/current && exec {sys.executable} -m gunicorn")
    environ = {"METRICS_BIND": f"127.0.0.1:{free_port()}", "WORKERS": "2", "RATE_LIMIT_STORAGE": OUT_OF_REACH}

    with serving(tmp_path, command=command, **environ) as server:
        pages = [Samples.of(environ["METRICS_BIND"]) for _ in range(5)]

    assert server.log.count(f"Public web interface, release {release}\n") == 1
    assert [page.all("service_info", "version") for page in pages] == [{(release,): 1}] * 5


def test_a_client_that_sends_nothing_keeps_nobody_waiting(watched: Watched) -> None:
    host, _, port = watched.address.partition(":")
    with closing(socket.create_connection((host, int(port)))):
        assert watched.samples().sum("python_info") == 1


def test_a_client_that_sends_byte_by_byte_has_a_deadline(watched: Watched) -> None:
    """A worker that stops would wait for it."""
    host, _, port = watched.address.partition(":")
    deadline = time.monotonic() + PATIENCE
    with closing(socket.create_connection((host, int(port)))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        client.settimeout(0.1)
        while time.monotonic() < deadline:
            try:
                client.sendall(b"x")
                client.recv(1)
            except TimeoutError:
                continue
            except OSError:
                pass
            return
    pytest.fail("it may go on for ever")
