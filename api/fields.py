"""Types for the fields of bodies and records, and for query parameters; and the check of a body."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import cache
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from actors.ir import MAX_INPUT_CHARS, MOST_INPUTS, ScheduleTimes
from actors.notifications import checked_events, endpoint_url
from api.errors.catalog import ApiError
from api.operations.body import ABSENT, MAX_LONG_TEXT, MAX_TEXT, BodyField, body_fields
from storage import (
    ENVIRONMENT_NAME,
    BuildEvent,
    EmailInvalid,
    JsonModel,
    Role,
    VerifiedEvent,
    email_address,
    shown_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

    from api.operations.operation import Whole

B = TypeVar("B")
Body = TypeVar("Body", bound=BaseModel)

_KEY = "[key]"
"""The last part of a location in pydantic's errors if the fault is in an object's key, not its value."""

_EXPECTED = {
    "missing": "expected a value, the field is required",
    "string_type": "expected a string",
    "too_long": "expected at most {max_length}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} characters",
    "string_pattern_mismatch": "expected a string that matches {pattern}",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "list_type": "expected an array",
    "literal_error": "expected {expected}",
    "value_error": "{error}",
}


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


def moment(value: object) -> datetime:
    """Parse a caller's time. Raises ValueError."""
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
        if parsed is not None and parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z")


def _whole_number(text: str) -> str:
    """Return the text. Raises ValueError unless it is plain digits: `int` takes spaces and "_" too."""
    if not re.fullmatch(r"[0-9]{1,20}", text, re.ASCII):
        raise ValueError("expected a whole number")
    return text


def _number(text: str) -> str:
    """Return the text. Raises ValueError for ``nan``, spaces and underscores, which `float` also takes."""
    if not re.fullmatch(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?", text, re.ASCII):
        raise ValueError("expected a number")
    return text


def _stamp(moment: datetime) -> str:
    """Format a time as a `Timestamp`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


_WITHOUT_NUL = Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})
NOT_BLANK = Field(json_schema_extra={"minLength": 1, "pattern": r"^[^\u0000]*[^\u0000\s][^\u0000]*$"})
"""The JSON Schema of `not_blank`."""

Value = Annotated[str, AfterValidator(_without_nul), _WITHOUT_NUL]
"""A string that a program can be given, of any length."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(_without_nul), _WITHOUT_NUL]
"""A string of at most 255 characters."""

RequiredText = Annotated[Text, AfterValidator(not_blank), NOT_BLANK]
"""A string of 1 to 255 characters, not all of them spaces."""

LongText = Annotated[str, StringConstraints(max_length=MAX_LONG_TEXT), AfterValidator(_without_nul), _WITHOUT_NUL]
"""A message or a description: a string of at most 10,000 characters."""

RequiredLongText = Annotated[LongText, AfterValidator(not_blank), NOT_BLANK]
"""A `LongText` that is not all spaces."""

VISIBLE = "^[ -~]*[!-~][ -~]*$"
"""The characters of codes, states and nonces (RFC 6749, appendix A), which are not spaces alone."""

OAuthCode = Annotated[str, StringConstraints(max_length=4096, pattern=VISIBLE), Field(examples=["4/0AVMBsJhPq1Vt3kzQ"])]
"""A code or a state with which a provider sends a person back."""

RedirectUri = Annotated[
    str,
    StringConstraints(max_length=2048, pattern="^[!-~]+$"),
    Field(examples=["https://ci.example.org/login/with/google/callback"]),
]
"""The page to which a provider sends a person back."""

CodeVerifier = Annotated[
    str,
    StringConstraints(pattern="^[A-Za-z0-9._~-]{43,128}$"),
    Field(examples=["dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"]),
]
"""The verifier of a code challenge (RFC 7636)."""

ProviderNonce = Annotated[str, StringConstraints(max_length=256, pattern=VISIBLE), Field(examples=["n-0S6_WzA2Mj"])]
"""A nonce that an ID token must have."""

OwnerToken = Annotated[Text, Field(examples=["kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk"])]
"""The token of the link by which the owner of the service signs up."""

ProviderKind = Annotated[str, Field(json_schema_extra={"enum": ["google", "github", "oidc"]})]
"""A kind of identity provider."""

Nonce = Annotated[str, StringConstraints(max_length=256), Field(examples=["q3Zr1LxV0bT8sYkN5wPd7g"])]
"""A nonce of a command line that signs in."""

RequiredNonce = Annotated[Nonce, AfterValidator(not_blank), NOT_BLANK]
LongNonce = Annotated[Nonce, StringConstraints(min_length=16)]
"""A nonce that nobody guesses."""

NonceHash = Annotated[
    str,
    StringConstraints(pattern="^[0-9a-f]{64}$"),
    Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]),
]
"""The SHA-256 of a nonce, in lowercase hex."""

