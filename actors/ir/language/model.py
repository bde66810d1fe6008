"""The model of a pipeline, version "1": what a file of `.hm/` or a document in JSON can say.

From this one declaration come the validation, the JSON Schema and the reference in `docs/language.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, WrapSerializer

from actors.ir.built import EVENTS, MOST_INPUTS
from actors.ir.decoding import quoted
from actors.ir.language.names import nearest
from actors.ir.language.scalars import (
    Arguments,
    Audience,
    ChangedGlobs,
    Cron,
    Duration,
    Environment,
    Flag,
    Folder,
    Globs,
    Group,
    Host,
    Image,
    JobFilePath,
    KeptFolders,
    Line,
    Lines,
    NameGlobs,
    OtherPipeline,
    Path,
    Plain,
    Registry,
    Script,
    Size,
    Slug,
    Source,
    Spelling,
    Text,
    Timezone,
    Value,
    Values,
    Variable,
    Variables,
    Whole,
    flag_of,
    is_null,
    one_or_many,
    whole_of,
    wrong,
)
from actors.ir.problems import MATCHERS
from actors.ir.triggers import PULL_REQUEST_TYPES, UPSTREAM_PATTERN, UpstreamValue
from storage import MOST_PREVIEW_HOURS, MOST_SCHEDULES, TriggerState

VERSION = "1"
"""The version of documents of this model."""

_INPUT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_MAX_RETRIES = 10
_MOST_KEPT = 10
_MOST_SERVICES = 8
_MOST_SOURCES = 20
_MOST_REGISTRIES = 20
_MOST_FOLDERS = 16
_LAST_PORT = 65_535
_MOST_EXCLUDED = 100
_MOST_CHOICES = 100
_LOOKERS = ("members", "everyone")
_STATUSES = ("passed", "failed", "always")
_TRIGGER_STATES = tuple(map(str, TriggerState))
_SHARED: dict[str, Any] = {"type": "string", "pattern": "^shared(-[a-z0-9-]{1,63})?$"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_NOTHING: dict[str, Any] = {"type": "null"}


class Strict(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", defer_build=True, populate_by_name=False)


def _empty_if_true(value: object) -> object:
    """Return an empty mapping for ``true``, and None for ``false``."""
    flag = flag_of(value)
    if flag is None:
        return value
    return {} if flag else None


def _event(value: object) -> object:
    """Return an empty mapping for an event without keys, as ``push:`` is in YAML."""
    return {} if isinstance(value, Plain) and value.is_null else _empty_if_true(value)


def _manual(value: object) -> object:
    if not isinstance(value, dict | BaseModel) and not is_null(value) and flag_of(value) is None:
        raise wrong(f"expected true, false or a mapping with inputs, got {quoted(value)}")
    return {} if is_null(value) else _empty_if_true(value)


def _false_if_none(value: object, shown: SerializerFunctionWrapHandler) -> object:
    """Write False for a trigger that is refused; one that is absent would be there by default."""
    return False if value is None else shown(value)


def _retry(value: object) -> object:
    limit = whole_of(value)
    return value if limit is None else {"limit": limit}


def _exit_codes(value: object) -> object:
    return one_or_many(value)


def _types(value: object) -> object:
    for each in value if isinstance(value, list) else [value]:
        if each not in PULL_REQUEST_TYPES:
            raise wrong(f"there is no type {quoted(each)}{nearest(str(each), PULL_REQUEST_TYPES)}")
    return one_or_many(value)


def _problems(value: object) -> object:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, str) or each not in MATCHERS:
            raise wrong(f"there is no problem matcher {quoted(each)}{nearest(str(each), MATCHERS)}")
    return one_or_many(value)


def _kind(value: object) -> bool:
    if flag_of(value) is not True:
        raise wrong(f"it says what kind of input this is: expected true, got {quoted(value)}")
    return True


def _input_name(value: object) -> str:
    if not isinstance(value, str) or not _INPUT.fullmatch(value):
        raise wrong(f'expected the name of an input, of at most 63 letters, digits, "_" and "-", got {quoted(value)}')
    return str(value)


InputName = Annotated[str, Spelling(_input_name, ({"type": "string", "pattern": f"^{_INPUT.pattern}$"},), alone=True)]
Registries = Annotated[
    list[Registry], Field(min_length=1, max_length=_MOST_REGISTRIES), Spelling(one_or_many, ({"type": "string"},))
]
Kind = Annotated[bool, Spelling(_kind, (_BOOLEAN,), alone=True)]
Choices = Annotated[
    list[Line], Field(min_length=1, max_length=_MOST_CHOICES), Spelling(one_or_many, ({"type": "string"},))
]
Types = Annotated[list[Line], Field(min_length=1), Spelling(_types, ({"enum": list(PULL_REQUEST_TYPES)},))]
Problems = Annotated[list[Line], Field(min_length=1), Spelling(_problems, ({"type": "string"},))]
SomeLines = Annotated[Lines, Field(min_length=1)]
SomeValues = Annotated[Values, Field(min_length=1)]
SomePaths = Annotated[ChangedGlobs, Field(min_length=1)]
SomeNames = Annotated[NameGlobs, Field(min_length=1)]
SomeGlobs = Annotated[Globs, Field(min_length=1)]


class PushTrigger(Strict):
    """Pushes to branches. Without keys it wants every branch."""

    branches: SomeNames | None = Field(None, description="Globs of branches; `*` is any characters, `/` too.")
    paths: SomePaths | None = Field(None, description="Globs of files of which one must have changed; `!` excludes.")


class PullRequestTrigger(Strict):
    """New and changed pull requests. Without keys it wants every one."""

    branches: SomeNames | None = Field(None, description="Globs of target branches.")
    types: Types | None = Field(
        None,
        description="`opened`, `synchronize`, `reopened`, `edited`, `ready_for_review` or `closed`. By default the"
        " first three.",
    )
    paths: SomePaths | None = Field(None, description="Globs of files of which one must have changed; `!` excludes.")


class Input(Strict):
    """A value that people may give a build that they ask for. Without a kind it is a text."""

    choice: Choices | None = Field(None, description="The values of which it is one.")
    boolean: Kind | None = Field(None, description="`true` for an input that is `true` or `false`; `false` by default.")
    number: Kind | None = Field(None, description="`true` for an input that is a number.")
    text: Kind | None = Field(None, description="`true` for an input that is a text of one line.")
    default: Value | None = Field(None, description="Its value where nobody gives one; empty without.")
    required: Flag | None = Field(
        None, description="`true` if who asks for a build has to give it; without effect if it has a default."
    )
    help: Line | None = Field(None, description="A sentence to show beside it.")


class Manual(Strict):
    """Builds that people ask for."""

    inputs: Annotated[dict[InputName, Input], Field(max_length=MOST_INPUTS)] | None = Field(
        None, description="The inputs of such a build, by name."
    )


class ScheduleTrigger(Strict):
    """Times at which the head of the default branch is built, as the file on that branch says."""

    cron: Cron = Field(description="Minute, hour, day of month, month, day of week, as in `30 4 * * 1-5`.")
    timezone: Timezone | None = Field(None, description="The time zone, such as `Europe/Berlin`; UTC by default.")


def _upstream(value: object) -> str:
    if not isinstance(value, str) or UpstreamValue.of(value) is None:
        raise wrong(f'expected "inputs.NAME" or "outputs.JOB.NAME", got {quoted(value)}')
    return str(value)


Upstream = Annotated[str, Spelling(_upstream, ({"type": "string", "pattern": UPSTREAM_PATTERN},), alone=True)]
"""A value of the build that is followed."""


def _trigger_state(value: object) -> str:
    if value not in _TRIGGER_STATES:
        raise wrong(f'expected "passed", "failed" or "always", got {quoted(value)}')
    return str(value)


class PipelineTrigger(Strict):
    """Builds of another pipeline's default branch, after which the head of this one's is built."""

    slug: OtherPipeline = Field(
        description="The other pipeline: its name in the same repository, or else its slug in the organization."
        " `acme/base-image` is one of another organization that allows it."
    )
    state: Annotated[str, Spelling(_trigger_state, ({"enum": list(_TRIGGER_STATES)},), alone=True)] | None = Field(
        None, description="The end that is wanted: `passed` by default, `failed` or `always`; never a canceled build."
    )
    inputs: Annotated[dict[InputName, Upstream], Field(max_length=MOST_INPUTS)] | None = Field(
        None,
        description="Inputs that the other build gives, by name. `inputs.NAME` is one of its own, `outputs.JOB.NAME` an"
        " output of its job.",
    )


class Triggers(Strict):
    """The events for which a pipeline is built."""

    push: Annotated[PushTrigger | None, Spelling(_event, (_BOOLEAN, _NOTHING))] = Field(
        None, description="Pushes to branches: `true`, or which."
    )
    pull_request: Annotated[PullRequestTrigger | None, Spelling(_event, (_BOOLEAN, _NOTHING))] = Field(
        None, description="Pull requests: `true`, or which."
    )
    tag: SomeNames | None = Field(None, description="Globs of tags.")
    schedule: Annotated[list[ScheduleTrigger], Field(min_length=1, max_length=MOST_SCHEDULES)] | None = Field(
        None, description="Times at which it is built."
    )
    pipeline: PipelineTrigger | None = Field(None, description="Builds of another pipeline.")
    manual: Annotated[Manual | None, Spelling(_manual, (_BOOLEAN, _NOTHING)), WrapSerializer(_false_if_none)] = Field(
        Manual(inputs=None), description="`false` if people may not ask for builds, or what they may give them."
    )


class Cache(Strict):
    """The policy by which a job's disk is found again.

    The service makes the name of a disk of all that can change it; a policy adds to that.
    """

    files: Globs | None = Field(None, description="Globs of files of the repository whose content is part of the name.")
    days: Annotated[Whole, Field(ge=1, le=3650)] | None = Field(
        None, description="The number of days after which the job runs again, at midnight UTC."
    )
    key: Line | None = Field(None, description="One more part of the name: another key is another disk.")


def _status(value: object) -> str:
    if value not in _STATUSES:
        raise wrong(f'expected "passed", "failed" or "always", got {quoted(value)}')
    return str(value)


def _events(value: object) -> object:
    for each in value if isinstance(value, list) else [value]:
        if each not in EVENTS:
            raise wrong(f"there is no event {quoted(each)}{nearest(str(each), EVENTS)}")
    return one_or_many(value)


def _negated(value: object) -> object:
    if value == {}:
        raise wrong("it says nothing, which always holds: so this condition never does")
    return value


def _workspace(value: object) -> str:
    if not (isinstance(value, str) and re.fullmatch(_SHARED["pattern"], value)):
        raise wrong(f'expected "shared", or "shared-NAME" of a-z, 0-9 and -, got {quoted(value)}')
    return str(value)


Events = Annotated[list[Line], Field(min_length=1), Spelling(_events, ({"enum": list(EVENTS)},))]


class Retry(Strict):
    """The attempts after a failure, each on a new VM."""

    limit: Annotated[Whole, Field(ge=0, le=_MAX_RETRIES)] = Field(description="The most attempts after the first.")
    exit_codes: Annotated[list[Whole], Spelling(_exit_codes, (_INTEGER,))] | None = Field(
        None, description="The exit codes that are tried again; without them all are."
    )
    backoff: Duration | None = Field(None, description="The wait before another attempt.")


class SoftFail(Strict):
    """The failures that neither fail the build nor stop what needs the job."""

    exit_codes: Annotated[list[Whole], Spelling(_exit_codes, (_INTEGER,))] | None = Field(
        None, description="The exit codes that count as such; without them all do."
    )


def _ready(value: object) -> object:
    """Return what a number or a text alone says: a port, or a command."""
    port = whole_of(value)
    if port is not None:
        return {"port": port}
    return {"command": value} if isinstance(value, str) else value


class Ready(Strict):
    """The sign that a service is ready: one of `command`, `port` and `log`."""

    command: Script | None = Field(None, description="A command of its image that passes when it is.")
    port: Annotated[Whole, Field(ge=1, le=_LAST_PORT)] | None = Field(
        None, description="A port that takes connections."
    )
    log: Line | None = Field(None, description="A text that its log has then.")
    timeout: Duration | None = Field(None, description="The most time that it may take; 60 s by default.")


class Service(Strict):
    """A program beside the job's command, such as a database, in the same VM, from an image of its own.

    Its key is its host name.
    """

    image: Image = Field(description="The image, whose entry point, user, folder and variables it has.")
    env: dict[Variable, Text] | None = Field(None, description="Variables of the service.")
    command: Arguments | None = Field(
        None, description="Arguments in place of the image's: a list, or a text that is split at blanks."
    )
    ready: Annotated[Ready, Spelling(_ready, (_INTEGER, {"type": "string"}))] | None = Field(
        None,
        description="A command, a port, or more: the job's command waits for it. Without it, it is the only port that"
        " the image exposes, or the start.",
    )
    files: Annotated[dict[Folder, Folder], Field(max_length=_MOST_FOLDERS)] | None = Field(
        None,
        description="Folders of the service, and the folders of the job's disk that they are: they are kept with it.",
    )
    secrets: Variables | None = Field(
        None, description="Names of secrets to put into the environment of the service, and of the command."
    )
    memory: Size | None = Field(
        None, description="The memory that it needs, such as `2GB`, by which the job has more: all share the sum."
    )
    fails_job: Flag | None = Field(
        None, description="`true` if the job fails when the service ends while the command runs."
    )


Services = Annotated[dict[Host, Service], Field(max_length=_MOST_SERVICES)]


class Common(Strict):
    """The keys of a job that `defaults` may give, too."""

    image: Image | None = Field(None, description="The image that the job starts from.")
    env: dict[Variable, Text] | None = Field(None, description="Variables of the command.")
    timeout: Duration | None = Field(None, description="The most time that an attempt of the job may take.")
    shell: Lines | None = Field(
        None,
        description="The program that gets `run` as its last argument, such as `[python3, -c]`. By default bash ends at"
        " the first failure, also in a pipe (`bash -eo pipefail -c`), or sh where the image has no bash.",
    )
    working_directory: Path | None = Field(None, description="The folder of the workspace that the command runs in.")
    retry: Annotated[Retry, Spelling(_retry, (_INTEGER,))] | None = Field(
        None, description="A number of further attempts, or more about them."
    )
    soft_fail: Annotated[SoftFail | None, Spelling(_empty_if_true, (_BOOLEAN,))] = Field(
        None, description="`true`, or exit codes: a failure that does not fail the build."
    )
    secrets: Variables | None = Field(None, description="Names of secrets to put into the environment.")
    artifacts: Globs | None = Field(None, description="Globs of files to keep, passed or failed.")
    cpu: Annotated[Whole, Field(ge=1)] | None = Field(None, description="The number of vCPUs.")
    memory: Size | None = Field(None, description="The memory, such as `8GB`.")
    disk: Size | None = Field(None, description="The disk, such as `40GB`.")
    network: Flag | None = Field(None, description="`false` for no network.")
    containers: Flag | None = Field(
        None, description="`true` for a job that builds and runs images with Buildah or Podman."
    )
    problems: Problems | None = Field(
        None,
        description="Names of compilers and linters whose lines in the log are annotations, such as `gcc`.",
    )
    services: Services | None = Field(
        None, description="Programs beside the command, by host names; the command also reaches them at `localhost`."
    )
    workspace: Annotated[str, Spelling(_workspace, (_SHARED,), alone=True)] | None = Field(
        None,
        description="`shared` to start with the workspace of the job before, under an own image. That is the job in"
        " `needs` that says the same; the first of such a chain has the source. `shared-NAME` is a workspace"
        " beside it.",
    )


class Matrix(BaseModel):
    """The cells of a job: each combination of one value of each axis is a job of its own.

    Every other key is an axis with its values, which `${{ matrix.AXIS }}` stands for.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)
    __pydantic_extra__: dict[str, Lines] = Field(init=False)

    exclude: Annotated[list[dict[Line, Line]], Field(max_length=_MOST_EXCLUDED)] = Field(
        [], description="Combinations that are left out; an axis not named is any."
    )

    @property
    def axes(self) -> dict[str, list[str]]:
        """The values of each axis."""
        return self.__pydantic_extra__


