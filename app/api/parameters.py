"""The rule of the query parameters: a documented one takes its allowed values and nothing else."""

from dataclasses import dataclass

from app.api.request import request
from app.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """An optional query parameter and the values it takes."""

    name: str
    allowed_values: tuple[str, ...]

    def read(self) -> str | None:
        """The last of the values in the current request; raises ApiError invalid_parameter if one is not allowed."""
        values = request.args.getlist(self.name)
        if not all(value in self.allowed_values for value in values):
            details = {"parameter": self.name}
            raise ApiError(ErrorCode.INVALID_PARAMETER, details=details, allowed_values=self.allowed_values)
        return values[-1] if values else None
