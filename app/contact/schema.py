"""The fields of the contact forms and what each accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from email_validator import EmailNotValidError, EmailSyntaxError, validate_email
from marshmallow import INCLUDE, Schema, ValidationError, fields, pre_load
from marshmallow.validate import Length, OneOf, Range

from app.contact.submission import FORM_TYPES, Address

MAX_ADDRESS_BYTES = 254
"""Bytes of an address: the 256 of a path without its angle brackets (RFC 5321, section 4.5.3.1.3)."""

_INT64_DIGITS = 19


class _Text(fields.String):
    default_error_messages = {"invalid": "Debe ser un texto."}  # noqa: RUF012 - marshmallow types it as an instance's


class _Email(_Text):
    """An address that is valid by its syntax; nothing is asked of the DNS."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs).strip()
        try:
            # The library normalises before it looks at the length, and a long run of marks takes it seconds.
            if len(text.encode(errors="replace")) > MAX_ADDRESS_BYTES:
                raise EmailSyntaxError("The address is too long.")
            # test_environment: addresses under .test are good syntax, and what test tools generate.
            address = validate_email(text, check_deliverability=False, test_environment=True)
        except EmailNotValidError as error:
            raise ValidationError("Debe ser una dirección de correo electrónico.") from error
        return Address(address.normalized, address.ascii_email)


class _EpochMilliseconds(fields.Integer):
    """Milliseconds since 1970 as an integer, or as the digits that a form sends."""

    default_error_messages = {  # noqa: RUF012 - marshmallow types it as an instance's
        "invalid": "Debe ser un número entero de milisegundos.",
        "too_large": "Debe ser un número entero de 64 bits.",
    }

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> int:
        if isinstance(value, str):
            if not (value.isascii() and value.isdigit()):
                raise self.make_error("invalid")
            digits = value.lstrip("0") or "0"
            value = int(digits) if len(digits) <= _INT64_DIGITS else 1 << 64
        elif isinstance(value, float) and value.is_integer():
            value = int(value)  # to JSON Schema 1.0 is an integer
        result = super()._deserialize(value, attr, data, **kwargs)
        if result is None:
            raise self.make_error("invalid")
        return result


def _at_most(characters: int) -> Length:
    return Length(max=characters, error="No puede superar los {max} caracteres.")


class ContactSchema(Schema):
    """The body of the contact endpoint (specification, ContactRequest); fields beyond these are kept as they are.

    The captcha fields carry no length here: whatever is wrong with a captcha is a bad_captcha.
    """

    class Meta:
        unknown = INCLUDE

    form_type = _Text(required=True, validate=OneOf(FORM_TYPES))
    email = _Email(required=True)
    ts = _EpochMilliseconds(
        strict=True, validate=Range(-(1 << 63), (1 << 63) - 1, error="Debe ser un número entero de 64 bits.")
    )
    nombre = _Text(validate=_at_most(200))
    empresa = _Text(validate=_at_most(200))
    telefono = _Text(validate=_at_most(40))
    mensaje = _Text(validate=_at_most(5000))
    captcha_expected = _Text()
    captcha_input = _Text()
    _bp_check = _Text()

    @pre_load
    def drop_empty(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Count null and the empty string as absent: forms send what was left empty."""
        return {name: value for name, value in data.items() if value is not None and value != ""}


_SCHEMA = ContactSchema()


def examine(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The fields of a body that are valid, converted and in its order, and the Spanish faults of those that are not."""
    faults: dict[str, list[str]] = {}
    try:
        values = cast("dict[str, Any]", _SCHEMA.load(body))
    except ValidationError as error:
        values, faults = cast("dict[str, Any]", error.valid_data), error.messages_dict
    # marshmallow keeps unknown fields in the order of a set, and a message should read as the form does.
    return {name: values[name] for name in body if name in values}, faults
