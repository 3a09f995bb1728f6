"""The fields of the contact forms and the values that each accepts."""

import re
from collections.abc import Mapping
from typing import Any, cast

from email_validator import EmailNotValidError, EmailSyntaxError, ValidatedEmail, validate_email
from marshmallow import INCLUDE, Schema, ValidationError, fields, pre_load
from marshmallow.validate import Length, OneOf

from app.contact.visible_text import BLANK_ENDS, visible, with_lf
from app.forms import FORM_TYPES

MAX_ADDRESS_BYTES = 254
"""The longest address in bytes. A path has 256, its angle brackets included (RFC 5321, section 4.5.3.1.3)."""

_TYPOGRAPHIC = re.compile("[\u2018\u2019\u2010-\u2015]")  # keyboards may type them instead of ' and -


class Text(fields.String):
    """A text field. A line break counts as one character, whether sent as CR, LF or CRLF.

    The message shows it under its label, or not at all without one.
    """

    default_error_messages = {"invalid": "Debe ser un texto."}  # noqa: RUF012 - marshmallow types it as an instance's

    def __init__(self, *, label: str = "", **kwargs: Any) -> None:
        super().__init__(metadata={"label": label}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        return with_lf(super()._deserialize(value, attr, data, **kwargs))


def _address(value: Any) -> ValidatedEmail:
    """An address with a valid syntax, without a DNS look-up."""
    try:
        text = BLANK_ENDS.sub("", value) if isinstance(value, str) else ""
        # The library normalises the text before it checks the length. Many combining marks would take seconds.
        if len(text.encode(errors="replace")) > MAX_ADDRESS_BYTES:
            raise EmailSyntaxError("The address is too long.")
        # test_environment: the syntax of addresses under .test is valid, and test tools generate them.
        address = validate_email(text, check_deliverability=False, test_environment=True)
        if visible(address.normalized) != address.normalized or _TYPOGRAPHIC.search(address.local_part):
            raise EmailSyntaxError("The address has an invisible or a typographic character.")
    except EmailNotValidError as error:
        raise ValidationError("Debe ser una dirección de correo electrónico.") from error
    return address


def _epoch_milliseconds(value: Any) -> int:
    """Milliseconds since 1970 as an integer, or as the digits that a form sends."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value.lstrip("0")[:20] or 0)  # 20 digits exceed 64 bits; int() refuses very long strings
    elif isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is an integer in JSON Schema
    if type(value) is not int:  # in Python, a bool is one
        raise ValidationError("Debe ser un número entero de milisegundos.")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValidationError("Debe ser un número entero de 64 bits.")
    return value


def at_most(characters: int) -> Length:
    """The length limit of a text."""
    return Length(max=characters, error="No puede superar los {max} caracteres.")


class ContactSchema(Schema):
    """The body of the contact endpoint (specification, ContactRequest); other fields are kept unchanged.

    The message shows the fields that have a label, in this order. The captcha fields have no length limit here: a wrong
    length is a bad_captcha.
    """

    class Meta:
        unknown = INCLUDE

    form_type = Text(required=True, validate=OneOf(FORM_TYPES))
    nombre = Text(label="Nombre", validate=at_most(200))
    empresa = Text(label="Empresa", validate=at_most(200))
    email = fields.Function(deserialize=_address, required=True, metadata={"label": "Correo electrónico"})
    telefono = Text(label="Teléfono", validate=at_most(40))
    mensaje = Text(label="Mensaje", validate=at_most(5000))
    ts = fields.Function(deserialize=_epoch_milliseconds)
    captcha_expected = Text()
    captcha_input = Text()
    _bp_check = Text()

    @pre_load
    def drop_empty(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Treat null and the empty string as absent, because forms send empty fields too."""
        return {name: value for name, value in data.items() if value is not None and value != ""}


_SCHEMA = ContactSchema()
FIELDS = frozenset(_SCHEMA.fields)  # the names of the specification's fields
LABELS = {name: label for name, field in _SCHEMA.fields.items() if (label := field.metadata.get("label"))}
"""The label of each field that the message shows, in its order."""


def validate(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The valid fields, converted, in the order of the body; the Spanish messages for the invalid ones, by field."""
    errors: dict[str, list[str]] = {}
    try:
        values = cast("dict[str, Any]", _SCHEMA.load(body))
    except ValidationError as error:
        values, errors = cast("dict[str, Any]", error.valid_data), error.messages_dict
    # marshmallow returns unknown fields in no fixed order, but the message shows them in the order of the form.
    return {name: values[name] for name in body if name in values}, errors
