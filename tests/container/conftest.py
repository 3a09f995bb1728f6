"""The image of the tests in this folder, made once."""

from __future__ import annotations

import pytest

from tests.container.buildah import Buildah


@pytest.fixture(scope="session")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    return Buildah(tmp_path_factory.mktemp("buildah"))
