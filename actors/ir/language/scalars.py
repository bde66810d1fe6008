"""Scalars of the language: a value of YAML is its spelling where text is wanted.

A plain scalar is read as a `Plain`, so that its field decides what it is: ``3.10`` stays ``3.10`` as text, and ``no``
is a text. In JSON every value has its own type.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints
from pydantic_core import PydanticCustomError, core_schema

from actors.ir.decoding import quoted
from actors.ir.schedule_times import ScheduleInvalid, check_cron, check_timezone
from storage import ENVIRONMENT_NAME, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_WHOLE = re.compile(r"[-+]?[0-9]{1,15}")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
_SECONDS = (86_400, 3600, 60, 1)
_MAX_SECONDS = 2**31 - 1
_SIZE = re.compile(r"([0-9]{1,6})\s*(?:GB|GiB|G)")
_JOB_FILE = re.compile(
    r"(?:(?P<repository>[^@\s]+?)//)?(?P<path>(?:[A-Za-z0-9_][\w.+-]*/)+[A-Za-z0-9_][\w.+-]*\.ya?ml)(?:@(?P<pin>[^@\s]+))?"
)
_SHARED_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_PIPELINE = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SOURCE = re.compile(rf"{_PIPELINE.pattern}(@\S+)?")
_REGISTRY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_IMAGE = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OWN_HOSTS = frozenset({"localhost", "vm"})
"""Host names that every job has."""

_CHOICE = re.compile(r"\{[^{}]*,[^{}]*\}|[@+?*!]\([^()]*\|[^()]*\)")
"""A choice in globs of other systems, such as ``{a,b}``, which is no more than its characters here."""

_NOT_IN_NAMES = frozenset("[\\^~ ")
"""Characters that no branch and no tag can have, which begin more in other systems' patterns."""

_NAME = re.compile(r"\$\{\{[^{}]*\}\}")
"""A name in a text, which is replaced before the text is used."""


class Plain(str):
    """A scalar of YAML without quotes; the text is its spelling."""

    __slots__ = ()

    @property
    def is_null(self) -> bool:
        """True if it stands for nothing."""
        return self in _NULL


def wrong(message: str) -> PydanticCustomError:
    """Return the error of a value; the message says what was expected."""
    return PydanticCustomError("language", "{message}", {"message": message})


def is_null(value: object) -> bool:
    """Tell whether a value stands for nothing, in YAML or JSON."""
    return value is None or (isinstance(value, Plain) and value.is_null)


class Spelling:
    """Annotation of a type: what is written for it, read before it is checked.

    ``schemas`` are the JSON Schemas of what may be written besides, or instead if they stand ``alone``.
    """

    def __init__(self, read: Callable[[Any], Any], schemas: tuple[dict[str, Any], ...], *, alone: bool = False) -> None:
        self._read = read
        self._schemas = schemas
        self._alone = alone

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:  # noqa: ANN401 - pydantic's
        """Return the schema by which pydantic validates."""
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, for editors."""
        given = [dict(each) for each in self._schemas]
        if not self._alone:
            given.append(handler(schema))
        return given[0] if len(given) == 1 else {"anyOf": given}


def _text(value: object) -> str:
    if is_null(value):
        raise wrong("expected text, and there is nothing")
    if not isinstance(value, str):
        raise wrong(f"expected text, got {quoted(value)}")
    if "\0" in value:
        raise wrong("expected no NUL character")
    return str(value)


def _line(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise wrong("expected text that is not empty")
    if len(text) > 255:  # noqa: PLR2004 - as every name of the service
        raise wrong("expected at most 255 characters")
    if _CONTROL.search(text):
        raise wrong("expected no control characters")
    return text


def _script(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise wrong("expected a command")
    return text


def spelled(value: object) -> str:
    """Return a text, number or truth value as it is spelled."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else _text(value)


def _whole(value: object) -> int:
    if isinstance(value, Plain) and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is not int:
        raise wrong(f"expected a whole number, got {quoted(value)}")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, Plain) and value in _FLAGS:
        return _FLAGS[value]
    if not isinstance(value, bool):
        raise wrong(f"expected true or false, got {quoted(value)}")
    return value


def flag_of(value: object) -> bool | None:
    """Return a truth value as it is written; None if it is none."""
    if isinstance(value, Plain):
        return _FLAGS.get(value)
    return value if isinstance(value, bool) else None


