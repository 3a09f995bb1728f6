"""Another program reads in a message what Python reads: the fields that were sent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from freezegun import freeze_time

from app.contact.letter import SUBJECT_LENGTH
from app.contact.schema import validate
from app.contact.submission import SUBJECTS
from tests.factories import REFERENCE, contact_body
from tests.message.letters import LETTERS, MESSAGES, RECIPIENTS, SENDER, UNFIT_NAMES, compose
from tests.message.readers import Reading, read_by_mailparser, read_by_python

COMPOSED_AT = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
with freeze_time(COMPOSED_AT):
    SENT = {what: compose(changes) for what, changes in LETTERS.items()}


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    """Each letter as mailparser reads it, which is started once for all letters."""
    contents = [message.content for message in SENT.values()]
    return dict(zip(SENT, read_by_mailparser(contents, tmp_path_factory.mktemp("node")), strict=True))


def reply_to(letter: str) -> list[tuple[str, str]]:
    """The mailbox that an answer goes to."""
    body = contact_body(**LETTERS[letter])
    address = validate(body)[0]["email"].ascii_email
    if address is None or address.startswith("=?"):
        return []
    is_fit = body.get("nombre") not in UNFIT_NAMES.values() and not letter.startswith("injection")
    return [(" ".join(body.get("nombre", "").split()) if is_fit else "", address)]


@pytest.mark.parametrize("letter", LETTERS)
def test_another_program_reads_the_same(readings: dict[str, Reading], letter: str) -> None:
    assert readings[letter] == read_by_python(SENT[letter].content)


@pytest.mark.parametrize("letter", LETTERS)
def test_the_fields_are_those_that_were_sent(letter: str) -> None:
    read = read_by_python(SENT[letter].content)
    form_type = LETTERS[letter].get("form_type", "demo")

    assert read.sender == [(SENDER.name, SENDER.address)]
    assert read.recipients == [(each.name, each.address) for each in RECIPIENTS]
    assert read.reply_to == reply_to(letter)
    assert read.subject.startswith(f"{SUBJECTS[form_type]}: ")
    assert len(read.subject) <= SUBJECT_LENGTH
    assert read.date == COMPOSED_AT
    assert read.message_id == SENT[letter].message_id
    assert read.headers == {
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "X-Form-Type": form_type,
        "X-Reference": REFERENCE,
    }


@pytest.mark.parametrize("what", MESSAGES)
def test_the_message_is_read_as_it_was_typed(what: str) -> None:
    text = read_by_python(SENT[f"message: {what}"].content).text

    assert text.endswith(f"\n\nMensaje\n\n{MESSAGES[what]}\n")
