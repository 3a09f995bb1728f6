"""The rivals of the service, each written in its usual way; all return the same document."""

DOCUMENT = {
    "ok": True,
    "data": {
        "status": "ok",
        "version": "v1",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "checks": {"api": "ok", "mail": "ok"},
    },
}
"""The health document. It is smaller than the versioning policy and so costs a rival less."""
