"""Hostile bodies: always an answer in the envelope, never a message that nobody meant.

Hostile HTTP stops at nginx; tests/server/test_malformed.py has what gunicorn answers to it.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.client import ValidatingClient
from tests.contact.reading import hold
from tests.fakes import RecordingMailer
from tests.fuzz import hostile
from tests.fuzz.cases import addresses, fuzzed
from tests.fuzz.inspection import read_state
from tests.versions import CONTACT_PATHS


@fuzzed
@given(path=st.sampled_from(CONTACT_PATHS), body=hostile.bodies)
def test_no_body_breaks_the_contact_view(
    client: ValidatingClient, mailer: RecordingMailer, path: str, body: tuple[str, bytes]
) -> None:
    """The client validates the answer; a message goes out if and only if it can have."""
    mailer.messages.clear()
    content_type, data = body

    response = client.post(path, data=data, content_type=content_type, environ_base={"REMOTE_ADDR": next(addresses)})

    read_state(response.status_code, response.headers.items())
    assert response.status_code in {200, 400, 429}
    assert len(mailer.messages) <= (response.status_code == 200)
    for message in mailer.messages:
        hold(message.content)
