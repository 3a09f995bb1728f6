"""The listening sockets of the service."""

import logging
import socket

from app.settings import SettingsError

metrics_listeners: list[socket.socket] = []
"""The socket that listens on METRICS_BIND, if there is one. gunicorn's master opens it for all forked processes, so a
reload never finds the port taken."""

logger = logging.getLogger(__name__)


def open_metrics_listener(address: str, *, beside_another: bool) -> None:
    """Listen on METRICS_BIND, or log an ERROR when the address cannot be used.

    ``beside_another`` accepts that another gunicorn of the same user already listens there.
    """
    try:
        if not beside_another:
            _listen(address, reuse_port=False).close()
        metrics_listeners.append(_listen(address, reuse_port=True))
    except OSError as error:
        logger.error("there are no metrics: %s", _fault("METRICS_BIND", address, error))


def require_free(setting: str, address: str) -> None:
    """Raise SettingsError when this process cannot listen on HOST:PORT, even with SO_REUSEPORT."""
    try:
        _listen(address, reuse_port=False).close()
    except OSError as error:
        another = f"127.0.0.1:{int(address.rpartition(':')[2]) % 65_535 + 1}"
        fault = f"{_fault(setting, address, error)}: set {setting} to another address, such as {another}"
        raise SettingsError([fault]) from error


def _listen(address: str, *, reuse_port: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return socket.create_server((host.strip("[]"), int(port)), family=family, reuse_port=reuse_port)


def _fault(setting: str, address: str, error: OSError) -> str:
    reason = str(error.strerror).partition(" (")[0]  # the rest is the address once more
    return f"{setting}={address!r}: {reason}"
