"""The release that this process runs."""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1]

RELEASE = _FOLDER.name if _FOLDER.parent.name == "releases" else "development"
"""The name of its folder, which deploy/release.sh makes below releases/; a checkout is none."""