class Condition(Strict):
    """The builds that a job runs in. Lists mean any of them, keys all of them."""

    branch: SomeNames | None = Field(None, description="Globs of branches. A fork's branch has its author before it.")
    tag: SomeNames | None = Field(None, description="Globs of tags; a build of a branch has none.")
    event: Events | None = Field(None, description="`push`, `tag`, `pull_request`, `schedule`, `pipeline` or `manual`.")
    paths: SomePaths | None = Field(
        None, description="Globs of files of which one must have changed; `!` excludes. It holds where nobody knows."
    )
    repository: SomeLines | None = Field(None, description="Globs of the repository's address.")
    target_branch: SomeNames | None = Field(None, description="Globs of the branch that a pull request is for.")
    fork: Flag | None = Field(None, description="`true` for builds of a fork's pull request, `false` for all others.")
    inputs: Annotated[dict[InputName, SomeValues], Field(min_length=1)] | None = Field(
        None, description="Values of inputs, of which one must be given."
    )
    matrix: Annotated[dict[Line, SomeLines], Field(min_length=1)] | None = Field(
        None, description="Values of axes: the cells that run."
    )
    not_: Annotated[Condition, Spelling(_negated, ())] | None = Field(
        None, alias="not", description="A condition that must not hold."
    )


class When(Condition):
    """The builds that a job runs in, and the ends of what it needs. A job that does not run is skipped."""

    status: Annotated[str, Spelling(_status, ({"enum": list(_STATUSES)},), alone=True)] | None = Field(
        None,
        description="`failed` only after a failure of what it needs, `always` also after one; `passed` by default.",
    )


