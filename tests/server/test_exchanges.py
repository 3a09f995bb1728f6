"""Rows of the table of exchanges, answered by the real gunicorn."""

import pytest

from app import API_POLICY, CONTACT_POLICY
from tests.api.exchanges import CASES
from tests.api.fields import hold
from tests.client import validate_response
from tests.server.gunicorn import Server
from tests.versions import CONTACT, HEALTH

ROWS = [
    f"form: of kind demo, {CONTACT}",
    "form: of a browser, /contact.php",
    "form: with texts that are too long, /contact.php",
    "honeypot: filled with 'x', /contact.php",
    "captcha: 'K7M2Q', typed 'K7M2R', /contact.php",
    f"required field: email 'maria', {CONTACT}",
    "JSON: 30000 levels",
    "urlencoded: Latin-1",
    "length: application/json of 65,536 bytes, declared",
    "length: application/json of 65,537 bytes, declared",
    "content type: text/plain",
    "discovery: index",
    "document: of http://localhost",
    "document: that is known",
    "query: /api?section=x",
    f"method: HEAD {HEALTH}",
    "method: DELETE /contact.php",
    "page of another origin: asks whether it may use /contact.php",
    "unknown path: GET '/api/v9'",
    "quota: of both paths, /contact.php",
    "quota: of /api/*, on an error",
]


@pytest.mark.parametrize("name", ROWS)
def test_an_exchange(server: Server, name: str) -> None:
    row, kept = CASES[name], server.mail_dir / "new"
    for earlier in row.earlier:
        server.request(earlier.method, earlier.target, earlier.body, earlier.sent_headers)
    stored = len(list(kept.iterdir()))

    response, body = server.request(row.method, row.target, row.body, row.sent_headers)

    headers = response.getheaders()
    validate_response(row.method, row.path, response.status, headers, body)
    base, quotas = f"http://127.0.0.1:{server.port}", (API_POLICY, CONTACT_POLICY)
    hold(row, response.status, headers, body, base=base, quotas=quotas)
    assert len(list(kept.iterdir())) - stored == row.messages
