"""The content of a message: the parts of a submission, in display order."""

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
"""The labels of the sender's fields, in the order of the message."""

ASKED = {
    "tema": "Tema",
    "tipo_de_partner": "Tipo de colaboración",
    "sector": "Sector",
    "volumen_mensual": "Volumen mensual",
}
"""The labels of a form type's own fields; the example form has the same."""

NOTICE = "aviso"  # a note from the form: this message corrects the one with that reference, or may be a duplicate

CAMPAIGN = ("utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "gclid")
"""The parameters of a link in an advertisement, which the message shows in one line."""

PAGE = "pagina"  # the address of the form's page

HIDDEN = FIELDS - LABELS.keys()
"""Fields that the message does not show: the form type, which is its title, and those of the checks against spam."""

SUBJECT_LENGTH = 120  # the longest subject in characters, so that a list of messages shows it whole

GREETED_LENGTH = 60  # the longest name in a greeting: programs limit the length of a link

PREVIEW_LENGTH = 140
"""The longest preview, in characters. Mail programs show fewer."""

MAX_KNOWN_LENGTH = 200
"""The longest line above the message, in characters; a longer one is shown among the other fields.

So no form can push its message to where Gmail cuts an e-mail, at 102 kB of HTML.
"""

MAX_UNKNOWN_ROWS = 199 - len(SENDER) - len(ASKED) - 4  # rows left for unknown fields, of 200 in all

_NOTICE_LABEL, _REPLY_LABEL, _REST_LABEL = "Aviso", "Para responder", "Demás datos"
_CAMPAIGN_LABEL, _PAGE_LABEL = "Campaña", "Página"
_OWN_LABELS = (_NOTICE_LABEL, _REPLY_LABEL, _REST_LABEL, _CAMPAIGN_LABEL, _PAGE_LABEL, "Referencia")
_OWN = "|".join((*LABELS.values(), *ASKED.values(), *_OWN_LABELS))
_LIKE_A_LABEL = re.compile(rf"[\W\d]*({re.sub('[áéñó]', '..?', _OWN)}|Recibido el .*)\W*(:.*)?", re.IGNORECASE)
"""A label that could pass for the service's own, even with other accents, a number before or a colon after."""

_REPLY = "El botón «Responder» no usará esta dirección: escríbale a la que figura arriba."
_VISIT = {*CAMPAIGN, PAGE}
_KNOWN = {*SENDER, NOTICE, *ASKED, *_VISIT}
_REFERENCE = re.compile(r"\b[0-9A-F]{4}-[0-9A-F]{4}\b")
_CAPITALS = re.compile("(?<=[a-zß-öø-ÿ0-9])[A-ZÀ-ÖØ-Þ]+")
_PHONE_NUMBER = re.compile(r"(?:tel: ?)?\(?\+?[0-9 ().\u2010-\u2014\u2212-]+", re.IGNORECASE)
_PHONE_DIGITS = range(6, 16)
"""A number has at most 15 digits (ITU-T E.164, section 6.2); fewer than six are no subscriber number."""


class Field(NamedTuple):
    """A label and its value: a text of one or more lines, or the items of a list or an object."""

    label: str  # empty for an item of a list
    text: str
    href: str = ""  # the address behind the text if it is a link
    items: "tuple[Field, ...]" = ()


class Content(NamedTuple):
    """A message's parts for the sales team. Values without visible text are empty."""

    title: str
    received: str
    reference: str
    subject: str
    name: str  # of the visitor
    reply_to: str  # the visitor's address as a header can carry it; empty when none can
    parts: list[list[Field]]  # the known fields: the notice, the sender's, those of the form type
    message: str
    others: list[Field]
    preview: str  # what mail programs show after the subject: the start of the message, or the sender


def describe(values: dict[str, Any], *, received: str, reference: str) -> Content:
    """The content of the message for a checked submission."""
    address: ValidatedEmail = values["email"]
    # Only text counts here: the items of an object could pass for the sender's fields.
    lines = {name: one_line(value) for name, value in values.items() if name in _KNOWN and isinstance(value, str)}
    texts = {name: line for name, line in lines.items() if name in _VISIT or len(line) <= MAX_KNOWN_LENGTH}
    # Otherwise right-to-left text could swap the two parts.
    texts["email"] = "@".join(map(isolated, address.normalized.rsplit("@", 1)))
    name, company = (texts.get(field, "") for field in ("nombre", "empresa"))
    title = FORM_TITLES[values["form_type"]]
    short_title = f"{title.short} (corrección)" if _REFERENCE.search(lines.get(NOTICE, "")) else title.short
    subject = _subject(short_title, company or name or texts["email"], reference)
    message = visible(values.get(MESSAGE, ""))
    sender = ", ".join(filter(None, (name, company))) or texts["email"]
    preview = shorten(one_line(message) or sender, PREVIEW_LENGTH)
    reply_to = _reply_to(address)
    links = {"email": _mailto(address, subject, name), "telefono": _tel(texts.get("telefono", ""))}
    unknown = {field: value for field, value in values.items() if field not in {*texts, MESSAGE, *HIDDEN}}
    parts = [
        _fields({NOTICE: _NOTICE_LABEL}, texts, links),
        _fields(SENDER, texts, links) + ([] if reply_to else [Field(_REPLY_LABEL, _REPLY)]),
        _fields(ASKED, texts, links),
    ]
    others = _others(unknown) + _visit(texts)
    shown = [part for part in parts if part]
    return Content(title.full, received, reference, subject, name, reply_to, shown, message, others, preview)


def _fields(labels: dict[str, str], texts: dict[str, str], links: dict[str, str]) -> list[Field]:
    return [Field(label, texts[name], links.get(name, "")) for name, label in labels.items() if texts.get(name)]


def _visit(texts: dict[str, str]) -> list[Field]:
    campaign = " · ".join(isolated(text) for name in CAMPAIGN if (text := texts.get(name)))
    labelled = {_CAMPAIGN_LABEL: campaign, _PAGE_LABEL: texts.get(PAGE, "")}
    return [Field(label, text) for label, text in labelled.items() if text]


def _reply_to(address: ValidatedEmail) -> str:
    ascii_address = address.ascii_email or ""  # none when the local part needs SMTPUTF8 (RFC 6531)
    # A local part may look like an encoded word (RFC 2047), which a mail program would decode.
    return "" if "=?" in ascii_address and "?=" in ascii_address else ascii_address


def _mailto(address: ValidatedEmail, subject: str, name: str) -> str:
    """The link (RFC 6068) to reply to a message, with a greeting."""
    recipient = quote(address.ascii_email or address.normalized, safe="@")
    # Fits usted, any gender and any time of the day: nobody has to correct it.
    body = f"Gracias por escribirnos{', ' if name else ''}{isolated(shorten(name, GREETED_LENGTH))}.\r\n\r\n"
    return f"mailto:{recipient}?subject={quote(f'Re: {subject}', safe='')}&body={quote(body, safe='')}"


def _subject(title: str, who: str, reference: str) -> str:
    # Programs that re-encode a subject would complete this into an encoded word (RFC 2047).
    who = who.replace("=?", "= ?")
    room = SUBJECT_LENGTH - len(f"{title}:  · {reference}") - (len(isolated(who)) - len(who))
    return f"{title}: {isolated(shorten(who, room))} · {reference}"


def _tel(phone: str) -> str:
    """The link to a telephone (RFC 3966); empty when the text is more than one number, or none."""
    if not _PHONE_NUMBER.fullmatch(phone):
        return ""
    plus = "+" if "+" in phone else ""
    number = phone.replace("(0", "(") if plus else phone  # a call from abroad leaves out this zero
    digits = re.sub("[^0-9]", "", number)
    return f"tel:{plus}{digits}" if len(digits) in _PHONE_DIGITS else ""


def _others(values: dict[str, Any]) -> list[Field]:
    """The fields in at most MAX_UNKNOWN_ROWS rows. The others follow as JSON in one more row."""
    fields, rest, room = [], {}, MAX_UNKNOWN_ROWS
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
    """A JSON value as a person would write it; a list or an object as JSON. Empty without content."""
    match value:
        case str():
            # Many spaces would push the text after them to the next line, where it could pass for another field.
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