class Lock(Strict):
    """A lock that jobs of the organization share: few have it at a time, the others wait in order."""

    group: Group = Field(description="Its name; `{branch}` stands for the branch.")
    limit: Annotated[Whole, Field(ge=1, le=1000)] | None = Field(
        None, description="The most jobs that have it at a time; 1 by default."
    )


class Gate(Strict):
    """A gate before a job that deploys: the job waits for the approval that its environment asks for."""

    environment: Environment = Field(
        description="The environment of the organization that the job deploys to, one job at a time."
    )


class Identity(Strict):
    """A token in `$CI_IDENTITY_TOKEN`, by which services that trust this one know the job."""

    audience: Audience = Field(description="The service that takes the token, by its own name, as `sts.amazonaws.com`.")


def _audience_of_preview(value: object) -> str:
    if value not in _LOOKERS:
        raise wrong(f'expected "members" or "everyone", got {quoted(value)}')
    return str(value)


class Preview(Strict):
    """A port that the disk of the job serves once it passed, at an address of its own."""

    port: Annotated[Whole, Field(ge=1, le=_LAST_PORT)] = Field(description="The port at which `run` answers HTTP.")
    run: Script = Field(description="The command that serves it, in the workspace, when somebody looks.")
    for_: Annotated[str, Spelling(_audience_of_preview, ({"enum": list(_LOOKERS)},), alone=True)] | None = Field(
        None, alias="for", description="`members` of the organization, who sign in, by default; or `everyone`."
    )
    hours: Annotated[Whole, Field(ge=1, le=MOST_PREVIEW_HOURS)] | None = Field(
        None,
        description="The hours for which it is there, at most 720. By default until its pull request is closed,"
        " and 24 for other builds.",
    )


