"""Every path of the service."""

from app.versions import API_ROOT, Versions

VERSIONING = API_ROOT + "/versioning"
DOCUMENT = "/openapi.json"
LEGACY_CONTACT = "/contact.php"

CONTACT, HEALTH = "/contact", "/health"  # below the base path of a version


def is_under_api(path: str) -> bool:
    """True for /api and everything below it."""
    return path.startswith(API_ROOT + "/") or path == API_ROOT


def contact_paths(versions: Versions) -> frozenset[str]:
    """Every path that takes contact forms."""
    return frozenset({LEGACY_CONTACT, *(version.base_path + CONTACT for version in versions.values())})
