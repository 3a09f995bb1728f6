"""A name and an address in a header field: whatever an operator sets, every reader finds exactly these two."""

import email
import re
from email.message import EmailMessage
from email.policy import compat32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.mail.message import encode_mailboxes
from app.mailbox import Mailbox, parse_mailbox, parse_mailboxes
from tests.messages import POLICIES, decoded, parse

ADDRESS = "web@example.com"
LONG_ADDRESS = "w" * 64 + "@" + "example." * 20 + "com"

NAMES = [
    "Formulario web",
    "aZ09!?#$%&'*+-/=^_`{|}~",
    "Ventas, Uruguay",
    'La "web" \\b\\\\',
    "otra@example.org <x>",
    "Web (demo a;b:c[d]",
    'Pagos "Ñandú", S.L. <x>',
    "n\N{COMBINING TILDE} 😀",
]
LONG_NAMES = {
    "ASCII": "Equipo comercial " * 10,
    "ASCII without a space": "x" * 300,
    "quoted": "Ventas, " * 20,
    "Spanish": "Equipo comercial de España y Portugal " * 5,
    "a character that two words would share": "x" + "支付" * 60,
}
"""More than a line or an encoded word takes."""


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read(value: str) -> EmailMessage:
    return parse(f"From: {value}\r\nTo: x@example.com\r\n\r\n".encode("ascii"))


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_a_long_name_stays_within_the_lines_as_encoded_words_that_are_short_enough(name: str) -> None:
    header = encode_mailboxes([parse_mailbox(f"{quoted(name)} <{ADDRESS}>")])

    *lines, address = f"From: {header}".split("\r\n")
    words = [line.removeprefix("From:").removeprefix(" ") for line in lines]
    assert max(map(len, lines)) <= 76
    assert [word for word in words if not re.fullmatch(r"=\?utf-8\?b\?[\w+/=]{1,63}\?=", word)] == []
    assert "".join(map(decoded, words)) == name.strip()  # no character is split between two words
    assert address == f" <{ADDRESS}>"


def test_names_and_addresses_are_read_as_exactly_these() -> None:
    every = [Mailbox(address, name) for name in NAMES for address in (ADDRESS, LONG_ADDRESS)]
    typed = ", ".join(f"{quoted(mailbox.name)} <{mailbox.address}>" for mailbox in every)

    mailboxes = parse_mailboxes(f"{typed},{LONG_ADDRESS}")
    field = read(encode_mailboxes(mailboxes))["From"]

    assert mailboxes == (*every, Mailbox(LONG_ADDRESS))
    assert [Mailbox(each.addr_spec, each.display_name) for each in field.addresses] == list(mailboxes)
    assert field.defects == ()


@pytest.mark.parametrize(("name", "shown"), [("Formulario web", "Formulario web"), ("Ventas, UY", '"Ventas, UY"')])
def test_a_name_is_readable_without_decoding_where_it_can_be(name: str, shown: str) -> None:
    assert encode_mailboxes([Mailbox(ADDRESS, name)]) == f"{shown} <{ADDRESS}>"


@given(name=st.text(st.characters(exclude_categories=["Cs"])))
@example("=?utf-8?q?a=0D=0ABcc=3A_x=40example.com?=")
@example("a\r\nBcc: x@example.com")
def test_no_name_gets_out_of_its_place(name: str) -> None:
    try:
        mailbox = parse_mailbox(f"{quoted(name)} <{ADDRESS}>")
    except ValueError:
        assert not name.strip() or not name.isprintable() or "=?" in name
        return
    header = encode_mailboxes([mailbox])
    content = f"From: {header}\r\nTo: x@example.com\r\n\r\n".encode("ascii")

    for policy in POLICIES:
        message = email.message_from_bytes(content, policy=policy)
        assert (message.keys(), message.defects, message.get_payload()) == (["From", "To"], [], "")
    assert [each.addr_spec for each in read(header)["From"].addresses] == [ADDRESS]
    assert decoded(email.message_from_bytes(content, policy=compat32)["From"]) in {
        f"{mailbox.name} <{ADDRESS}>",
        f"{quoted(mailbox.name)} <{ADDRESS}>",
    }