_LOGIN_CODE = Field(examples=["7H3K9QZ2M5RT8WXY"])

LoginCode = Annotated[Text, _LOGIN_CODE]
"""A code that a person types into a command line that signs in."""

RequiredLoginCode = Annotated[RequiredText, _LOGIN_CODE]

WHOLE_NUMBER = BeforeValidator(_whole_number)
"""Makes an ``int`` a whole number in a query; comes last, as the schema has the bounds before it."""

NUMBER = BeforeValidator(_number)
"""Makes a ``float`` a number in a query, such as ``2.5`` or ``1e1``; last, as `WHOLE_NUMBER`."""


def _cron(text: str) -> str:
    return ScheduleTimes(text, "UTC").cron


def _timezone(name: str) -> str:
    return ScheduleTimes("* * * * *", name).timezone


_FIVE_FIELDS = {"pattern": r"^\s*\S+(\s+\S+){4}\s*$", "examples": ["30 4 * * 1-5"]}

Cron = Annotated[RequiredText, AfterValidator(_cron), Field(json_schema_extra=_FIVE_FIELDS)]
"""A cron expression of five fields."""

TimeZone = Annotated[RequiredText, AfterValidator(_timezone), Field(json_schema_extra={"examples": ["Europe/Berlin"]})]
"""The name of an IANA time zone."""

EnvironmentName = Annotated[str, StringConstraints(pattern=ENVIRONMENT_NAME), Field(examples=["production"])]
"""The name of an environment."""

PageUrl = Annotated[
    str,
    StringConstraints(max_length=2000, pattern="^https?://[!-~]+$"),
    Field(examples=["https://shop.example.org"]),
]
"""The URL of a page, to link to."""


def _approver(text: str) -> str:
    if text in set(Role):
        return text
    try:
        return email_address(text)
    except EmailInvalid as error:
        raise ValueError(f"expected an e-mail address, or one of {', '.join(Role)}: {error}") from None


Approvers = Annotated[
    list[Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(_approver)]],
    Field(max_length=50, examples=[["admin", "grace@example.org"]]),
]
"""Roles and e-mail addresses of members."""

SecretValue = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 2**16, "pattern": r"^[^\u0000]*$"})]
"""The value of a secret; the storage checks it."""

_NOT_IN_LIMIT = r"^[^\u0000-\u001f]+$"

LimitPatterns = Annotated[
    list[str],
    Field(
        json_schema_extra={
            "maxItems": 50,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "pattern": _NOT_IN_LIMIT},
            "examples": [["main", "release-*"]],
        }
    ),
]
"""The patterns of a limit; the storage checks them."""

LimitEvents = Annotated[
    list[str],
    Field(
        json_schema_extra={
            "maxItems": 50,
            "items": {"type": "string", "enum": [each.value for each in VerifiedEvent]},
            "examples": [["push"]],
        }
    ),
]
"""The events of a limit; the storage checks them."""

CouponCode = Annotated[RequiredText, Field(examples=["WELCOME-2026"])]
"""The code of a coupon."""

InvitedEmail = Annotated[Text, Field(examples=["grace@example.org"])]
"""The address of an invite; the storage checks it."""

MemberRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})]
"""A role that a member may have; any string is taken, as an unknown one has an error of its own."""

InvitedRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [Role.ADMIN.value, Role.MEMBER.value]})]
"""A role that an invite may give; taken as a `MemberRole` is."""
_MAX_ENV_BYTES = 64 * 2**10
_ENV_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_SOURCE_URL = "https?://[^\\s/?#@]+(?:[/?][^\\s#]*)?"
_SHA256 = "[0-9a-fA-F]{64}"


def _env_name(name: str) -> str:
    if not re.fullmatch(_ENV_NAME, name, re.ASCII):
        raise ValueError("expected letters, digits and underscores, no digit first")
    return name


def _env_within_limit(env: dict[str, str]) -> dict[str, str]:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in env.items())
    if size > _MAX_ENV_BYTES:
        raise ValueError(f"expected at most {_MAX_ENV_BYTES} bytes of names and values in all, not {size}")
    return env


def _source_url(value: str) -> str:
    if value and not re.fullmatch(_SOURCE_URL, value, re.ASCII | re.IGNORECASE):
        raise ValueError("expected the URL of an archive, such as https://example.org/source.tar.gz")
    return value


def _sha256(value: str) -> str:
    if value and not re.fullmatch(_SHA256, value, re.ASCII):
        raise ValueError("expected the SHA-256 as 64 hexadecimal digits")
    return value.lower()


Env = Annotated[
    dict[Annotated[str, AfterValidator(_env_name)], Value],
    AfterValidator(_env_within_limit),
    Field(json_schema_extra={"propertyNames": {"pattern": f"^{_ENV_NAME}$"}}),
]

MAX_RUN_SECONDS = 600

Command = Annotated[
    str,
    StringConstraints(max_length=64 * 2**10),
    AfterValidator(_without_nul),
    AfterValidator(not_blank),
    NOT_BLANK,
    Field(examples=["pytest -x tests/test_cart.py"]),
]
"""A command of a shell."""

Patch = Annotated[
    str, StringConstraints(max_length=2**20), AfterValidator(_without_nul), AfterValidator(not_blank), NOT_BLANK
]
"""A unified diff; the run says whether it fits."""

RunSeconds = Annotated[int, Field(ge=1, le=MAX_RUN_SECONDS, examples=[60])]
"""The time of a command on a fork."""

_INPUT_VALUE = {"anyOf": [{"type": "string", "maxLength": MAX_INPUT_CHARS}, {"type": "boolean"}, {"type": "number"}]}


def _input_value(value: object) -> object:
    """Return a truth value or a number as it is spelled, and all else as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


GivenInputs = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=63)],
        Annotated[
            str,
            StringConstraints(max_length=MAX_INPUT_CHARS),
            AfterValidator(_without_nul),
            BeforeValidator(_input_value),
            WithJsonSchema(_INPUT_VALUE),
        ],
    ],
    Field(max_length=MOST_INPUTS, examples=[{"target": "staging", "dry_run": True}]),
]
"""The inputs of a build by name; whether they fit is known as it is planned."""

SourceUrl = Annotated[
    str,
    StringConstraints(max_length=255),
    AfterValidator(_source_url),
    Field(json_schema_extra={"pattern": f"^(?:{_SOURCE_URL})?$"}),
]

Sha256 = Annotated[
    str,
    StringConstraints(max_length=64),
    AfterValidator(_sha256),
    Field(json_schema_extra={"pattern": f"^(?:{_SHA256})?$"}),
]

BuildSource = Literal["api", "ui", "cli", "webhook", "schedule", "trigger_job"]
"""A label of a build, which the caller chooses and nobody checks."""

_WARNING = 'step "test": the key "runner_args.cpus" has no effect: did you mean "cpu"?'

Warnings = Annotated[tuple[str, ...], Field(examples=[[_WARNING]])]
"""The parts of a pipeline that have no effect."""

_VISIBLE = StringConstraints(min_length=1, max_length=255, pattern=r"^[!-~]+$")
_REPOSITORY_URL = {"examples": ["https://git.example.org/ada/hello"]}

RepositoryUrl = Annotated[str, _VISIBLE, Field(json_schema_extra=_REPOSITORY_URL)]
"""The clone URL of a repository."""

HostToken = Annotated[str, _VISIBLE]
"""A token of a source host."""


def _digits(value: object) -> object:
    """Return the number that a string of digits says; all else as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,16}", value, re.ASCII) else value


