"""Types for the fields of bodies and records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

__all__ = [
    "NOT_BLANK",
    "LongText",
    "Moment",
    "RequestBody",
    "RequiredLongText",
    "RequiredText",
    "Text",
    "Timestamp",
    "Uuid",
    "Value",
    "not_blank",
    "stamp",
    "stamp_or_none",
]


def _without_nul(value: str) -> str:
    """Return the string. Raises ValueError if it has a NUL, which no program can be given."""
    if "\0" in value:
        raise ValueError("expected no NUL character")
    return value


def not_blank(value: str) -> str:
    """Return the string. Raises ValueError if it is empty or blank."""
    if not value or value.isspace():
        raise ValueError("expected a string that is not blank")
    return value


def _moment(value: object) -> datetime:
    """Parse a caller's time. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z")


_WITHOUT_NUL = Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})
NOT_BLANK = Field(json_schema_extra={"minLength": 1, "pattern": r"^[^\u0000]*[^\u0000\s][^\u0000]*$"})
"""The JSON Schema of `not_blank`."""

Value = Annotated[str, AfterValidator(_without_nul), _WITHOUT_NUL]
"""A string that a program can be given, of any length."""

Text = Annotated[str, StringConstraints(max_length=255), AfterValidator(_without_nul), _WITHOUT_NUL]
"""A string of at most 255 characters."""

RequiredText = Annotated[Text, AfterValidator(not_blank), NOT_BLANK]
"""A string of 1 to 255 characters, not all of them spaces."""

LongText = Annotated[str, StringConstraints(max_length=10_000), AfterValidator(_without_nul), _WITHOUT_NUL]
"""A message or a description: a string of at most 10,000 characters."""

RequiredLongText = Annotated[LongText, AfterValidator(not_blank), NOT_BLANK]
"""A `LongText` that is not all spaces."""

Timestamp = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00.000000Z"]})
]
"""ISO 8601 in UTC with six fractional digits and ``Z``."""

Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2030-01-01T00:00:00Z"]}),
]
"""A time from a caller, in ISO 8601 with an offset; parsed to an aware datetime in UTC."""

Uuid = Annotated[
    str,
    WithJsonSchema({"type": "string", "format": "uuid", "examples": ["0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"]}),
]


class RequestBody(BaseModel):
    """A request body. Types are not converted, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


def stamp(moment: datetime) -> Timestamp:
    """Format a time as a `Timestamp`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def stamp_or_none(moment: datetime | None) -> Timestamp | None:
    """Format a time as a `Timestamp`; None if there is none."""
    return None if moment is None else stamp(moment)
