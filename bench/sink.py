"""A mail server in a process of its own. It takes every message, as fast as it can or as slowly as it is told."""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict, Unpack

import trustme

from bench.machine import LOAD_CORE
from bench.servers import process

HOST = "127.0.0.1"


class Behaviour(TypedDict, total=False):
    """The differences from a sink that takes everything in clear and as fast as it can."""

    milliseconds: int
    """Milliseconds between a command and its answer."""
    silent: bool
    """It accepts connections and never answers."""
    secure: bool
    """It offers STARTTLS and AUTH."""


@contextmanager
def sink(directory: Path, **behaviour: Unpack[Behaviour]) -> Iterator[dict[str, str]]:
    """Run a sink; yields the settings with which the service reaches it."""
    secure = behaviour.get("secure", False)
    directory.mkdir(parents=True, exist_ok=True)
    certificate, authority, port_file = (directory / name for name in ("server.pem", "authority.pem", "port"))
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(str(authority))
    issuer.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    command = [
        sys.executable,
        "-m",
        "bench.sink",
        str(port_file),
        "--milliseconds",
        str(behaviour.get("milliseconds", 0)),
    ]
    command += ["--silent"] * behaviour.get("silent", False) + ["--certificate", str(certificate)] * secure
    with process(command, directory, LOAD_CORE, ready=port_file.exists):
        yield {
            "SMTP_HOST": HOST,
            "SMTP_PORT": port_file.read_text(),
            "SMTP_SECURITY": "starttls" if secure else "none",
            "SMTP_USERNAME": "web" if secure else "",
            "SMTP_PASSWORD": "correct horse" if secure else "",
            "SALES_EMAIL": "ventas@example.com",
            "MAIL_FROM": "web@example.com",
            "SSL_CERT_FILE": str(authority),
        }


class _Dialogue:
    """The dialogue with one client."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, arguments: argparse.Namespace
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._delay = arguments.milliseconds / 1000
        self._tls = None
        if arguments.certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(arguments.certificate)

    async def hold(self) -> None:
        """Answer commands until the client leaves."""
        self._say(b"220 sink.example.com ESMTP")
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while (verb := (await self._reader.readuntil(b"\r\n"))[:4].upper()) != b"QUIT":
                await self._obey(verb)
        self._writer.close()

    async def _obey(self, verb: bytes) -> None:
        match verb:
            case b"EHLO":
                offers = [b"STARTTLS", b"AUTH PLAIN"] if self._tls else []
                self._say(b"".join(b"250-%b\r\n" % name for name in (b"sink.example.com", *offers)) + b"250 PIPELINING")
            case b"STAR" if self._tls:
                self._say(b"220 go ahead")
                await self._writer.start_tls(self._tls)
            case b"AUTH":
                self._say(b"235 welcome")
            case b"DATA":
                self._say(b"354 go ahead")
                await self._reader.readuntil(b"\r\n.\r\n")
                self._say(b"250 taken")
            case _:
                self._say(b"250 OK")

    def _say(self, reply: bytes) -> None:
        # A sleep would delay each answer after the one before it. Over a long line, commands that arrive together are
        # answered together.
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._writer.write, reply + b"\r\n")
        else:
            self._writer.write(reply + b"\r\n")


async def _serve(arguments: argparse.Namespace) -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not arguments.silent:
            await _Dialogue(reader, writer, arguments).hold()

    server = await asyncio.start_server(meet, HOST, 0)
    partial = arguments.port_file.with_suffix(".new")
    partial.write_text(str(server.sockets[0].getsockname()[1]))
    partial.rename(arguments.port_file)
    await server.serve_forever()


def main() -> None:
    """Serve until killed; the port goes into a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port_file", type=Path)
    parser.add_argument("--milliseconds", type=int)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--certificate", type=Path)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
