"""The versions of the service and their paths. Of the tests only test_versions.py and client.ts name a version."""

from app.api import paths
from app.versions import V1
from tools.document import VERSIONS

PUBLISHED = VERSIONS
CURRENT = PUBLISHED.current
FIRST = PUBLISHED[V1]
"""The version whose end the settings announce; the legacy contact path keeps its contract."""
INDEX, HEALTH, CONTACT = (FIRST.base_path + path for path in ("", paths.HEALTH, paths.CONTACT))
"""Those of the first version, which tests ask that are not about versions."""
LEGACY = paths.LEGACY_CONTACT
CONTACT_PATHS = (*(version.base_path + paths.CONTACT for version in PUBLISHED.values()), LEGACY)
