"""The image of deploy/Containerfile as an operator runs it: its root cannot be written, and its user has no rights."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from app.release import VERSION
from tests.container.podman import IMAGE, RELEASE, STATE, Podman
from tests.exposition import read as read_metrics
from tests.mail.server import SmtpServer, text_of
from tests.pages import CONTAINER
from tests.ports import free_port
from tests.server.gunicorn import PATIENCE
from tests.waiting import wait_until

OTHER_USER = "54321"
"""A user id of which the image knows nothing. Its group is root's, as a daemon gives it."""


def test_the_image_says_how_it_is_run(podman: Podman) -> None:
    assert podman.config["StopSignal"] == "SIGTERM"
    assert list(podman.config["Volumes"]) == [STATE]
    assert podman.user not in {"", "0", "root"}
    assert podman.user.isdigit()  # the manifest's runAsNonRoot takes a number alone


def test_the_page_says_what_the_image_adds_to_its_base(podman: Podman) -> None:
    (megabytes,) = re.findall(r"its base and (\d+) MB", CONTAINER.text)

    assert int(megabytes) == pytest.approx(podman.added / 1e6, abs=3)


def test_an_image_of_another_release_has_its_files(podman: Podman, tmp_path: Path) -> None:
    """Layers that were built for the release before are used again only where they are the same."""
    podman.build("another", "another")
    with podman.serving(tmp_path / "log", {}, image="another") as container:
        assert f"Public web interface {VERSION}+another\n" in container.server.log


@pytest.mark.parametrize("user", ["", OTHER_USER], ids=["its own user", "another user"])
def test_a_form_goes_in_and_a_message_comes_out(podman: Podman, tmp_path: Path, user: str) -> None:
    with SmtpServer() as mail_server, podman.serving(tmp_path / "log", mail_server.environ, user=user) as container:
        assert container.run("stat", "--format", "%u", "/proc/1") == (user or podman.user)
        assert "Read-only file system" in container.run("sh", "-c", "touch /tmp/file 2>&1", status=1)

        assert container.server.post_form()[0].status == 200
        assert container.run("flask", "mail", "status").startswith("OK")
        container.run(*podman.health_check)
        assert container.stop() == 0
    (arrival,) = mail_server.arrivals
    assert "María Ñúñez" in text_of(arrival)
    assert f"Public web interface {VERSION}+{RELEASE}\n" in container.server.log
    assert "metrics" not in container.server.log


def test_nobody_is_healthy_who_does_not_serve(podman: Podman) -> None:
    environ = f"--env=BIND=:{free_port()}"
    podman("run", "--rm", "--network=host", environ, IMAGE, *podman.health_check, status=1)


def test_a_kept_message_is_delivered_by_the_next_container_of_the_volume(podman: Podman, tmp_path: Path) -> None:
    with SmtpServer() as mail_server:
        environ = mail_server.environ
    with podman.serving(tmp_path / "log", environ, volume="kept") as container:
        assert container.server.post_form()[0].status == 500
    with mail_server, podman.serving(tmp_path / "log", environ, volume="kept") as container:
        # The service tries it again at its start.
        wait_until(lambda: not any((container.volume / "mail" / "new").iterdir()))

    (arrival,) = mail_server.arrivals
    assert "María Ñúñez" in text_of(arrival)


def test_a_form_under_way_is_answered_before_the_container_stops(podman: Podman, tmp_path: Path) -> None:
    arrived, told = Event(), Event()

    def hold() -> None:
        arrived.set()
        assert told.wait(PATIENCE)

    with (
        SmtpServer(on_message=hold) as mail_server,
        podman.serving(tmp_path / "log", mail_server.environ) as container,
        ThreadPoolExecutor(2) as visitor_and_daemon,
    ):
        answer = visitor_and_daemon.submit(container.server.post_form)
        assert arrived.wait(PATIENCE)
        stopped = visitor_and_daemon.submit(container.stop)
        container.server.wait_for("Handling signal: term")
        told.set()

        assert answer.result()[0].status == 200
        assert stopped.result() == 0
    assert len(mail_server.arrivals) == 1


def test_metrics_and_shared_limits_need_only_their_settings(podman: Podman, tmp_path: Path) -> None:
    port = free_port()
    environ = {"METRICS_BIND": f"0.0.0.0:{port}", "RATE_LIMIT_STORAGE": f"redis://127.0.0.1:{free_port()}"}
    with podman.serving(tmp_path / "log", environ):
        assert f'service_info{{version="{VERSION}+{RELEASE}"}} 1' in read_metrics(f"127.0.0.1:{port}")
