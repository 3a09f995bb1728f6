"""Fixtures of the tests that need Postfix."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mta.postfix import PATIENCE
from tests.server.gunicorn import ROOT, Server, serving

Serve = Callable[[Mapping[str, str]], AbstractContextManager["Service"]]


@dataclass(frozen=True)
class Service:
    """The service as it is started in production, and its operator."""

    server: Server
    environ: Mapping[str, str]

    def post(self, **fields: Any) -> int:
        """The status that a visitor with an address of its own is answered."""
        return self.server.new_client().post_form(**fields)[0].status

    def mail(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run ``flask mail`` with the settings of the service."""
        return subprocess.run(
            [sys.executable, "-m", "flask", "--app", "wsgi", "mail", command],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "MAIL_DIR": str(self.server.mail_dir), **self.environ},
            capture_output=True,
            text=True,
            timeout=5 * PATIENCE,  # what waits is sent at its pace
            check=False,
        )


@pytest.fixture
def serve(tmp_path: Path, authority_file: Path) -> Serve:
    """Runs the service under the settings of a mail server, whose authority it trusts."""

    @contextmanager
    def serve(environ: Mapping[str, str]) -> Iterator[Service]:
        environ = {"SSL_CERT_FILE": str(authority_file), **environ}
        with serving(tmp_path, **environ) as server:
            yield Service(server, environ)

    return serve