def whole_of(value: object) -> int | None:
    """Return a whole number as it is written; None if it is none."""
    if isinstance(value, Plain):
        return int(value) if _WHOLE.fullmatch(value) else None
    return value if type(value) is int else None


def seconds_of(text: str) -> int:
    """Return the seconds of a duration such as ``1h30m``; 0 if it is none."""
    found = _DURATION.fullmatch(text)
    return (
        0 if found is None else sum(int(part or 0) * each for part, each in zip(found.groups(), _SECONDS, strict=True))
    )


def _duration(value: object) -> str:
    text = _line(value)
    if not 0 < seconds_of(text) <= _MAX_SECONDS:
        raise wrong(f"expected a time such as 90s, 30m or 1h30m, got {quoted(text)}")
    return text


def gigabytes_of(text: str) -> int:
    """Return the GB of a size such as ``8GB``; 0 if it is none."""
    found = _SIZE.fullmatch(text)
    return 0 if found is None else int(found[1])


def _size(value: object) -> str:
    text = _line(value)
    if not gigabytes_of(text):
        raise wrong(f"expected a size in whole GB such as 8GB, got {quoted(text)}")
    return text


def _variable(value: object) -> str:
    text = _text(value)
    if not _VARIABLE.fullmatch(text):
        raise wrong(f'expected the name of a variable, of letters, digits and "_", got {quoted(text)}')
    return text


def is_image(text: str) -> bool:
    """Tell whether a text can name an image."""
    return _IMAGE.fullmatch(text) is not None


def _image(value: object) -> str:
    text = _line(value)
    if not is_image(_NAME.sub("x", text)):
        raise wrong(f"expected the name of an image such as debian:12, got {quoted(text)}")
    return text


def _path(value: object) -> str:
    text = _line(value)
    if text.startswith("/") or ".." in text.split("/"):
        raise wrong(f"expected a path inside the workspace, got {quoted(text)}")
    return text


def _folder(value: object) -> str:
    text = _line(value)
    if not text.startswith("/") or not {"", ".", ".."}.isdisjoint(text.removeprefix("/").split("/")):
        raise wrong(f"expected a folder's whole path such as /var/lib/data, got {quoted(text)}")
    return text


def _kept_folder(value: object) -> str:
    text = _line(value)
    inside = text.removeprefix("~/").removesuffix("/")
    if "${{" in text:
        raise wrong("names in text are not replaced here")
    if inside.startswith("/") or not {"", ".", "..", "~"}.isdisjoint(inside.split("/")):
        raise wrong(f"expected a folder of the workspace, or one of root's home as ~/.cache/pip, got {quoted(text)}")
    return text.removesuffix("/")


def _kept(value: object) -> object:
    """Return folders with their names of what may be one folder, or a list of them."""
    if isinstance(value, dict):
        return {path: "" if is_null(name) else name for path, name in value.items()}
    folders = one_or_many(value)
    if not isinstance(folders, list) or not all(isinstance(each, str) for each in folders):
        raise wrong("expected folders")
    if len(set(folders)) < len(folders):
        raise wrong("a folder stands in it twice")
    return dict.fromkeys(folders, "")


@immutable
class JobFileName:
    """The name of a file of a job: its path in `.hm`, and whose repository that is, if not one's own.

    ``pin`` is a commit or tag of that repository.
    """

    path: str
    repository: str | None = None
    pin: str | None = None

    @classmethod
    def parse(cls, text: str) -> JobFileName:
        """Return the name that a text is. Raises ValueError."""
        found = _JOB_FILE.fullmatch(text)
        if found is None:
            raise ValueError(text)
        return cls(found["path"], found["repository"], found["pin"])

    def __str__(self) -> str:
        return self.path if self.repository is None else f"{self.repository}//{self.path}@{self.pin}"


def _job_file(value: object) -> str:
    text = _line(value)
    if "${{" in text:
        raise wrong("names in text are not replaced here")
    try:
        name = JobFileName.parse(text)
    except ValueError:
        shown = "jobs/test.yml, or acme/ci//jobs/test.yml@v1 of another repository"
        raise wrong(f"expected a file of a job in .hm, such as {shown}, got {quoted(text)}") from None
    if name.repository is not None and name.pin is None:
        raise wrong(f"pin it to a tag or a whole commit, as in {quoted(f'{text}@v1')}: else it changes under its users")
    if name.repository is None and name.pin is not None:
        raise wrong('a file of this repository has no "@": it is that of the commit that is built')
    return text


