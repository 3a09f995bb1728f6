"""Debian's opendkim as a signer, in a folder and on a loopback port of its own; the system's one is left alone."""

import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mta.postfix import HOST, PATIENCE
from tests.pages import MAIL
from tests.ports import free_port
from tests.waiting import wait_until

KEYS = "/etc/dkimkeys"
PORT = "8891"


def documented(language: str) -> str:
    """The only block in that language of the page's section."""
    (block,) = MAIL.blocks("SPF, DKIM and DMARC", language)
    return block


@dataclass(frozen=True)
class Signer:
    """An opendkim that runs, and the DNS that has its key."""

    port: int
    name: str
    """The name of the record."""
    record: str

    def resolve(self, name: bytes, timeout: float = 0) -> bytes | None:  # noqa: ARG002 - as dkimpy calls it
        """The TXT record of that name."""
        return self.record.encode() if name.decode() == f"{self.name}." else None

    @property
    def milter(self) -> dict[str, str]:
        """The line of the page for Postfix's main.cf, with another port."""
        name, _, value = documented("ini").strip().partition(" = ")
        return {name: value.replace(PORT, str(self.port))}

    def listens(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex((HOST, self.port)) == 0


@contextmanager
def signing() -> Iterator[Signer]:
    """Runs with the lines of the page, in which only the folder and the port are others."""
    # Not in a directory of pytest's: opendkim gives up root, and nobody but their owner can enter those.
    with tempfile.TemporaryDirectory(prefix="opendkim-") as name:
        directory, port = Path(name), free_port()
        directory.chmod(0o711)
        _, *commands = documented("sh").replace(KEYS, name).splitlines()
        subprocess.run(["bash", "-ec", "\n".join(commands)], check=True, timeout=PATIENCE)
        lines = documented("conf").replace(KEYS, name).replace(PORT, str(port))
        # Nothing may change on the way. It would not take a key from below /tmp, which every user may write.
        ours = "Canonicalization simple/simple\nMode s\nUserID opendkim\nRequireSafeKeys no\n"
        (directory / "opendkim.conf").write_text(lines + ours)
        zone, texts = (directory / "web.txt").read_text().split("IN\tTXT", 1)
        (domain,) = re.findall(r"^Domain +(\S+)$", lines, re.MULTILINE)
        signer = Signer(port, f"{zone.strip()}.{domain}", "".join(re.findall(r'"(.*?)"', texts)))
        process = subprocess.Popen(["opendkim", "-f", "-x", str(directory / "opendkim.conf")])
        try:
            wait_until(signer.listens, seconds=PATIENCE)
            yield signer
        finally:
            process.kill()  # it would hear of a gentler end after five seconds, and has nothing to finish
            process.wait(PATIENCE)
