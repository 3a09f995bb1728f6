"""What the service is measured against, each the way it is usually written; all answer the same document."""

DOCUMENT = {
    "ok": True,
    "data": {
        "status": "ok",
        "version": "v1",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "checks": {"api": "ok", "mail": "ok"},
    },
}
"""The health document, which costs a rival less than the versioning policy would, for it is the smaller one."""
