"""Types for the fields of bodies and records, and for query parameters.

`api.models` finds them by the names that bodies and records write at their fields.
"""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from actors.ir import MAX_INPUT_CHARS, MOST_INPUTS, ScheduleTimes
from actors.notifications import checked_events, endpoint_url
from api.body import MAX_LONG_TEXT, MAX_TEXT
from storage import (
    ENVIRONMENT_NAME,
    MACHINE_NAME,
    MAX_REGISTRY_PASSWORD_BYTES,
    MAX_SECRET_BYTES,
    BuildEvent,
    EmailInvalid,
    Role,
    Scope,
    VerifiedEvent,
    email_address,
)


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

MachineName = Annotated[str, StringConstraints(pattern=MACHINE_NAME), Field(examples=["deploy-bot"])]
"""The name of a machine account."""

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

Followers = Annotated[
    list[Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]],
    Field(max_length=100, examples=[["acme", "globex"]]),
]
"""Slugs of organizations."""

SecretValue = Annotated[
    str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_SECRET_BYTES, "pattern": r"^[^\u0000]*$"})
]
"""The value of a secret; the storage checks it."""

RegistryUsername = Annotated[RequiredText, Field(examples=["ci"])]
"""The username of a login at a registry."""

RegistryPassword = Annotated[
    str,
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_REGISTRY_PASSWORD_BYTES, "examples": ["dckr_pat_x7Qm2"]}),
]
"""The password of a login at a registry; the storage checks it."""

SecretSource = Annotated[Annotated[dict[str, str], Field(max_length=10)] | None, Field(examples=[None])]
"""The place that the value of a secret is fetched from; the storage checks it."""

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
_TEST_WORDS = r"\{(tests|suites|pattern)\}"

Command = Annotated[
    str,
    StringConstraints(max_length=64 * 2**10),
    AfterValidator(_without_nul),
    AfterValidator(not_blank),
    NOT_BLANK,
    Field(examples=["pytest -x tests/test_cart.py"]),
]
"""A command of a shell."""


def _names_tests(value: str) -> str:
    if not re.search(_TEST_WORDS, value):
        raise ValueError("expected {tests}, {suites} or {pattern} in it, which stand for the tests")
    return value


TestCommand = Annotated[
    str,
    StringConstraints(max_length=2**12),
    AfterValidator(_without_nul),
    AfterValidator(_names_tests),
    Field(json_schema_extra={"pattern": _TEST_WORDS}, examples=["bundle exec rspec -e {tests}"]),
]
"""A command of a shell with words that stand for tests."""

Patch = Annotated[
    str, StringConstraints(max_length=2**20), AfterValidator(_without_nul), AfterValidator(not_blank), NOT_BLANK
]
"""A unified diff; the run says whether it fits."""

DiskPath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4096),
    AfterValidator(_without_nul),
    Field(examples=["out/junit.xml"]),
]
"""A path on the disk of a job."""

TerminalSize = Annotated[int, Field(ge=1, le=1000, examples=[80])]
"""Columns or rows of a terminal."""

InputNumber = Annotated[int, Field(ge=0, lt=2**53, examples=[0])]
"""The number of a byte of input."""

_MOST_INPUT_BYTES = 16 * 2**10


def _input(text: str) -> str:
    """Return the text. Raises ValueError unless it is Base64."""
    try:
        size = len(b64decode(text, validate=True))
    except ValueError:
        raise ValueError("expected Base64") from None
    if not 0 < size <= _MOST_INPUT_BYTES:
        raise ValueError(f"expected 1 to {_MOST_INPUT_BYTES} bytes")
    return text


_OF_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
TerminalInput = Annotated[
    str,
    StringConstraints(min_length=4, max_length=(_MOST_INPUT_BYTES + 2) // 3 * 4),
    AfterValidator(_input),
    Field(examples=["bHMgLWwN"], json_schema_extra={"pattern": _OF_BASE64}),
]
"""Input of a terminal in Base64."""

Budget = Annotated[int, Field(ge=1, le=100_000_000, examples=[1000])]
"""The most cents that an API key may spend."""

RunSeconds = Annotated[int, Field(ge=1, le=MAX_RUN_SECONDS, examples=[60])]
"""The time of a command on a fork."""

ProofTests = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_without_nul)]],
    Field(min_length=1, max_length=100, examples=[["math::adds"]]),
]
"""Tests, as reports name them."""

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


def _scopes(names: list[str]) -> list[str]:
    if not names or not set(Scope).issuperset(names):
        raise ValueError(f"expected one or more of {', '.join(Scope)}")
    return names


Scopes = Annotated[
    list[str],
    AfterValidator(_scopes),
    Field(
        json_schema_extra={
            "minItems": 1,
            "items": {"type": "string", "enum": [each.value for each in Scope]},
            "examples": [[Scope.START]],
        }
    ),
]
"""The scopes of a token."""

TokenPlace = Annotated[RequiredText, Field(examples=["acme/web"])]
"""The path of an organization or of a pipeline."""

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