def _shared_name(value: object) -> str:
    text = _text(value)
    if text and not _SHARED_NAME.fullmatch(text):
        raise wrong(f"expected a name of a-z, 0-9 and -, got {quoted(text)}")
    return text


def _host(value: object) -> str:
    text = _text(value)
    if not _HOST.fullmatch(text):
        raise wrong(f"expected a host name of a-z, 0-9 and -, of at most 63 characters, got {quoted(text)}")
    if text in _OWN_HOSTS:
        raise wrong(f"the host name {quoted(text)} is the job's own: choose another one")
    return text


def _arguments(value: object) -> object:
    """Return the arguments of a text, which is read as a shell reads words; nothing of it is replaced."""
    if isinstance(value, list):
        return value
    text = _script(value)
    try:
        return shlex.split(_NAME.sub(lambda name: "".join(name[0].split()), text))
    except ValueError as error:
        raise wrong(f"expected arguments, got {quoted(text)}: {str(error).lower()}") from None


def _without_choice(glob: str) -> str:
    if (found := _CHOICE.search(glob)) is not None:
        raise wrong(f"{quoted(found[0])} is no choice here: make an entry of the list for each of its parts")
    return glob


def _changed_glob(value: object) -> str:
    return _without_choice(_path(value))


def _name_glob(value: object) -> str:
    """Return a glob of branches or tags, if it can match any."""
    text = _without_choice(_line(value))
    if text.startswith("!"):
        raise wrong(
            f'nothing is excluded here: list what is wanted, or say it under "not" of "when", got {quoted(text)}'
        )
    if (character := next(filter(_NOT_IN_NAMES.__contains__, _NAME.sub("", text)), None)) is not None:
        raise wrong(f'no branch or tag has {quoted(character)} in its name, and only "*" and "?" stand for others')
    if text.startswith(("/", "refs/heads/", "refs/tags/")):
        raise wrong(
            f'expected a glob of names as "main" or "v*", without a slash or "refs/" before, got {quoted(text)}'
        )
    return text


def _glob(value: object) -> str:
    text = _without_choice(_path(value))
    if text.startswith("!"):
        raise wrong(f"nothing is excluded here: expected a glob of files that are wanted, got {quoted(text)}")
    return text


def _group(value: object) -> str:
    text = _line(value)
    if _NAME.search(text):
        raise wrong("names in text are not replaced here: {branch} stands for the branch")
    return text


def _of_form(form: re.Pattern[str], expected: str) -> Spelling:
    """Return the spelling of a line that has a form, for its reader and in JSON Schema."""

    def read(value: object) -> str:
        text = _line(value)
        if not form.fullmatch(text):
            raise wrong(f"expected {expected}, got {quoted(text)}")
        return text

    return Spelling(read, ({"type": "string", "pattern": f"^{form.pattern}$"},), alone=True)


def _cron(value: object) -> str:
    text = _line(value)
    try:
        check_cron(text)
    except ScheduleInvalid as error:
        raise wrong(str(error)) from None
    return text


def _timezone(value: object) -> str:
    text = _line(value)
    try:
        check_timezone(text)
    except ScheduleInvalid as error:
        raise wrong(f"{error}, got {quoted(text)}") from None
    return text


def one_or_many(value: object) -> object:
    """Return a list as it is, and a single value as a list of one."""
    if isinstance(value, list):
        return value
    if is_null(value):
        raise wrong("expected a list, and there is nothing")
    return [value]


_ANY_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_STRING: dict[str, Any] = {"type": "string"}

Text = Annotated[str, Spelling(_text, (_ANY_SCALAR,), alone=True)]
"""Any text, of any number of lines."""

Line = Annotated[str, Spelling(_line, (_ANY_SCALAR,), alone=True)]
"""A text of one line, of at most 255 characters."""

Value = Annotated[str, Spelling(spelled, ({"anyOf": [_STRING, {"type": "boolean"}, {"type": "number"}]},), alone=True)]
"""A text, a number, or true or false, as it is spelled."""

Script = Annotated[str, Spelling(_script, (_STRING,), alone=True)]
"""A command, or several lines of them."""

Whole = Annotated[int, Spelling(_whole, ({"type": "integer"},), alone=True)]
"""A whole number."""

