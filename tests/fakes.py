"""Collaborators that tests pass in where the real one cannot be made to do what the test needs."""

from app.mail.bulkhead import Bulkhead
from app.mail.mailer import DeliveryError
from app.mail.message import Message


class RecordingMailer:
    """Keeps what it is given, while nothing is left undelivered."""

    transport = "smtp"

    def __init__(self) -> None:
        self.sender = self
        self.bulkhead = Bulkhead(slots=1, waiting_room=0, timeout=0)
        self.messages: list[Message] = []
        self.undelivered: DeliveryError | None = None

    def deliver(self, message: Message) -> None:
        if self.undelivered:
            raise self.undelivered
        self.messages.append(message)

    def check(self) -> None:
        if self.undelivered:
            raise ConnectionRefusedError

    def log_transport(self) -> None:
        pass

    def close(self) -> None:
        pass
