"""The versions of the API and their life cycle: current, deprecated, sunset."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Self

from app.settings import Settings

API_ROOT = "/api"

V1 = "v1"
"""The first version; the legacy contact path has the same contract."""

DEPRECATION = "true"
"""The Deprecation field's value in the specification; RFC 9745 as published wants a date."""


class Status(StrEnum):
    """The state of a version in its life cycle."""

    CURRENT = "current"
    DEPRECATED = "deprecated"
    SUNSET = "sunset"


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """A version's announced end; both dates begin at midnight UTC."""

    deprecated_on: date
    sunset_on: date
    successor: str


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the API."""

    name: str
    lifecycle: Lifecycle | None

    @property
    def base_path(self) -> str:
        """The path that every endpoint of the version begins with."""
        return f"{API_ROOT}/{self.name}"

    def status(self) -> Status:
        """The state of the version now."""
        today = datetime.fromtimestamp(time.time(), UTC).date()
        if self.lifecycle is None or today < self.lifecycle.deprecated_on:
            return Status.CURRENT
        return Status.DEPRECATED if today < self.lifecycle.sunset_on else Status.SUNSET


class Versions(dict[str, Version]):
    """The registry: every version ever published, by its name, oldest first. The last one is current."""

    def __init__(self, *versions: Version) -> None:
        super().__init__({version.name: version for version in versions})
        self.current = versions[-1]

    @classmethod
    def from_settings(cls, settings: Settings, names: Iterable[str]) -> Self:
        """The registry of these versions; the settings announce the end of v1."""
        lifecycle = None
        if settings.api_v1_deprecated_on and settings.api_v1_sunset_on and settings.api_v1_successor:
            lifecycle = Lifecycle(settings.api_v1_deprecated_on, settings.api_v1_sunset_on, settings.api_v1_successor)
        return cls(*(Version(name, lifecycle if name == V1 else None) for name in names))

    @property
    def supported(self) -> list[str]:
        """The versions that are served now."""
        return [name for name, version in self.items() if version.status() is not Status.SUNSET]

    @property
    def deprecated(self) -> list[str]:
        """The versions that are served now and have an announced end."""
        return [name for name, version in self.items() if version.status() is Status.DEPRECATED]

    def at(self, path: str) -> Version | None:
        """The version that a path belongs to; None outside of all versions."""
        return next((version for version in self.values() if f"{path}/".startswith(f"{version.base_path}/")), None)
