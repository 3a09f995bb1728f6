"""A store that the release before this one has left, and one of this release to which that release goes back."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from app.mail.kept import DOUBT, SENDING, State
from app.mail.spool import Spool
from tests.mail.conftest import MailCommand, MakeMailer, arrived, keep_in_state, letter
from tests.mail.server import SmtpServer
from tests.mail.service import Serve

HOUR = 3600

TRIED = ",tries=2,last=1700000000.000"
LATE = ",tries=35,last=1700431999.000"

LEFT = {
    "before the first attempt": ("new/{}", State.WAITING),
    "deferred": (f"new/{{}}{TRIED},waiting=451", State.WAITING),
    "refused": (f"new/{{}}{TRIED},refused=550", State.REFUSED),
    "in doubt": (f"cur/{{}}{TRIED}:2,F", State.IN_DOUBT),
    "in doubt, then deferred": (f"cur/{{}}{TRIED},waiting=451:2,F", State.IN_DOUBT),
    "in doubt, then refused": (f"cur/{{}}{TRIED},refused=550:2,F", State.IN_DOUBT),
    "given up": (f"new/{{}}{LATE},waiting=ConnectionRefusedError", State.GIVEN_UP),
    "seen by a mail reader": ("cur/{}:2,S", State.WAITING),
    "deferred, answered in a mail reader": (f"cur/{{}}{TRIED},waiting=451:2,RS", State.WAITING),
    "refused, seen by a mail reader": (f"cur/{{}}{TRIED},refused=550:2,S", State.REFUSED),
    "in doubt, seen by a mail reader": (f"cur/{{}}{TRIED}:2,FS", State.IN_DOUBT),
    "in doubt, its flag taken away by a mail reader": (f"cur/{{}}{TRIED}:2,", State.IN_DOUBT),
}
"""The names of the release before, and the state that this one sees."""


@pytest.fixture
def left(mail_dir: Path) -> dict[str, str]:
    """The Message-IDs of a store with a message under each of these names."""
    Spool(mail_dir).prepare()
    for number, (path, _) in enumerate(LEFT.values()):
        content = letter(number).content.replace(b"\r\n", b"\n")
        (mail_dir / path.format(f"1700000000{number:09}.7.{number}")).write_bytes(content)
    return {name: letter(number).message_id for number, name in enumerate(LEFT)}


def test_what_the_release_before_has_left_is_seen_in_its_state(left: dict[str, str], mail_dir: Path) -> None:
    states = dict(zip(left, (message.state for message in Spool(mail_dir).kept()), strict=True))

    assert states == {name: state for name, (_, state) in LEFT.items()}


def test_of_what_the_release_before_has_left_all_that_waits_is_sent_once_and_nothing_else(
    left: dict[str, str], make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    with SmtpServer() as server:
        service = serve(make_mailer(server))
        service.check(passes=True)
        service.run(HOUR)

    assert arrived(server) == [left[name] for name, (_, state) in LEFT.items() if state is State.WAITING]
    assert len(Spool(mail_dir).kept()) == len(LEFT) - len(server.arrivals)


@pytest.mark.usefixtures("left")
def test_it_is_listed_without_its_form(mail: MailCommand) -> None:
    with SmtpServer() as server:
        first = mail("list", server=server).stdout.splitlines()[1]
        (listed, *_) = json.loads(mail("list", "--json", server=server).stdout)["messages"]

    assert re.split("  +", first.strip())[1:] == ["-", "-", "0", "-", "now", "waiting", "0"]
    assert (listed["message_id"], listed["form_type"], listed["last_code"]) == ("0", None, None)


def test_the_operator_resends_and_drops_what_the_release_before_has_left(
    left: dict[str, str], mail: MailCommand, mail_dir: Path
) -> None:
    with SmtpServer() as server:
        resent = mail("resend", left["in doubt"], server=server)
        dropped = mail("drop", "--state", "in-doubt", "--yes", server=server)

    assert (resent.exit_code, dropped.exit_code) == (0, 0)
    assert arrived(server) == [left["in doubt"]]
    assert State.IN_DOUBT not in {message.state for message in Spool(mail_dir).kept()}


FORMER_NAME = re.compile(
    r"(?:new|cur)/[0-9]{1,20}\.[0-9]+\.[^:,/]+"
    r"(?:,tries=[0-9]{1,9},last=[0-9]{1,11}\.[0-9]{3}(?:,(waiting|refused)=[A-Za-z0-9.]+)?)?"
    r"(?::2,([A-Za-z]*))?"
)
"""The names that the release before reads as messages; it ignores others."""


def former_state(path: str) -> str:
    """The state that the release before sees."""
    match = FORMER_NAME.fullmatch(path)
    assert match, f"{path} is no message to the release before"
    verdict, flags = match.groups()
    return "in doubt" if "F" in (flags or "") else verdict or "waiting"


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ("new", "waiting"),
        ("waiting", "waiting"),
        ("in doubt", "in doubt"),
        ("in doubt, then deferred", "in doubt"),
        ("refused", "refused"),
        ("given up", "waiting"),  # by its age: that release gives it up as well
    ],
)
def test_the_release_before_sees_each_message_and_sends_none_that_is_in_doubt(
    mail_dir: Path, state: str, seen: str
) -> None:
    assert former_state(keep_in_state(mail_dir, letter(1), state).path) == seen


def test_the_names_that_the_service_gives_are_names_of_the_release_before(mail_dir: Path) -> None:
    spool = Spool(mail_dir)
    claim = spool.store(letter(1))
    seen = [former_state(claim.path)]
    for word, refused in (("451", False), ("SMTPServerDisconnected", False), ("550", True)):
        claim.note(word, refused=refused)
        seen.append(former_state(claim.path))
    claim.note(mark=SENDING)
    seen.append(former_state(claim.path))
    claim.note(mark=DOUBT)
    seen.append(former_state(claim.path))
    claim.release()
    (doubtful,) = spool.kept()
    with spool.claim(doubtful) as again:
        assert again
        again.note("451", refused=False)
        seen.append(former_state(again.path))

    assert seen == ["waiting", "waiting", "waiting", "refused", "in doubt", "in doubt", "in doubt"]


@pytest.mark.parametrize("flags", [":2,", ":2,S", ":2,F", ":2,FRS"])
@pytest.mark.parametrize("state", ["new", "waiting", "in doubt", "in doubt, then deferred", "refused", "given up"])
def test_a_mail_reader_changes_nothing(mail_dir: Path, state: str, flags: str) -> None:
    kept = keep_in_state(mail_dir, letter(1), state)
    moved = f"cur/{Path(kept.path).name.partition(':')[0]}{flags}"
    shutil.move(mail_dir / kept.path, mail_dir / moved)

    assert Spool(mail_dir).kept() == [kept._replace(path=moved)]