InstallationNumber = Annotated[
    int,
    BeforeValidator(_digits),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,16}$"}], "examples": [4711]}
    ),
]
"""The number of an installation at GitHub, also as a string; the operation checks its bounds."""

PaidCents = Annotated[int, Field(examples=[2500], json_schema_extra={"minimum": 100, "maximum": 1_000_000})]
"""The amount of a payment; the operation checks its bounds."""

EndpointUrl = Annotated[
    str,
    StringConstraints(max_length=2000),
    AfterValidator(endpoint_url),
    Field(json_schema_extra={"pattern": "^https?://", "examples": ["https://hooks.example.org/ci"]}),
]
"""The URL of a notification's endpoint."""

EventNames = Annotated[
    list[str],
    AfterValidator(checked_events),
    Field(
        json_schema_extra={
            "minItems": 1,
            "items": {"type": "string", "enum": [each.value for each in BuildEvent]},
            "examples": [[BuildEvent.FIRST_FAILURE, BuildEvent.RECOVERED]],
        }
    ),
]
"""The events of a notification, without repetitions."""

Timestamp = Annotated[
    str,
    BeforeValidator(_stamp),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00.000000Z"]}),
]
"""ISO 8601 in UTC with six fractional digits and ``Z``; made from a datetime."""

Moment = Annotated[
    datetime,
    BeforeValidator(moment),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2030-01-01T00:00:00Z"]}),
]
"""A time from a caller, in ISO 8601 with an offset; parsed to an aware datetime in UTC."""

UUID_SCHEMA: dict[str, Any] = {
    "type": "string",
    "format": "uuid",
    "examples": ["0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"],
}
Uuid = Annotated[str, WithJsonSchema(UUID_SCHEMA)]


Day = Annotated[
    str,
    BeforeValidator(date.isoformat),
    WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-01-01"]}),
]
"""A day in ISO 8601; made from a date."""


_TYPES: Mapping[str, object] = MappingProxyType(
    {
        "datetime": Timestamp,
        "date": Day,
        "Uuid": Uuid,
        "Mapping": Mapping,
        "Warnings": Warnings,
        "LoginCode": LoginCode,
        "ProviderKind": ProviderKind,
    }
)
"""The types of fields by their names in records, whose modules import them for type checkers alone."""


class RequestBody(JsonModel):
    """A request body. Types are not converted, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class StoredRecord(JsonModel):
    """Base of response models that copy fields of a storage record."""

    @classmethod
    def showing(cls, stored: object, **others: object) -> Self:
        """Return a model whose fields are those of ``stored`` by name, except the values in ``others``."""
        for name in cls.__pydantic_fields__:
            if name not in others:
                others[name] = getattr(stored, name)
        record: Self = cls.__pydantic_validator__.validate_python(others)
        return record


class _Shown(StoredRecord):
    """Base of the models that are made of records."""

    @classmethod
    def showing(cls, stored: object, **others: object) -> Self:
        """Return the model of a record, as the record declares it."""
        kind: Any = type(stored)
        shown = {each.name: _shown(getattr(stored, each.attribute)) for each in shown_fields(kind)}
        return super().showing(stored, **shown, **others)


def _shown(value: object) -> object:
    """Return the value of a field; that of a record is its model."""
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    kind: Any = type(value)
    return model_of(kind).showing(value) if hasattr(kind, "__dataclass_fields__") else value


@cache
def model_of(record: Any) -> type[StoredRecord]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of the class of a record (`storage.documents`): its JSON, and its schema."""
    names = {**vars(sys.modules[record.__module__]), **_TYPES}
    fields: dict[str, Any] = {}
    for each in shown_fields(record):
        kind: Any = Uuid if each.attribute.endswith("uuid") else _modelled(eval(each.kind, names))  # noqa: S307 - written in the record
        kind = kind | None if each.nullable else kind
        described = Field(examples=[each.example], description=each.about)
        fields[each.name] = (kind if each.example is None else Annotated[kind, described], ...)
    made: type[StoredRecord] = create_model(
        f"{_noun(record)}Record", __base__=_Shown, __doc__=record.__doc__, __module__=record.__module__, **fields
    )
    return made


