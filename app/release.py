"""The release that this process runs."""

from pathlib import Path

VERSION = "1.0.0"  # by Semantic Versioning; setup.cfg and static/openapi.json take it from here

_FOLDER = Path(__file__).resolve().parents[1]

RELEASE = f"{VERSION}+{_FOLDER.name}" if _FOLDER.parent.name == "releases" else VERSION
"""The version, with the name of the folder that deploy/release.sh created as build metadata; a checkout has none."""
