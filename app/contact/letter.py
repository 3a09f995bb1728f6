"""The letter that a submission becomes: what the sales team reads, in its order."""

import json
import re
from typing import Any, NamedTuple
from urllib.parse import quote

from email_validator import ValidatedEmail

from app.contact.schema import FIELDS, LABELS
from app.contact.visible_text import isolated, one_line, shorten, visible
from app.forms import FORM_TITLES

MESSAGE = "mensaje"

SENDER = {name: label for name, label in LABELS.items() if name != MESSAGE}
"""The labels of the fields that say who writes, in the order of the letter."""

ASKED = {
    "tema": "Tema",
    "tipo_de_partner": "Tipo de colaboración",
    "sector": "Sector",
    "volumen_mensual": "Volumen mensual",
}
"""The labels of the fields that one kind of form asks for; the example form has the same."""

NOTICE = "aviso"
"""The form's note that this message corrects another one, which it names by its reference, or may repeat one."""

HIDDEN = FIELDS - LABELS.keys()
"""Fields that the letter does not show: the form kind, which is its title, and those of the checks against spam."""

SUBJECT_LENGTH = 120
"""The longest subject in characters, so that a list of messages shows it whole."""

PREVIEW_LENGTH = 140
"""The longest preview, in characters. Mail programs show fewer."""

MOST_ROWS = 199 - len(SENDER) - len(ASKED) - 2
"""The most rows of other fields. A letter has 200: those that the service names, its notes, and one for the rest."""

_NOTICE_LABEL, _REPLY_LABEL, _REST_LABEL = "Aviso", "Para responder", "Demás datos"
_OWN = "|".join((*LABELS.values(), *ASKED.values(), _NOTICE_LABEL, _REPLY_LABEL, _REST_LABEL, "Referencia"))
_LIKE_A_LABEL = re.compile(rf"[\W\d]*({re.sub('[áéó]', '..?', _OWN)}|Recibido el .*)\W*(:.*)?", re.IGNORECASE)
"""A label that reads like one of the service. Accents, a number before it and text after a colon do not matter."""

_REPLY = "El botón «Responder» no usará esta dirección: escríbale a la que figura arriba."
_REFERENCE = re.compile(r"\b[0-9A-F]{4}-[0-9A-F]{4}\b")
_CAPITALS = re.compile("(?<=[a-zß-öø-ÿ0-9])[A-ZÀ-ÖØ-Þ]+")
_PHONE_NUMBER = re.compile(r"(?:tel: ?)?\(?\+?[0-9 ().\u2010-\u2014\u2212-]+", re.IGNORECASE)
_PHONE_DIGITS = range(6, 16)
"""A number has at most 15 digits (ITU-T E.164, section 6.2); fewer than six are no number of a subscriber."""


class Field(NamedTuple):
    """A label and what stands beside it: a text of one or more lines, or the items of a list or an object."""

    label: str
    """Empty for an item of a list."""
    text: str
    href: str = ""
    """The address behind the text if it is a link."""
    items: "tuple[Field, ...]" = ()


