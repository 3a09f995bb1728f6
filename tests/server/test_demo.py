"""``make demo``: what it says when it cannot start, and how it ends."""

import signal
import socket
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.server.gunicorn import DEMO, PATIENCE, serving
from tools.demo import create_app, main

REFUSED = {
    "a unix socket": ("BIND", "unix:/run/demo.sock", "the demo needs HOST:PORT, because"),
    "an address that is taken": (
        "BIND",
        "127.0.0.1:{taken}",
        "Address already in use: set BIND to another address",
    ),
    "a port that is taken": ("DEMO_PORT", "{taken}", "Address already in use: set DEMO_PORT to another port"),
    "a fault of the service's settings": ("THREADS", "0", "expected a number from 1 to 1024"),
}
"""A setting, and what is said of it."""


@pytest.mark.parametrize(("name", "value", "said"), REFUSED.values(), ids=REFUSED)
def test_a_fault_of_the_settings_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        value = value.format(taken=taken.getsockname()[1])
        monkeypatch.setenv("BIND", f"127.0.0.1:{free_port()}")
        monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            main()

    line = str(end.value)
    assert line.startswith(f"{name}={value!r}: {said}")
    assert "\n" not in line


@pytest.mark.parametrize(("host", "status"), [("localhost:8080", 200), ("127.0.0.1:8080", 200), ("evil.example", 400)])
def test_a_name_that_a_foreign_page_points_to_the_demo_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, status: int
) -> None:
    monkeypatch.setenv("MAIL_DIR", str(tmp_path))
    client = create_app().test_client()

    assert [client.get(path, headers={"Host": host}).status_code for path in ("/inbox", "/inbox/x")] == [status] * 2


def test_control_c_ends_the_service_and_the_website(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    environ = {"BIND": f"127.0.0.1:{ports[0]}", "DEMO_PORT": str(ports[1])}

    with serving(tmp_path, command=DEMO, **environ) as server:
        socket.create_connection(("127.0.0.1", ports[1]), PATIENCE).close()
        server.process.send_signal(signal.SIGINT)

        assert server.process.wait(PATIENCE) == 0
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), PATIENCE)
