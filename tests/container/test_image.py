"""The image of deploy/Containerfile as an operator runs it: its root cannot be written, and its user has no rights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import yaml  # type: ignore[import-untyped]

from app.release import VERSION
from tests.container.buildah import RELEASE, STATE, Buildah
from tests.exposition import read as read_metrics
from tests.mail.server import SmtpServer, text_of
from tests.ports import free_port
from tests.server.gunicorn import PATIENCE, ROOT
from tests.waiting import wait_until

OTHER_USER = "54321"
"""A user id of which the image knows nothing. Its group is root's, as a daemon gives it."""


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    return Buildah(tmp_path_factory.mktemp("buildah"))


def test_the_image_says_how_it_is_run(buildah: Buildah) -> None:
    assert buildah.config["StopSignal"] == "SIGTERM"
    assert list(buildah.config["Volumes"]) == [STATE]
    assert buildah.user not in {"", "0", "root"}
    assert buildah.user.isdigit()  # the manifest's runAsNonRoot takes a number alone


@pytest.mark.parametrize("user", ["", OTHER_USER], ids=["its own user", "another user"])
def test_a_form_goes_in_and_a_message_comes_out(buildah: Buildah, tmp_path: Path, user: str) -> None:
    check_health = buildah.config["Healthcheck"]["Test"][1:]
    with SmtpServer() as mail_server, buildah.serving(tmp_path, mail_server.environ, user=user) as container:
        process = Path(f"/proc/{container.main_process}")
        assert process.stat().st_uid == int(user or buildah.user)
        with pytest.raises(OSError, match="Read-only file system"):
            (process / "root" / "tmp" / "file").touch()

        assert container.server.post_form()[0].status == 200
        assert container.run("flask", "mail", "status").stdout.startswith("OK")
        assert container.run(*check_health).returncode == 0
        assert container.stop() == 0
        assert container.run(*check_health).returncode == 1
    (arrival,) = mail_server.arrivals
    assert "María Ñúñez" in text_of(arrival)
    assert f"Public web interface {VERSION}+{RELEASE}\n" in container.server.log
    assert "metrics" not in container.server.log


def test_a_kept_message_is_delivered_by_the_next_container_of_the_volume(buildah: Buildah, tmp_path: Path) -> None:
    with SmtpServer() as mail_server:
        environ = mail_server.environ
    with buildah.serving(tmp_path, environ) as container:
        assert container.server.post_form()[0].status == 500
    with mail_server, buildah.serving(tmp_path, environ):
        # The service tries it again at its start.
        wait_until(lambda: not any((tmp_path / "mail" / "new").iterdir()))

    (arrival,) = mail_server.arrivals
    assert "María Ñúñez" in text_of(arrival)


def test_a_form_under_way_is_answered_before_the_container_stops(buildah: Buildah, tmp_path: Path) -> None:
    arrived, told = Event(), Event()

    def hold() -> None:
        arrived.set()
        assert told.wait(PATIENCE)

    with (
        SmtpServer(on_message=hold) as mail_server,
        buildah.serving(tmp_path, mail_server.environ) as container,
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


def test_metrics_and_shared_limits_need_only_their_settings(buildah: Buildah, tmp_path: Path) -> None:
    port = free_port()
    environ = {"METRICS_BIND": f"0.0.0.0:{port}", "RATE_LIMIT_STORAGE": f"redis://127.0.0.1:{free_port()}"}
    with buildah.serving(tmp_path, environ):
        assert f'service_info{{version="{VERSION}+{RELEASE}"}} 1' in read_metrics(f"127.0.0.1:{port}")


def test_the_demo_of_compose_shows_what_is_kept(buildah: Buildah, tmp_path: Path) -> None:
    demo = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["demo"]
    port = free_port()
    read = f"import urllib.request as client; print(client.urlopen('http://127.0.0.1:{port}/inbox').read().decode())"
    *mounts, _ = demo["volumes"]
    with buildah.serving(tmp_path, demo["environment"], *mounts) as container:
        assert container.server.post_form()[0].status == 200
        serve = f"{demo['command'].replace('8080', str(port))} & trap 'kill $!' EXIT"
        # It ends when the demo does.
        shown = container.run("sh", "-c", f'{serve}; while kill -0 $! && ! python3 -c "{read}"; do sleep 0.1; done')

    assert "María Ñúñez" in shown.stdout