class EmailView:
    """The letter to the sales team, made of a checked submission. What has nothing to be seen is left empty."""

    def __init__(self, values: dict[str, Any], *, received: str, reference: str) -> None:
        self.kind, subject = FORM_TITLES[values["form_type"]]
        self.received = received
        self.reference = reference
        address: ValidatedEmail = values["email"]
        ascii_address = address.ascii_email or ""  # none when only SMTPUTF8 (RFC 6531) carries the local part
        who = {field: one_line(values.get(field, "")) for field in SENDER if field != "email"}
        # Otherwise right-to-left text could swap the two parts.
        who["email"] = "@".join(map(isolated, address.normalized.rsplit("@", 1)))
        # The form sends texts in these fields. An object could pass for fields of the sender.
        typed = {field: one_line(values[field]) for field in (NOTICE, *ASKED) if isinstance(values.get(field), str)}
        notice = typed.get(NOTICE, "")
        title = f"{subject} (corrección)" if _REFERENCE.search(notice) else subject
        self.subject = _subject(title, who["empresa"] or who["nombre"] or who["email"], reference)
        self.name = who["nombre"]
        # A local part may look like an encoded word (RFC 2047), which a mail reader would decode.
        self.reply_to = "" if "=?" in ascii_address and "?=" in ascii_address else ascii_address
        """The address of the visitor as a header can carry it; empty when none can."""
        recipient = quote(ascii_address or address.normalized, safe="@")
        mailto = f"mailto:{recipient}?subject={quote(f'Re: {self.subject}', safe='')}"  # RFC 6068
        links = {"email": mailto, "telefono": _tel(who["telefono"])}
        self.sender = [Field(label, who[field], links.get(field, "")) for field, label in SENDER.items() if who[field]]
        if not self.reply_to:
            self.sender.append(Field(_REPLY_LABEL, _REPLY))
        self.asked = [Field(label, typed[field]) for field, label in ASKED.items() if typed.get(field)]
        shown = {*SENDER, *typed, MESSAGE, *HIDDEN}
        self.others = _others({name: value for name, value in values.items() if name not in shown})
        """The fields that the service does not know, in the order of the form."""
        self.message = visible(values.get(MESSAGE, ""))
        sender = ", ".join(who[field] for field in ("nombre", "empresa") if who[field]) or who["email"]
        self.preview = shorten(one_line(self.message) or sender, PREVIEW_LENGTH)
        """The text that mail programs show after the subject: the start of the message, or the sender's name."""
        parts = (
            ("", [Field(_NOTICE_LABEL, notice)] if notice else []),
            ("", self.sender),
            ("", self.asked),
            ("Otros datos", self.others),
        )
        self.parts = [(heading, fields) for heading, fields in parts if fields]
        """The fields under their headings; the sender and the fields asked for need none."""


def _subject(kind: str, who: str, reference: str) -> str:
    # Programs that decode a subject and write it again would make an encoded word (RFC 2047) of this beginning of one.
    who = who.replace("=?", "= ?")
    room = SUBJECT_LENGTH - len(f"{kind}:  · {reference}") - (len(isolated(who)) - len(who))
    return f"{kind}: {isolated(shorten(who, room))} · {reference}"


def _tel(phone: str) -> str:
    """The address of a telephone (RFC 3966); empty when the text is more than one number, or none."""
    if not _PHONE_NUMBER.fullmatch(phone):
        return ""
    plus = "+" if "+" in phone else ""
    number = phone.replace("(0", "(") if plus else phone  # a call from abroad leaves out this zero
    digits = re.sub("[^0-9]", "", number)
    return f"tel:{plus}{digits}" if len(digits) in _PHONE_DIGITS else ""


def _others(values: dict[str, Any]) -> list[Field]:
    """The fields in MOST_ROWS rows. One more has, as JSON, those that take too many."""
    fields, rest, room = [], {}, MOST_ROWS
    for name, value in values.items():
        field = _field(name, value)
        if not (field.text or field.items):
            continue
        rows = sum(1 + part.text.count("\n") for part in (field, *field.items))
        if rows > room:
            rest[name] = value
        else:
            room -= rows
            fields.append(field)
    if rest:
        fields.append(Field(_REST_LABEL, _json(rest)))
    return fields


def _field(name: str, value: Any) -> Field:
    label = _label(name)
    if name not in (NOTICE, *ASKED) and _LIKE_A_LABEL.fullmatch(label):
        label += " (campo adicional)"
    match value:
        case list():
            items = [Field("", _text(item)) for item in value]
        case dict():
            items = [Field(_label(key), _text(item)) for key, item in value.items()]
        case _:
            return Field(label, _text(value))
    return Field(label, "", items=tuple(item for item in items if item.text))


def _text(value: Any) -> str:
    """A JSON value as a person would write it; a list or an object as JSON. Empty when it says nothing."""
    match value:
        case str():
            # Many spaces would push what follows to the next line, where it could pass for another field.
            return "\n".join(" ".join(line.split()) for line in visible(value).split("\n"))
        case None:
            return ""
        case bool():
            return "Sí" if value else "No"
        case list() | dict():
            return _json(value) if value else ""
        case _:
            return str(value).replace(".", ",")


def _json(value: list[Any] | dict[str, Any]) -> str:
    return one_line(json.dumps(value, ensure_ascii=False))


def _label(name: str) -> str:
    """The name of a field in words: ``otroDato``, ``otro_dato`` and ``otro[dato]`` become "Otro dato"."""
    words = one_line(re.sub(r"[_\[\]-]", " ", name))
    label = _CAPITALS.sub(lambda found: " " + (found[0].lower() if len(found[0]) == 1 else found[0]), words)
    return label[:1].upper() + label[1:] or "(sin nombre)"
