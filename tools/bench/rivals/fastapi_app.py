"""FastAPI with its usual limiter."""

from typing import Any

from fastapi import FastAPI, Request, Response
from slowapi import Limiter
from slowapi.util import get_remote_address

from tools.bench.rivals import DOCUMENT

limiter = Limiter(key_func=get_remote_address, headers_enabled=True)
app = FastAPI()
app.state.limiter = limiter


@app.get("/api/v1/health")
@limiter.limit("60/minute")
async def get_health(request: Request, response: Response) -> dict[str, Any]:  # noqa: ARG001 - slowapi looks for both
    """The document."""
    return DOCUMENT
