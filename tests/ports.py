"""Ports for the servers of the tests."""

import socket
import weakref


def reserve_port(owner: object) -> int:
    """A port that is the owner's as long as it lives: nobody else is given it, also while nobody listens there.

    A socket that does not listen keeps it. So a server can still bind it with SO_REUSEADDR, as all of ours do.
    """
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    weakref.finalize(owner, reservation.close)
    port: int = reservation.getsockname()[1]
    return port


def free_port() -> int:
    """A port for a server that is told its port. Nobody else is given it while this process lives."""
    return reserve_port(free_port)
