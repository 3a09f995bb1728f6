"""The error catalogue: every error code, its status and its Spanish texts."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Self


class Where(StrEnum):
    """The operations that can answer an error. A path below a version, such as "/health", can stand in its place."""

    EVERYWHERE = "everywhere"
    API = "/api and everything below it"
    VERSIONS = "everything below a version"
    FORMS = "every path that takes contact forms"
    PARAMETERS = "every operation with a query parameter"
    UNKNOWN_PATHS = "paths that do not exist"


class ErrorCode(StrEnum):
    """The codes that clients branch on: each with its HTTP status, where it can occur, a message and a hint."""

    status: int
    where: str  # a Where or a path below a version
    message: str
    hint: str

    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        Where.EVERYWHERE,
        "El método HTTP no está permitido en esta ruta.",
        "Utilice uno de los métodos que enumera la cabecera Allow.",
    )
    INVALID_BODY = (
        "invalid_body",
        400,
        Where.EVERYWHERE,
        "La petición o su contenido no son válidos.",
        (
            "Envíe, en UTF-8 y con 64 KiB como máximo, un objeto JSON (application/json) o un"
            " formulario (application/x-www-form-urlencoded) que contenga al menos form_type, nombre y email."
        ),
    )
    BAD_CAPTCHA = (
        "bad_captcha",
        400,
        Where.FORMS,
        "El código de verificación no es correcto.",
        "Escriba los caracteres de la imagen o solicite una imagen nueva.",
    )
    INVALID_FORM_TYPE = (
        "invalid_form_type",
        400,
        Where.FORMS,
        "El tipo de formulario no es válido.",
        "Indique en form_type uno de los valores de allowed_values.",
    )
    INVALID_EMAIL = (
        "invalid_email",
        400,
        Where.FORMS,
        "La dirección de correo electrónico falta o no es válida.",
        "Revise el campo email; por ejemplo: nombre@example.com.",
    )
    RATE_LIMIT = (
        "rate_limit",
        429,
        Where.FORMS,
        "Acabamos de recibir otro envío desde la misma conexión a internet.",
        "Espere los segundos que indica Retry-After y vuelva a enviar el formulario.",
    )
    RATE_LIMIT_EXCEEDED = (
        "rate_limit_exceeded",
        429,
        Where.API,
        "Se ha alcanzado el límite de peticiones a la API desde la misma conexión a internet.",
        "Espere los segundos que indica Retry-After antes de repetir la petición.",
    )
    MAIL_DELIVERY_FAILED = (
        "mail_delivery_failed",
        500,
        Where.FORMS,
        "No hemos podido entregar su mensaje al equipo comercial.",
        (
            "Si details.kept es true, el mensaje ha quedado guardado y nos ocupamos de que llegue: no lo envíe otra"
            " vez. Si es false, no se ha guardado: vuelva a enviarlo más tarde."
        ),
    )
    INVALID_PARAMETER = (
        "invalid_parameter",
        400,
        Where.PARAMETERS,
        "Un parámetro de la consulta tiene un valor no admitido.",
        "Utilice uno de los valores de allowed_values.",
    )
    API_VERSION_SUNSET = (
        "api_version_sunset",
        410,
        Where.VERSIONS,
        "Esta versión de la API se ha retirado.",
        (
            "Utilice la versión sucesora que indica la cabecera Link. Para conocer las fechas, consulte"
            " GET /api/versioning con el parámetro version."
        ),
    )
    TOO_FAST = (
        "too_fast",
        429,
        Where.FORMS,
        "El formulario se ha enviado demasiado pronto o ha caducado.",
        "Cargue de nuevo el formulario si ha caducado, espere los segundos que indica Retry-After y vuelva a enviarlo.",
    )
    INTERNAL_ERROR = (
        "internal_error",
        500,
        Where.EVERYWHERE,
        "Se ha producido un error interno.",
        "Inténtelo de nuevo más tarde. Si el error continúa, comuníquelo al equipo comercial.",
    )
    NOT_FOUND = (
        "not_found",
        404,
        Where.UNKNOWN_PATHS,
        "El recurso solicitado no existe.",
        "Revise la ruta; GET /api enumera lo que ofrece el servicio.",
    )
    ENDPOINT_NOT_FOUND = (
        "endpoint_not_found",
        404,
        Where.UNKNOWN_PATHS,
        "La API no tiene ningún recurso en esta ruta.",
        "Revise la ruta; GET /api indica dónde se enumeran los recursos de la versión actual.",
    )
    UNSUPPORTED_API_VERSION = (
        "unsupported_api_version",
        404,
        Where.UNKNOWN_PATHS,
        "La versión de la API solicitada no existe.",
        "Utilice una de las versiones de details.supported.",
    )

    def __new__(cls, code: str, status: int, where: str, message: str, hint: str) -> Self:
        """A str with the code, and the rest of the row as attributes."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.status, member.where, member.message, member.hint = status, where, message, hint
        return member


@dataclass(eq=False, repr=False)
class ApiError(Exception):
    """An error response. The error handlers send it in the envelope."""

    code: ErrorCode
    _: KW_ONLY
    details: dict[str, Any] | None = None
    allowed_values: Sequence[str] | None = None
    retry_after: int | None = None  # in whole seconds
