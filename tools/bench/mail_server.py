"""A mail server that accepts every message, with or without a delay before each reply."""

import asyncio
import socket
from contextlib import suppress
from functools import partial
from threading import Thread

HANGING = 3_600_000
"""Milliseconds: nobody waits that long for the first reply."""

_REPLIES = {b"EHLO": b"250-sink.example.com\r\n250 PIPELINING\r\n", b"DATA": b"354 go ahead\r\n"}
_OK = b"250 OK\r\n"


def start_mail_server(milliseconds: int = 0) -> dict[str, str]:
    """Start one that delays each reply by this time; returns the settings for a service that uses it."""
    listener = socket.create_server(("127.0.0.1", 0))
    Thread(target=asyncio.run, args=(_serve(listener, milliseconds / 1000),), daemon=True).start()
    return {
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": str(listener.getsockname()[1]),
        "SMTP_SECURITY": "none",
        "SALES_EMAIL": "ventas@example.com",
        "MAIL_FROM": "web@example.com",
    }


async def _serve(listener: socket.socket, delay: float) -> None:
    await (await asyncio.start_server(partial(_talk, delay), sock=listener)).serve_forever()


async def _talk(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client. Commands that arrive together get their replies together, as over a long line."""
    replies = b"220 sink.example.com ESMTP\r\n"
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while replies:
            await asyncio.sleep(delay)
            writer.write(replies)
            if replies.endswith(_REPLIES[b"DATA"]):
                await reader.readuntil(b"\r\n.\r\n")
                replies = _OK
            else:
                commands = (await reader.read(65_536)).splitlines()
                replies = b"".join(_REPLIES.get(command[:4].upper(), _OK) for command in commands)
    writer.close()
