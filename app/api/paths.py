"""Every path of the service, and the rule of the query parameters."""

from dataclasses import dataclass

from flask import request

from app.errors import ApiError, ErrorCode
from app.versions import API_ROOT, Versions

VERSIONING = API_ROOT + "/versioning"
DOCUMENT = "/openapi.json"
LEGACY_CONTACT = "/contact.php"

CONTACT, HEALTH = "/contact", "/health"
"""Below the base path of a version."""


def is_under_api(path: str) -> bool:
    """True for /api and everything below it."""
    return path.startswith(API_ROOT + "/") or path == API_ROOT


def contact_paths(versions: Versions) -> frozenset[str]:
    """Every path that takes contact forms."""
    return frozenset({LEGACY_CONTACT, *(version.base_path + CONTACT for version in versions.values())})


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """An optional query parameter and the values it takes."""

    name: str
    allowed_values: tuple[str, ...]

    def read(self) -> str | None:
        """The last of the values in the current request; raises ApiError invalid_parameter if one is not allowed."""
        values = request.args.getlist(self.name)
        if not all(value in self.allowed_values for value in values):
            details = {"parameter": self.name}
            raise ApiError(ErrorCode.INVALID_PARAMETER, details=details, allowed_values=self.allowed_values)
        return values[-1] if values else None
