"""One way through the form in WebKitGTK, which has Safari's engine."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from selenium.webdriver import Remote, WebKitGTKOptions
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.servers import Relay, Website
from tests.browser.visitor import FIELDS, PATIENCE, lines_of
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.needs("WebKitWebDriver", "xvfb-run", "dbus-run-session")]


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def webkit() -> Iterator[Remote]:
    """The browser on a screen and in a session of its own."""
    port = free_port()
    command = ["dbus-run-session", "--", "xvfb-run", "--auto-servernum", "WebKitWebDriver", f"--port={port}"]
    with subprocess.Popen(command, process_group=0) as session:
        try:
            wait_until(lambda: is_listening(port))
            driver = RemoteConnection(client_config=ClientConfig(f"http://127.0.0.1:{port}"))
            with Remote(driver, options=WebKitGTKOptions()) as webkit:
                yield webkit
        finally:
            os.killpg(session.pid, signal.SIGTERM)


def test_a_visitor_mends_sends_and_comes_back(
    webkit: Remote, website: Website, relay: Relay, mail_server: SmtpServer
) -> None:
    def part(name: str) -> WebElement:
        return webkit.find_element(By.CSS_SELECTOR, f"[data-part={name}]")

    def field(name: str) -> WebElement:
        return webkit.find_element(By.NAME, name)

    def sees(name: str, text: str) -> None:
        WebDriverWait(webkit, PATIENCE / 1000).until(lambda _: part(name).is_displayed() and text in part(name).text)

    webkit.get(website.address(relay.server_port))
    part("submit").click()
    sees("faults", "Escriba su nombre.")
    assert webkit.switch_to.active_element == part("faults")

    webkit.find_element(By.CSS_SELECTOR, "[value=ventas]").click()
    for name, value in FIELDS.items():
        field(name).send_keys(value)
    webkit.execute_script("Math.random = () => 0;")
    part("renew").click()
    field("captcha_input").send_keys("aaaaa")
    part("submit").click()
    sees("end-title", "Hemos recibido su solicitud")
    lines = lines_of(mail_server)
    assert "Nombre: María Ñúñez" in lines
    assert lines[-1].startswith("Quisiera una demostración.")  # the driver types no line breaks

    webkit.get("about:blank")
    webkit.back()
    sees("reference", lines[0].removeprefix("Referencia: "))
    webkit.refresh()
    sees("reference", lines[0].removeprefix("Referencia: "))
    part("correct").click()
    sees("note", "Esta solicitud corrige el correo")
    assert field("nombre").get_attribute("value") == FIELDS["nombre"]
