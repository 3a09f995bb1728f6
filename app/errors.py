"""The error catalogue: every error code, its status and its Spanish texts."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Self


class ErrorCode(StrEnum):
    """The codes that clients branch on: each with its HTTP status, a message and a hint."""

    status: int
    message: str
    hint: str

    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        "El método HTTP no está permitido en esta ruta.",
        "Utilice uno de los métodos que enumera la cabecera Allow.",
    )
    INVALID_BODY = (
        "invalid_body",
        400,
        "La petición o su contenido no son válidos.",
        (
            "Envíe, en UTF-8 y con 64 KiB como máximo, un objeto JSON (application/json) o un"
            " formulario (application/x-www-form-urlencoded) que contenga al menos form_type, nombre y email."
        ),
    )
    BAD_CAPTCHA = (
        "bad_captcha",
        400,
        "El código de verificación no es correcto.",
        "Escriba los caracteres de la imagen o solicite una imagen nueva.",
    )
    INVALID_FORM_TYPE = (
        "invalid_form_type",
        400,
        "El tipo de formulario no es válido.",
        "Indique en form_type uno de los valores de allowed_values.",
    )
    INVALID_EMAIL = (
        "invalid_email",
        400,
        "La dirección de correo electrónico falta o no es válida.",
        "Revise el campo email; por ejemplo: nombre@example.com.",
    )
    RATE_LIMIT = (
        "rate_limit",
        429,
        "Acabamos de recibir otro envío desde la misma conexión a internet.",
        "Espere los segundos que indica Retry-After y vuelva a enviar el formulario.",
    )
    RATE_LIMIT_EXCEEDED = (
        "rate_limit_exceeded",
        429,
        "Se ha alcanzado el límite de peticiones a la API desde la misma conexión a internet.",
        "Espere los segundos que indica Retry-After antes de repetir la petición.",
    )
    MAIL_DELIVERY_FAILED = (
        "mail_delivery_failed",
        500,
        "No hemos podido entregar su mensaje al equipo comercial.",
        (
            "Si details.kept es true, el mensaje ha quedado guardado y nos ocupamos de que llegue: no lo envíe otra"
            " vez. Si es false, no se ha guardado: vuelva a enviarlo más tarde."
        ),
    )
    INVALID_PARAMETER = (
        "invalid_parameter",
        400,
        "Un parámetro de la consulta tiene un valor no admitido.",
        "Utilice uno de los valores de allowed_values.",
    )
    API_VERSION_SUNSET = (
        "api_version_sunset",
        410,
        "Esta versión de la API se ha retirado.",
        (
            "Utilice la versión sucesora que indica la cabecera Link. Para conocer las fechas, consulte"
            " GET /api/versioning con el parámetro version."
        ),
    )
    TOO_FAST = (
        "too_fast",
        429,
        "El formulario se ha enviado demasiado pronto o ha caducado.",
        "Cargue de nuevo el formulario si ha caducado, espere los segundos que indica Retry-After y vuelva a enviarlo.",
    )
    INTERNAL_ERROR = (
        "internal_error",
        500,
        "Se ha producido un error interno.",
        "Inténtelo de nuevo más tarde. Si el error continúa, comuníquelo al equipo comercial.",
    )
    NOT_FOUND = (
        "not_found",
        404,
        "El recurso solicitado no existe.",
        "Revise la ruta; GET /api enumera lo que ofrece el servicio.",
    )
    ENDPOINT_NOT_FOUND = (
        "endpoint_not_found",
        404,
        "La API no tiene ningún recurso en esta ruta.",
        "Revise la ruta; GET /api indica dónde se enumeran los recursos de la versión actual.",
    )
    UNSUPPORTED_API_VERSION = (
        "unsupported_api_version",
        404,
        "La versión de la API solicitada no existe.",
        "Utilice una de las versiones de details.supported.",
    )

    def __new__(cls, code: str, status: int, message: str, hint: str) -> Self:
        """A str with the code, and the rest of the row as attributes."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.status, member.message, member.hint = status, message, hint
        return member


@dataclass(eq=False, repr=False)
class ApiError(Exception):
    """An error response. The error handlers send it in the envelope."""

    code: ErrorCode
    _: KW_ONLY
    details: dict[str, Any] | None = None
    allowed_values: Sequence[str] | None = None
    retry_after: int | None = None  # in whole seconds
