"""The document and the running service, held to each other by schemathesis."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.client import DOCUMENT
from tests.contact.reading import hold
from tests.fuzz.cases import BOUNDED, LONGER_CASES
from tests.server.gunicorn import ROOT, serving

CONFIG = Path(__file__).with_name("schemathesis.toml")
PHASES = {"examples": "success", "coverage": "success", "fuzzing": "success", "stateful": "skip"}
"""The document has no links to follow: no answer names a resource that another request could be about."""


def test_every_operation_keeps_to_its_document(tmp_path: Path) -> None:
    with serving(tmp_path, TRUSTED_PROXIES="1") as server:
        run = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG),
                *("run", f"http://127.0.0.1:{server.port}/openapi.json", "--checks", "all"),
                *("--max-examples", str(LONGER_CASES), "--report-json-path", "report.json"),
                *(("--generation-deterministic",) if BOUNDED else ()),
            ],
            cwd=tmp_path,
            # hypothesis keeps its tables of characters there; to make them takes as long as 200 requests.
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert {name: phase["status"] for name, phase in report["phases"].items()} == PHASES
    # It leaves out the address that it reads the document from.
    documented = sum(map(len, DOCUMENT["paths"].values())) - 1
    assert report["operations"]["tested"] == report["operations"]["total"] == documented
    assert report["test_cases"]["generated"] >= 500
    assert "unhandled" not in server.log
    stored = list((server.mail_dir / "new").iterdir())
    assert stored
    for path in stored:
        hold(path.read_bytes().replace(b"\n", b"\r\n"))
