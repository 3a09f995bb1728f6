"""The letter that a submission becomes: what the sales team reads, in its order and under Spanish labels."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from app.contact.submission import HONEYPOT, Address
from app.contact.typed import isolated, one_line, shorten, visible

KINDS = {
    "demo": "Solicitud de demostración",
    "ventas": "Mensaje para el equipo de ventas",
    "onboarding": "Alta de comercio",
    "distribuidor": "Candidatura al programa de distribuidores",
}
"""The Spanish name of each form kind."""

SENDER = {"nombre": "Nombre", "empresa": "Empresa", "email": "Correo electrónico", "telefono": "Teléfono"}
"""The labels of the fields that say who writes, in the order of the letter."""

ASKED = {
    "tema": "Tema",
    "tipo_de_partner": "Tipo de colaboración",
    "sector": "Sector",
    "volumen_mensual": "Volumen mensual",
}
"""The labels of the fields that one kind of form asks for; the example form has the same."""

MESSAGE = "mensaje"

HIDDEN = frozenset({"form_type", "ts", "captcha_expected", "captcha_input", HONEYPOT})
"""Fields that the letter does not show: the form kind, which is its title, and those of the checks against spam."""

SUBJECT_LENGTH = 120
"""The longest subject in characters, so that a list of messages shows it whole."""

_MOST_LEVELS = 3
"""The levels of lists and objects that are shown as such. Deeper ones would leave no room for their text."""

MOST_ROWS = 190
"""The most rows of other fields. A letter has 200: nine more that the service names, and one for the rest."""

_to_json = json.JSONEncoder(ensure_ascii=False).encode
_ESCAPED_CONTROL = re.compile(r"(?<!\\)\\u00[01][0-9a-f]")
"""A control character as JSON shows it. Nobody reads it, and one byte of a form would take 14 in the message."""
_KNOWN = {*SENDER, MESSAGE, *HIDDEN}
# One capital begins a word, several are an abbreviation.
_LOWER, _UPPER = "a-záéíóúüñ", "A-ZÁÉÍÓÚÜÑ"
_CAPITALS = re.compile(
    rf"(?<=[{_LOWER}0-9])(?:[{_UPPER}]+(?![{_LOWER}])|[{_UPPER}])|(?<=[{_UPPER}])[{_UPPER}](?=[{_LOWER}]{{2}})"
)
_PHONE_NUMBER = re.compile(r"\(?\+?[0-9 ().\u2013-]+")
_PHONE_DIGITS = range(6, 16)
"""A number has at most 15 digits (ITU-T E.164, section 6.2); fewer than six are no number of a subscriber."""


class Field(NamedTuple):
    """A label, what stands beside it, and the address behind it if it is a link."""

    label: str
    value: Value
    href: str = ""


Value: TypeAlias = "str | list[Value] | tuple[Field, ...]"
"""A text of one or more lines, a list, or the fields of an object; never an empty one."""


@dataclass(frozen=True, slots=True)
class Letter:
    """The letter to the sales team. A field, list or text with nothing to be seen is left empty."""

    kind: str
    received: str
    """The line that says when and from where it came."""
    reference: str
    subject: str
    name: str
    reply_to: str
    """The address of the visitor as a header can carry it; empty when none can."""
    sender: list[Field]
    """The fields that say who writes."""
    asked: list[Field]
    """The fields that the form of this kind asks for."""
    others: list[Field]
    """The fields that the service does not know, in the order of the form."""
    message: str

    @classmethod
    def of(cls, values: dict[str, Any], *, received: str, reference: str) -> Letter:
        """The letter of a checked submission."""
        kind = KINDS[values["form_type"]]
        address: Address = values["email"]
        who = {field: one_line(values.get(field, "")) for field in SENDER if field != "email"}
        # Otherwise right-to-left text could swap the two parts.
        who["email"] = "@".join(map(isolated, address.normalized.rsplit("@", 1)))
        subject = _subject(kind, who["empresa"] or who["nombre"] or who["email"])
        links = {"email": _mailto(address, subject), "telefono": _tel(who["telefono"])}
        sender = [Field(label, who[field], links.get(field, "")) for field, label in SENDER.items() if who[field]]
        if not (reply_to := _reply_to(address)):
            sender.append(Field("Para responder", "Escriba a la dirección de correo: «Responder» no la usa."))
        # The form asks for a text. An object could pass for fields of the sender.
        asked = {field: one_line(values[field]) for field in ASKED if isinstance(values.get(field), str)}
        return cls(
            kind,
            received,
            reference,
            subject,
            who["nombre"],
            reply_to,
            sender,
            asked=[Field(label, asked[field]) for field, label in ASKED.items() if asked.get(field)],
            others=_others({name: value for name, value in values.items() if name not in _KNOWN and name not in asked}),
            message=visible(values.get(MESSAGE, "")),
        )


def _subject(kind: str, who: str) -> str:
    # Programs that decode a subject and write it again would make an encoded word (RFC 2047) of this beginning of one.
    who = who.replace("=?", "= ?")
    room = SUBJECT_LENGTH - len(f"{kind}: ") - (len(isolated(who)) - len(who))
    return f"{kind}: {isolated(shorten(who, room))}"


def _reply_to(address: Address) -> str:
    # A local part may look like an encoded word (RFC 2047), which a mail reader would decode.
    if address.ascii is None or ("=?" in address.ascii and "?=" in address.ascii):
        return ""
    return address.ascii


def _mailto(address: Address, subject: str) -> str:
    """The address of an answer (RFC 6068)."""
    return f"mailto:{quote(address.ascii or address.normalized, safe='@')}?subject={quote(f'Re: {subject}', safe='')}"


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
        if shown := _shown(value, 0):
            if (rows := _rows(shown)) > room:
                rest[name] = value
            else:
                room -= rows
                fields.append(Field(_label(name), shown))
    if rest:
        fields.append(Field("Demás datos", one_line(_ESCAPED_CONTROL.sub(" ", _to_json(rest)))))
    return fields


def _rows(value: Value) -> int:
    """The rows of a value: its own, one more with each further line, and those of what it holds."""
    if isinstance(value, str):
        return 1 + value.count("\n")
    return 1 + sum(_rows(part.value if isinstance(part, Field) else part) for part in value)


def _shown(value: Any, level: int) -> Value:
    """A JSON value as a person would write it; empty when it says nothing."""
    if level == _MOST_LEVELS and value and isinstance(value, (list, dict)):
        value = _to_json(value)
    match value:
        case str():
            # Many spaces would push what follows to the next line, where it could pass for another field.
            return "\n".join(" ".join(line.split()) for line in visible(value).split("\n"))
        case None:
            return ""
        case bool():
            return "Sí" if value else "No"
        case list():
            return [shown for item in value if (shown := _shown(item, level + 1))]
        case dict():
            named = ((_label(name), _shown(item, level + 1)) for name, item in value.items())
            return tuple(Field(label, shown) for label, shown in named if shown)
        case _:
            return str(value).replace(".", ",")


def _label(name: str) -> str:
    """The name of a field as a label: ``otroDato`` and ``otro_dato`` become "Otro dato"."""
    words = one_line(name.replace("_", " "))
    label = _CAPITALS.sub(lambda capitals: f" {_uncapitalized(capitals[0])}", words)
    return label[:1].upper() + label[1:] or "(sin nombre)"


def _uncapitalized(capitals: str) -> str:
    return capitals.lower() if len(capitals) == 1 else capitals
