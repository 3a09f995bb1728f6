"""The addresses at which the service listens: whether it can, and the socket of the metrics."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from app.settings import SettingsError


def address_of(value: str) -> Any:
    """The address that a setting names, as gunicorn has it: the path of a unix socket, or host and port."""
    if value.startswith("unix:"):
        return value.removeprefix("unix:").removeprefix("//")
    host, _, port = value.rpartition(":")
    return host.strip("[]").lower(), int(port)


def require_free(address: str | tuple[str, int], *, shared: bool) -> None:
    """Raise OSError or ValueError when nobody can listen there; ``shared`` takes others who share the address.

    The socket that tries it never listens, so it takes no connection that would be lost with it.
    """
    if isinstance(address, tuple):
        with socket.socket(_family(address)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
            probe.bind(address)
    elif not Path(address).exists():
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(address)
        Path(address).unlink()
    elif not Path(address).is_socket():  # gunicorn replaces a socket
        raise ValueError(f"{address!r} is not a socket")


@cache
def listener(address: tuple[str, int]) -> socket.socket:
    """A socket that listens at the address: one for this process and all that it forks.

    A new program may listen there beside the old one.
    """
    return socket.create_server(address, family=_family(address), reuse_port=True)


def _family(address: tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


@contextmanager
def naming(variable: str, value: str, *, example_port: int) -> Iterator[None]:
    """Turn what stands against listening into a SettingsError that names the variable."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        port = example_port + 1 if value.endswith(f":{example_port}") else example_port
        raise SettingsError(
            [f"{variable}={value!r}: {reason}: set {variable} to another address, such as 127.0.0.1:{port}"]
        ) from error
