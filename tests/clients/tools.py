"""All tools whose clients are tried."""

from __future__ import annotations

from tests.clients.openapi_generator import generate as openapi_generator
from tests.clients.typescript import generate as typescript

TOOLS = [*openapi_generator.TOOLS, *typescript.TOOLS]