class Concurrency(Strict):
    """A group of builds of the organization, few of which run at a time. The others wait in order."""

    group: Group = Field(description="Its name; `{branch}` stands for the branch.")
    limit: Annotated[Whole, Field(ge=1, le=1000)] | None = Field(
        None, description="The most builds that run at a time; 1 by default."
    )
    cancel: Flag | None = Field(
        None, description="`true` if a new build cancels the older ones of the group, whether they wait or run."
    )


class Job(Common):
    """One command, which runs in a VM of its own."""

    name: Line | None = Field(None, description="The name that is shown; by default the job's key.")
    run: Script = Field("", description="The command, of one line or several. **Required** unless `use` has it.")
    entrypoint: Flag | None = Field(
        None,
        description="`true` to run the image's own program in place of `run`. That is its entry point with its"
        " arguments, as root in the workspace.",
    )
    use: JobFilePath | None = Field(
        None,
        description="The file of a job in `.hm`, whose keys this one takes over. It is one as `jobs/test.yml`, or of"
        " another connected repository at a tag or commit, as `acme/ci//jobs/test.yml@v1`.",
    )
    with_: Annotated[dict[InputName, Value], Field(max_length=MOST_INPUTS)] | None = Field(
        None, alias="with", description="The values of the inputs of that file."
    )
    from_: Line | None = Field(None, alias="from", description="The job whose disk this one starts from.")
    needs: Lines | None = Field(None, description="The jobs that have to pass before this one starts.")
    when: When | None = Field(None, description="The builds that it runs in: all without.")
    files: Annotated[dict[Line, SomeGlobs], Field(min_length=1)] | None = Field(
        None, description="Files that other jobs keep as artifacts, by job: globs of them, laid into the workspace."
    )
    files_of: (
        Annotated[
            dict[Source, Annotated[dict[Line, SomeGlobs], Field(min_length=1)]],
            Field(min_length=1, max_length=_MOST_SOURCES),
        ]
        | None
    ) = Field(
        None,
        description="Files of other pipelines' last passed builds, by pipeline and then by job. A branch follows an @,"
        " as in `base-image@release`; without it is the default branch.",
    )
    concurrency: Lock | None = Field(None, description="A lock that the job needs while it runs.")
    gate: Gate | None = Field(None, description="A gate before the job, which people of its environment open.")
    registries: Registries | None = Field(
        None,
        description="Registries whose logins of the organization a job with `containers` gets, by host.",
    )
    identity: Identity | None = Field(None, description="A token by which other services know the job.")
    matrix: Matrix | None = Field(None, description="Axes and their values: the job runs once for each combination.")
    cache: Annotated[Cache | None, Spelling(_empty_if_true, (_BOOLEAN,))] = Field(
        None, description="`true`, or more: a job that has passed once is not run again."
    )
    keep: Annotated[KeptFolders, Field(min_length=1, max_length=_MOST_KEPT)] | None = Field(
        None,
        description="Folders that later builds get, such as `node_modules`. In a mapping each has a name by which"
        " pipelines of the organization share it.",
    )
    preview: Preview | None = Field(
        None, description="A port that the job's disk serves once it passed: a preview of what was built."
    )
    generates: Path | None = Field(
        None,
        description="A file that the command writes, such as `more.yml`. Its jobs join the build once this one passed.",
    )

    def with_defaults(self, defaults: Common | None) -> Job:
        """Return the job with the defaults of its pipeline; a job that starts from a disk takes no image."""
        if defaults is None:
            return self
        given = {name: getattr(defaults, name) for name in defaults.model_fields_set}
        if self.from_ is not None:
            given.pop("image", None)
        more = {name: value for name, value in given.items() if name not in self.model_fields_set}
        if defaults.env and self.env:
            more["env"] = {**defaults.env, **self.env}
        return self.model_copy(update=more)