Flag = Annotated[bool, Spelling(_flag, ({"type": "boolean"},), alone=True)]
"""True or false."""

Duration = Annotated[
    str, Spelling(_duration, ({"type": "string", "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$"},), alone=True)
]
"""A time: days, hours, minutes, seconds."""

Size = Annotated[str, Spelling(_size, ({"type": "string", "pattern": r"^\d+\s*(GB|GiB|G)$"},), alone=True)]
"""A size in GB."""

Variable = Annotated[str, Spelling(_variable, ({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"},), alone=True)]
"""The name of a variable."""

Image = Annotated[str, Spelling(_image, (_STRING,), alone=True)]
"""The name of an image."""

KeptFolders = Annotated[
    dict[
        Annotated[str, Spelling(_kept_folder, (_STRING,), alone=True)],
        Annotated[str, Spelling(_shared_name, ({"type": ["string", "null"]},), alone=True)],
    ],
    Spelling(_kept, (_STRING, {"type": "array", "items": _STRING})),
]
"""Folders to keep, with the names by which pipelines share them: one, a list, or a mapping."""

JobFilePath = Annotated[str, Spelling(_job_file, (_STRING,), alone=True)]
"""The name of a file of a job."""

Path = Annotated[str, Spelling(_path, (_STRING,), alone=True)]
"""A path or glob inside the workspace."""

Glob = Annotated[str, Spelling(_glob, (_STRING,), alone=True)]
"""A path or glob inside the workspace that excludes nothing."""

Group = Annotated[str, Spelling(_group, (_STRING,), alone=True)]
"""The name of a concurrency group or lock."""

Audience = Annotated[Line, StringConstraints(pattern="^[!-~]{1,255}$")]
"""The name of a service that takes tokens."""

Environment = Annotated[Line, StringConstraints(pattern=ENVIRONMENT_NAME)]
"""The name of an environment of the organization."""

Cron = Annotated[str, Spelling(_cron, (_STRING,), alone=True)]
"""Times, as a cron expression of five fields."""

Timezone = Annotated[str, Spelling(_timezone, (_STRING,), alone=True)]
"""The name of a time zone."""

Slug = Annotated[Line, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
"""The name of a pipeline in addresses."""

OtherPipeline = Annotated[str, _of_form(_PIPELINE, 'a pipeline, or one of another organization as "acme/base-image"')]
"""A pipeline by its name, perhaps with its organization before a slash."""

Registry = Annotated[str, _of_form(_REGISTRY, 'the host of a registry, such as "ghcr.io"')]
"""The host of a registry of images, perhaps with its port."""

Source = Annotated[str, _of_form(_SOURCE, 'a pipeline, or one and its branch as "base-image@main"')]
"""A pipeline, perhaps with one of its branches after an @."""

ChangedGlob = Annotated[str, Spelling(_changed_glob, (_STRING,), alone=True)]
"""A path or glob inside the workspace, which excludes if it begins with ``!``."""

NameGlob = Annotated[str, Spelling(_name_glob, (_STRING,), alone=True)]
"""A glob of branches or tags."""

Lines = Annotated[list[Line], Spelling(one_or_many, (_ANY_SCALAR,))]
"""One text, or a list of them."""

Values = Annotated[list[Value], Spelling(one_or_many, (_STRING, {"type": "boolean"}, {"type": "number"}))]
"""One value, or a list of them."""

ChangedGlobs = Annotated[list[ChangedGlob], Spelling(one_or_many, (_STRING,))]
"""One path or glob, or a list of them."""

NameGlobs = Annotated[list[NameGlob], Spelling(one_or_many, (_ANY_SCALAR,))]
"""One glob of branches or tags, or a list of them."""

Globs = Annotated[list[Glob], Spelling(one_or_many, (_STRING,))]
"""One glob of wanted files, or a list of them."""

Variables = Annotated[list[Variable], Spelling(one_or_many, (_STRING,))]
"""One name of a variable, or a list of them."""

Host = Annotated[str, Spelling(_host, ({"type": "string", "pattern": f"^{_HOST.pattern}$"},), alone=True)]
"""A host name of one part."""

Folder = Annotated[str, Spelling(_folder, (_STRING,), alone=True)]
"""The whole path of a folder."""

Arguments = Annotated[list[Text], Spelling(_arguments, (_STRING,))]
"""The arguments of a program: a list, or a text that is split as a shell splits it."""
