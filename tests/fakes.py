"""Collaborators that tests pass in where the real one cannot be made to do what the test needs."""

from app.mail.bulkhead import Bulkhead
from app.mail.mailer import DeliveryError
from app.mail.message import Message


class RecordingMailer:
    """Keeps what it is given. While ``kept`` is not None it delivers nothing, and says that MAIL_DIR has it or not."""

    transport = "smtp"

    def __init__(self) -> None:
        self.sender = self
        self.bulkhead = Bulkhead(slots=1, waiting_room=0, timeout=0)
        self.messages: list[Message] = []
        self.kept: bool | None = None

    def deliver(self, message: Message) -> None:
        if self.kept is not None:
            raise DeliveryError(kept=self.kept)
        self.messages.append(message)

    def check(self) -> None:
        if self.kept is not None:
            raise ConnectionRefusedError

    def log_transport(self) -> None:
        pass

    def close(self) -> None:
        pass