class JobFile(Job):
    """A job that pipelines take over by `use`; their own keys beside it win."""

    inputs: Annotated[dict[InputName, Input], Field(max_length=MOST_INPUTS)] | None = Field(
        None, description="What `with` may give, which `${{ with.NAME }}` stands for."
    )


def _version(value: object) -> object:
    if value != VERSION:
        raise wrong(f'expected the version "{VERSION}"')
    return VERSION


class Pipeline(Strict):
    """A pipeline: what it is built for, and its jobs."""

    version: Annotated[str, Spelling(_version, ({"const": VERSION},), alone=True)] | None = Field(
        None, description='"1"; a document in JSON has to say it.'
    )
    name: Line | None = Field(None, description="The name that is shown; by default that of the file.")
    slug: Slug | None = Field(None, description="The name in addresses; by default that of the file.")
    on: Triggers | None = Field(None, description="The events that it is built for, besides requests.")
    env: dict[Variable, Text] | None = Field(None, description="Variables of all jobs.")
    timeout: Duration | None = Field(None, description="The most time that a build may take.")
    concurrency: Concurrency | None = Field(None, description="A group of builds, few of which run at a time.")
    defaults: Common | None = Field(None, description="Keys of all jobs that do not have them.")
    jobs: Annotated[dict[Line, Job], Field(min_length=1)] = Field(description="The jobs, by their keys.")

    @property
    def inputs(self) -> dict[str, Input]:
        """The inputs of builds that people ask for."""
        return {} if self.on is None or self.on.manual is None else self.on.manual.inputs or {}