def _modelled(kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type in a model of a type in a record."""
    if get_origin(kind) is tuple:
        item: Any = _modelled(get_args(kind)[0])
        return tuple[item, ...]
    if dataclasses.is_dataclass(kind):
        record: Any = kind
        return model_of(record)
    return kind


@cache
def list_model_of(record: Any, whole: Whole) -> Any:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of a whole list of records."""
    kind: Any = model_of(record)
    rows: dict[str, Any] = {whole.key: (list[kind], ...)}
    name, module = whole.name or f"{_noun(record)}List", record.__module__
    return create_model(name, __base__=JsonModel, __doc__=whole.description, __module__=module, **rows)


def _noun(record: type) -> str:
    """Return the noun of a record, by which the document names it."""
    return record.__name__.removesuffix("Record")


@cache
def body_model_of(body: Any) -> type[RequestBody]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the model of the class of a body, whose types are those of this module."""
    types = get_type_hints(body, {**globals(), **vars(sys.modules[body.__module__])}, include_extras=True)
    declared: dict[str, Any] = {
        each.name: (_described(each, _with_choices(types[each.name])), _default(each.default))
        for each in body_fields(body).values()
    }
    made: type[RequestBody] = create_model(
        body.__name__, __base__=RequestBody, __doc__=body.__doc__, __module__=body.__module__, **declared
    )
    return made


def _with_choices(kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field of a body that takes the values of an enum, and makes members of them."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Annotated[Literal[tuple(each.value for each in kind)], AfterValidator(kind)]
    if get_origin(kind) in {Union, UnionType}:
        return Union[tuple(map(_with_choices, get_args(kind)))]  # noqa: UP007 - made of any number
    return kind


def _described(field: BodyField, kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field with what the field says of it."""
    if field.about is None:
        return kind
    least, greatest = field.bounds or (None, None)
    return Annotated[kind, Field(description=field.about, ge=least, le=greatest)]


def _default(value: object) -> Any:  # noqa: ANN401 - as pydantic takes it
    """Return the default of a field in a model; the schema shows none of an absent one."""
    if value is dataclasses.MISSING:
        return ...
    return Field(default_factory=lambda: ABSENT) if value is ABSENT else value


def body_of(document: object, body: type[B]) -> B:
    """Return the parsed body as an object of its class. Raises ApiError ``invalid_body``."""
    kind: Any = body
    checked = check_body(document, body_model_of(kind))
    made: B = kind(**{name: getattr(checked, name) for name in type(checked).__pydantic_fields__})
    return made


def check_body(document: object, model: type[Body]) -> Body:
    """Return the parsed body as the model. Raises ApiError ``invalid_body`` for its first fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ApiError("invalid_body", f"{json_path(fault['loc'])}: {_expected(fault)}") from None


def json_path(location: Sequence[int | str]) -> str:
    """Return a location in a document: ``env.PATH``, ``items[3].name``, or ``$`` for the document itself."""
    named = location[:-1] if location and location[-1] == _KEY else location
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in named)
    return path.removeprefix(".") or "$"


def _expected(fault: ErrorDetails) -> str:
    sentence = _EXPECTED.get(fault["type"])
    return fault["msg"] if sentence is None else sentence.format_map(fault.get("ctx", {}))
