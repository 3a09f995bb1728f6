"""Fixtures that every folder of the tests uses."""

import gc
import logging.config
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import freezegun
import hypothesis
import pytest
from flask import Flask

from app import create_app
from app.logs import logging_config

# Before they are imported: otherwise their assertions fail without the values.
pytest.register_assert_rewrite(
    *("tests.api", "tests.client", "tests.contact", "tests.deploy", "tests.fuzz", "tests.mail", "tests.messages"),
    *("tests.monitoring", "tests.mta", "tests.ratelimit", "tests.redis", "tests.server", "tests.browser"),
)

from tests.client import ValidatingClient
from tests.factories import make_limits, make_settings
from tests.fakes import RecordingMailer
from tests.mail.server import authority

# Timings decide nothing: a machine may be busy with something else. Only a long run looks for new cases.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    derandomize="FUZZ_CASES" not in os.environ,
    max_examples=max(33, int(os.environ.get("FUZZ_CASES", "0")) // 8),
)
hypothesis.settings.load_profile("any machine")

# A time zone with a summer time, half an hour from any other, for the tests and the gunicorns that they start. So local
# time never passes for UTC.
os.environ["TZ"] = "LHST-10:30LHDT-11,M10.1.0,M4.1.0"
time.tzset()

# A leaked socket is reported when it is collected: so what a test has made is collected at its end, and seldom before.
gc.set_threshold(200_000)

# pytest measures how long a test takes by its own clock, which goes on while the test holds the time.
freezegun.configure(extend_ignore_list=["_pytest.timing"])

MakeApp = Callable[..., Flask]
MakeClient = Callable[..., ValidatingClient]
Configure = Callable[..., None]
LogLines = Callable[[], list[str]]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process for each core, and one because tests wait, too; chosen files are done before workers have started."""
    return 0 if all(Path(given.partition("::")[0]).is_file() for given in config.args) else (os.cpu_count() or 1) + 1


def runs(*command: str) -> bool:
    """Whether a program is there and succeeds."""
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@cache
def is_here(facility: str) -> bool:
    """Whether this machine has what the mark ``needs`` of a test names."""
    match facility:
        case "/proc":
            return Path("/proc/self/fdinfo").is_dir()
        case "mount namespaces":
            return runs("unshare", "--map-root-user", "--mount", "true")
        case "network namespaces":
            return runs("unshare", "--map-root-user", "--net", "true")
        case program:
            return shutil.which(program) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks; CI, which must have all, fails."""
    if missing := [it for mark in item.iter_markers("needs") for it in mark.args if not is_here(it)]:
        reason = f"this machine lacks {', '.join(missing)}"
        pytest.fail(reason, pytrace=False) if "CI" in os.environ else pytest.skip(reason)


@pytest.fixture(autouse=True)
def _a_leak_is_reported_at_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    request.node.funcargs.clear()  # pytest itself lets go of them later
    gc.collect(1)


@pytest.fixture
def mailer() -> RecordingMailer:
    return RecordingMailer()


@contextmanager
def making_apps(mail_dir: Path, mailer: RecordingMailer) -> Iterator[MakeApp]:
    """Makes apps from environment variables; collaborators may be passed as ``create_app`` takes them.

    Their limits are those of the tests; ``{"limits": None}`` leaves an app its own. ``first_check`` is how many seconds
    it may take until mail has been checked once.
    """
    apps = []

    def make(*, collaborators: dict[str, Any] | None = None, first_check: float = 30, **environ: str) -> Flask:
        settings = make_settings(mail_dir, **environ)
        usual: dict[str, Any] = {"mailer": mailer, "limits": make_limits()}
        app = create_app(settings, **(usual | (collaborators or {})))
        app.config["PROPAGATE_EXCEPTIONS"] = False
        app.test_client_class = ValidatingClient
        app.extensions["background"].start(wait=first_check)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.extensions["background"].stop()


@pytest.fixture
def make_app(tmp_path: Path, mailer: RecordingMailer) -> Iterator[MakeApp]:
    with making_apps(tmp_path / "mail", mailer) as make:
        yield make


@pytest.fixture
def make_client(make_app: MakeApp) -> MakeClient:
    def make(**kwargs: Any) -> ValidatingClient:
        return cast("ValidatingClient", make_app(**kwargs).test_client())

    return make


@pytest.fixture
def client(make_client: MakeClient) -> ValidatingClient:
    return make_client()


@pytest.fixture
def configure_logging(tmp_path: Path) -> Iterator[Configure]:
    """Configures logging from environment variables as the service does, until the test is over."""
    names = ("", "app.test", "flask_cors", "gunicorn.access", "gunicorn.error", "werkzeug")
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in map(logging.getLogger, names)]

    def configure(**environ: str) -> None:
        logging.config.dictConfig(logging_config(make_settings(tmp_path / "mail", **environ)))

    yield configure
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture
def log_lines(capfd: pytest.CaptureFixture[str]) -> LogLines:
    """The lines that have been logged since the last call."""

    def lines() -> list[str]:
        captured = capfd.readouterr()
        assert captured.out == ""
        return captured.err.splitlines()

    return lines


@pytest.fixture(scope="session")
def authority_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    certificate = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority().cert_pem.write_to_path(certificate)
    return certificate


@pytest.fixture
def _trusted_authority(authority_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is started from here on trusts the mail servers of the tests, and no others.

    To read the authorities that the system trusts takes longer than most tests that deliver a message.
    """
    monkeypatch.setenv("SSL_CERT_FILE", str(authority_file))
