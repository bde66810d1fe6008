"""The language of pipelines in Python, which files of ``.hm`` import as ``ci_daemon.language``.

It travels into the VM of a render, so it needs the standard library alone. What files declare becomes documents of
version "1", which the service checks: the keys of the classes below are those of YAML, with an underscore after
``from``, ``not`` and ``with``, and a mistake has the line of the call that it is in.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Literal, Required, Unpack


class Build:
    """The event and the commit that the pipelines are rendered for.

    Every text is empty where nobody knows it: as `ci-daemon lint` and `render` look at files, and as the service looks
    for the pipelines of a push.
    """

    branch: str
    """The branch. A fork's branch has its author before it."""
    commit: str
    """The commit's hash."""
    number: str
    """The build's number; empty where it has none yet."""
    tag: str
    """The tag; empty for a build of a branch."""
    event: str
    """`push`, `tag`, `pull_request`, `schedule`, `pipeline` or `manual`."""
    pull_request: str
    """The number of the pull request."""
    target_branch: str
    """The branch that the pull request is for."""
    default_branch: str
    """The repository's default branch."""
    repository: str
    """The repository's address."""
    fork: bool
    """True for a build of a fork's pull request."""
    inputs: Inputs
    """The values of the pipeline's inputs by name: those that were given, else their defaults."""
    changed_files: ChangedFiles
    """The files that changed. A name that ends with `/` is in it if a file in this folder is."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._asked = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the types above
        """Return a fact, and remember that the pipelines depend on what is built."""
        if name not in Build.__annotations__:
            msg = f"build has no {name!r}: it has {', '.join(Build.__annotations__)}"
            raise AttributeError(msg)
        self._asked = True
        if name == "inputs":
            return _inputs(self._known.get("inputs", {}))
        if name == "changed_files":
            return ChangedFiles(self._known.get("changed_files"))
        return self._known.get(name, False if name == "fork" else "")


class Inputs(dict):  # type: ignore[type-arg] # of texts
    """The values of a pipeline's inputs, as texts."""

    def __missing__(self, name: object) -> str:
        """Refuse a name that the pipeline does not declare."""
        msg = f"the pipeline declares no input {name!r}: it has {', '.join(self) or 'none'}"
        raise KeyError(msg)


class ChangedFiles(list):  # type: ignore[type-arg] # of texts
    """The files that changed; where nobody knows which, it is empty and yet every name is in it."""

    def __init__(self, names: Sequence[str] | None) -> None:
        """Make it of names; without them they are not known."""
        super().__init__(names or ())
        self.known = names is not None
        """False where nobody knows which files changed."""

    def __contains__(self, name: object) -> bool:
        """Tell whether a file changed, or one in a folder; True where nobody knows."""
        if not self.known:
            return True
        if isinstance(name, str) and name.endswith("/"):
            return any(each.startswith(name) for each in self)
        return super().__contains__(name)


build = Build()
"""The build that the pipelines are rendered for."""


class Job:
    """A job of a pipeline, from whose disk others may start, and which others may need."""

    def __init__(self, key: str) -> None:
        self.key = key

    def then(self, key: str, **keys: Unpack[JobKeys]) -> Job:
        """Declare a job that starts from the disk of this one."""
        return _declare(key, {"from_": self, **keys})


def job(key: str, **keys: Unpack[JobKeys]) -> Job:
    """Declare a job, in the function of a pipeline."""
    return _declare(key, keys)


def pipeline(slug: str, **keys: Unpack[PipelineKeys]) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Make a pipeline of a function that declares its jobs. The slug is its name in addresses."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        registered.append(Declared(function, slug, keys, place))
        return function

    place = _place()
    return register


def files(*globs: str) -> Cache:
    """Return the policy of a job that runs again when the content of these files changes."""
    return {"files": globs}


class Declared:
    """A pipeline that a file declares. Its function runs once all files are loaded."""

    def __init__(
        self, function: Callable[[], object], slug: str, keys: Mapping[str, object], place: tuple[str, int, int]
    ) -> None:
        self.function = function
        self.file, line, column = place
        self._document: dict[str, Any] = {"version": "1", "slug": slug, **_given(keys), "jobs": {}}
        self._marks: list[tuple[list[str], int, int]] = [([], line, column)]

    def document(self) -> dict[str, Any]:
        """Call the function, and return the document with its file and the places of its jobs."""
        _open.append(self)
        try:
            self.function()
        finally:
            _open.pop()
        return {"file": self.file, "document": self._document, "marks": self._marks}

    def add(self, key: str, keys: Mapping[str, object]) -> None:
        """Add a job."""
        jobs = self._document["jobs"]
        if key in jobs:
            msg = f"two jobs have the key {key!r}"
            raise ValueError(msg)
        file, line, column = _place()
        jobs[key] = _job(keys)
        if file == self.file:
            self._marks.append((["jobs", key], line, column))

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """The inputs that it declares; the service tells what is wrong with them."""
        found: Any = self._document
        for key in ("on", "manual", "inputs"):
            found = found.get(key) if isinstance(found, dict) else None
        return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


registered: list[Declared] = []
"""The pipelines of all files that are loaded."""

_open: list[Declared] = []
_RESERVED = {"for_": "for", "from_": "from", "with_": "with"}


def begin(known: Mapping[str, Any]) -> None:
    """Let `build` tell what is built, before files are loaded."""
    build._known = dict(known)  # noqa: SLF001 - of this module
    build._asked = False  # noqa: SLF001 - the same


def asked() -> bool:
    """Tell whether a file looked at what is built."""
    return build._asked  # noqa: SLF001 - of this module


def _inputs(given: Mapping[str, str]) -> Inputs:
    """Return the inputs of the pipeline whose function runs; the service refuses what does not fit."""
    if not _open:
        msg = "build.inputs is of one pipeline: read it in a function with @pipeline(...)"
        raise RuntimeError(msg)
    return Inputs({name: _input(keys, given.get(name)) for name, keys in _open[-1].inputs.items()})


def _input(keys: Mapping[str, Any], given: str | None) -> str:
    choices = keys.get("choice") or (("true", "false") if keys.get("boolean") else None)
    if given is not None and (choices is None or given in choices):
        return given
    default = keys.get("default", not keys.get("boolean") and "")
    return str(default).lower() if isinstance(default, bool) else str(default)


def _declare(key: object, keys: Mapping[str, object]) -> Job:
    if not isinstance(key, str):
        msg = f"the key of a job is a text, and not {key!r}"
        raise TypeError(msg)
    if not _open:
        msg = f"the job {key!r} is in no pipeline: declare it in a function with @pipeline(...)"
        raise RuntimeError(msg)
    _open[-1].add(key, keys)
    return Job(key)


def _job(keys: Mapping[str, object]) -> dict[str, object]:
    of = {"when": _condition, "preview": _preview}
    return {_RESERVED.get(key, key): of[key](each) if key in of else each for key, each in _given(keys).items()}


def _condition(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {"not" if key == "not_" else key: _condition(each) if key == "not_" else each for key, each in value.items()}


def _preview(value: object) -> object:
    return {_RESERVED.get(key, key): each for key, each in value.items()} if isinstance(value, dict) else value


def _given(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the keywords of a call; one that is None was not given."""
    return {key: _value(each) for key, each in keys.items() if each is not None}


def _value(value: object) -> object:
    """Return a value as JSON has it; the service tells what is wrong with it."""
    if isinstance(value, Job):
        return value.key
    if isinstance(value, dict):
        return {_name(key): _value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    msg = f"a pipeline cannot have {value!r}: expected text, a number, True, False, a list or a mapping"
    raise TypeError(msg)


def _name(key: object) -> str:
    if isinstance(key, str):
        return key
    msg = f"a key is a text, and not {key!r}"
    raise TypeError(msg)


def _place() -> tuple[str, int, int]:
    """Return the file, line and column of the call into this module."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - inspect takes long to import
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    if frame is None:
        return "", 1, 1
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a prefix of names
    return frame.f_code.co_filename.removeprefix(here), frame.f_lineno, _column(frame)


def _column(frame: FrameType) -> int:
    """Return the column of a call that begins on the line that runs; 1 where Python does not know it."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return 1
    line, _, column, _ = list(positions())[frame.f_lasti // 2]
    return column + 1 if line == frame.f_lineno and column is not None else 1


# Everything below is made by `make docs` from the model.


class PipelineKeys(TypedDict, total=False):
    """A pipeline: what it is built for, and its jobs."""

    name: str
    """The name that is shown; by default that of the file."""
    on: Triggers
    """The events that it is built for, besides requests."""
    env: Mapping[str, str]
    """Variables of all jobs."""
    timeout: str
    """The most time that a build may take."""
    concurrency: Concurrency
    """A group of builds, few of which run at a time."""
    defaults: Defaults
    """Keys of all jobs that do not have them."""


class Triggers(TypedDict, total=False):
    """The events for which a pipeline is built."""

    push: bool | PushTrigger
    """Pushes to branches: `true`, or which."""
    pull_request: bool | PullRequestTrigger
    """Pull requests: `true`, or which."""
    tag: str | Sequence[str]
    """Globs of tags."""
    schedule: Sequence[ScheduleTrigger]
    """Times at which it is built."""
    pipeline: PipelineTrigger
    """Builds of another pipeline."""
    manual: bool | Manual
    """`false` if people may not ask for builds, or what they may give them."""


class PushTrigger(TypedDict, total=False):
    """Pushes to branches. Without keys it wants every branch."""

    branches: str | Sequence[str]
    """Globs of branches; `*` is any characters, `/` too."""
    paths: str | Sequence[str]
    """Globs of files of which one must have changed; `!` excludes."""


class PullRequestTrigger(TypedDict, total=False):
    """New and changed pull requests. Without keys it wants every one."""

    branches: str | Sequence[str]
    """Globs of target branches."""
    types: Literal["opened", "synchronize", "reopened", "edited", "ready_for_review", "closed"] | Sequence[str]
    """`opened`, `synchronize`, `reopened`, `edited`, `ready_for_review` or `closed`.

    By default the first three.
    """
    paths: str | Sequence[str]
    """Globs of files of which one must have changed; `!` excludes."""


class Manual(TypedDict, total=False):
    """Builds that people ask for."""

    inputs: Mapping[str, Input]
    """The inputs of such a build, by name."""


class Input(TypedDict, total=False):
    """A value that people may give a build that they ask for. Without a kind it is a text."""

    choice: str | Sequence[str]
    """The values of which it is one."""
    boolean: bool
    """`true` for an input that is `true` or `false`; `false` by default."""
    number: bool
    """`true` for an input that is a number."""
    text: bool
    """`true` for an input that is a text of one line."""
    default: str | bool | float
    """Its value where nobody gives one; empty without."""
    required: bool
    """`true` if who asks for a build has to give it; without effect if it has a default."""
    help: str
    """A sentence to show beside it."""


class Ready(TypedDict, total=False):
    """The sign that a service is ready: one of `command`, `port` and `log`."""

    command: str
    """A command of its image that passes when it is."""
    port: int
    """A port that takes connections."""
    log: str
    """A text that its log has then."""
    timeout: str
    """The most time that it may take; 60 s by default."""


class Service(TypedDict, total=False):
    """A program beside the job's command, such as a database, in the same VM, from an image of its own.

    Its key is its host name.
    """

    image: Required[str]
    """The image, whose entry point, user, folder and variables it has."""
    env: Mapping[str, str]
    """Variables of the service."""
    command: str | Sequence[str]
    """Arguments in place of the image's: a list, or a text that is split at blanks."""
    ready: int | str | Ready
    """A command, a port, or more: the job's command waits for it.

    Without it, it is the only port that the image exposes, or the start.
    """
    files: Mapping[str, str]
    """Folders of the service, and the folders of the job's disk that they are: they are kept with it."""
    secrets: str | Sequence[str]
    """Names of secrets to put into the environment of the service, and of the command."""
    memory: str
    """The memory that it needs, such as `2GB`, by which the job has more: all share the sum."""
    fails_job: bool
    """`true` if the job fails when the service ends while the command runs."""


class ScheduleTrigger(TypedDict, total=False):
    """Times at which the head of the default branch is built, as the file on that branch says."""

    cron: Required[str]
    """Minute, hour, day of month, month, day of week, as in `30 4 * * 1-5`."""
    timezone: str
    """The time zone, such as `Europe/Berlin`; UTC by default."""


class PipelineTrigger(TypedDict, total=False):
    """Builds of another pipeline's default branch, after which the head of this one's is built."""

    slug: Required[str]
    """The other pipeline: its name in the same repository, or else its slug in the organization.

    `acme/base-image` is one of another organization that allows it.
    """
    state: Literal["passed", "failed", "always"]
    """The end that is wanted: `passed` by default, `failed` or `always`; never a canceled build."""
    inputs: Mapping[str, str]
    """Inputs that the other build gives, by name.

    `inputs.NAME` is one of its own, `outputs.JOB.NAME` an output of its job.
    """


class Defaults(TypedDict, total=False):
    """The keys of a job that `defaults` may give, too."""

    image: str
    """The image that the job starts from."""
    env: Mapping[str, str]
    """Variables of the command."""
    timeout: str
    """The most time that an attempt of the job may take."""
    shell: str | Sequence[str]
    """The program that gets `run` as its last argument, such as `[python3, -c]`.

    By default bash ends at the first failure, also in a pipe (`bash -eo pipefail -c`), or sh where the image has no
    bash.
    """
    working_directory: str
    """The folder of the workspace that the command runs in."""
    retry: int | Retry
    """A number of further attempts, or more about them."""
    soft_fail: bool | SoftFail
    """`true`, or exit codes: a failure that does not fail the build."""
    secrets: str | Sequence[str]
    """Names of secrets to put into the environment."""
    artifacts: str | Sequence[str]
    """Globs of files to keep, passed or failed."""
    cpu: int
    """The number of vCPUs."""
    memory: str
    """The memory, such as `8GB`."""
    disk: str
    """The disk, such as `40GB`."""
    network: bool
    """`false` for no network."""
    containers: bool
    """`true` for a job that builds and runs images with Buildah or Podman."""
    problems: str | Sequence[str]
    """Names of compilers and linters whose lines in the log are annotations, such as `gcc`."""
    services: Mapping[str, Service]
    """Programs beside the command, by host names; the command also reaches them at `localhost`."""
    workspace: str
    """`shared` to start with the workspace of the job before, under an own image.

    That is the job in `needs` that says the same; the first of such a chain has the source. `shared-NAME` is a
    workspace beside it.
    """


class Concurrency(TypedDict, total=False):
    """A group of builds of the organization, few of which run at a time. The others wait in order."""

    group: Required[str]
    """Its name; `{branch}` stands for the branch."""
    limit: int
    """The most builds that run at a time; 1 by default."""
    cancel: bool
    """`true` if a new build cancels the older ones of the group, whether they wait or run."""


class Lock(TypedDict, total=False):
    """A lock that jobs of the organization share: few have it at a time, the others wait in order."""

    group: Required[str]
    """Its name; `{branch}` stands for the branch."""
    limit: int
    """The most jobs that have it at a time; 1 by default."""


class Gate(TypedDict, total=False):
    """A gate before a job that deploys: the job waits for the approval that its environment asks for."""

    environment: Required[str]
    """The environment of the organization that the job deploys to, one job at a time."""


class Identity(TypedDict, total=False):
    """A token in `$CI_IDENTITY_TOKEN`, by which services that trust this one know the job."""

    audience: Required[str]
    """The service that takes the token, by its own name, as `sts.amazonaws.com`."""


class JobKeys(Defaults, total=False):
    """One command, which runs in a VM of its own."""

    name: str
    """The name that is shown; by default the job's key."""
    run: str
    """The command, of one line or several. **Required** unless `use` has it."""
    entrypoint: bool
    """`true` to run the image's own program in place of `run`.

    That is its entry point with its arguments, as root in the workspace.
    """
    use: str
    """The file of a job in `.hm`, whose keys this one takes over.

    It is one as `jobs/test.yml`, or of another connected repository at a tag or commit, as `acme/ci//jobs/test.yml@v1`.
    """
    with_: Mapping[str, str | bool | float]
    """The values of the inputs of that file."""
    from_: str | Job
    """The job whose disk this one starts from."""
    needs: str | Job | Sequence[str | Job]
    """The jobs that have to pass before this one starts."""
    when: When
    """The builds that it runs in: all without."""
    files: Mapping[str, str | Sequence[str]]
    """Files that other jobs keep as artifacts, by job: globs of them, laid into the workspace."""
    files_of: Mapping[str, Mapping[str, str | Sequence[str]]]
    """Files of other pipelines' last passed builds, by pipeline and then by job.

    A branch follows an @, as in `base-image@release`; without it is the default branch.
    """
    concurrency: Lock
    """A lock that the job needs while it runs."""
    gate: Gate
    """A gate before the job, which people of its environment open."""
    registries: str | Sequence[str]
    """Registries whose logins of the organization a job with `containers` gets, by host."""
    identity: Identity
    """A token by which other services know the job."""
    matrix: Mapping[str, str | Sequence[str | Mapping[str, str]]]
    """Axes and their values: the job runs once for each combination."""
    cache: bool | Cache
    """`true`, or more: a job that has passed once is not run again."""
    keep: str | Sequence[str] | Mapping[str, str]
    """Folders that later builds get, such as `node_modules`.

    In a mapping each has a name by which pipelines of the organization share it.
    """
    preview: Preview
    """A port that the job's disk serves once it passed: a preview of what was built."""
    generates: str
    """A file that the command writes, such as `more.yml`. Its jobs join the build once this one passed."""


class Condition(TypedDict, total=False):
    """The builds that a job runs in. Lists mean any of them, keys all of them."""

    branch: str | Sequence[str]
    """Globs of branches. A fork's branch has its author before it."""
    tag: str | Sequence[str]
    """Globs of tags; a build of a branch has none."""
    event: Literal["push", "tag", "pull_request", "schedule", "pipeline", "manual"] | Sequence[str]
    """`push`, `tag`, `pull_request`, `schedule`, `pipeline` or `manual`."""
    paths: str | Sequence[str]
    """Globs of files of which one must have changed; `!` excludes. It holds where nobody knows."""
    repository: str | Sequence[str]
    """Globs of the repository's address."""
    target_branch: str | Sequence[str]
    """Globs of the branch that a pull request is for."""
    fork: bool
    """`true` for builds of a fork's pull request, `false` for all others."""
    inputs: Mapping[str, str | bool | float | Sequence[str | bool | float]]
    """Values of inputs, of which one must be given."""
    matrix: Mapping[str, str | Sequence[str]]
    """Values of axes: the cells that run."""
    not_: Condition
    """A condition that must not hold."""


class When(Condition, total=False):
    """The builds that a job runs in, and the ends of what it needs. A job that does not run is skipped."""

    status: Literal["passed", "failed", "always"]
    """`failed` only after a failure of what it needs, `always` also after one; `passed` by default."""


class Cache(TypedDict, total=False):
    """The policy by which a job's disk is found again.

    The service makes the name of a disk of all that can change it; a policy adds to that.
    """

    files: str | Sequence[str]
    """Globs of files of the repository whose content is part of the name."""
    days: int
    """The number of days after which the job runs again, at midnight UTC."""
    key: str
    """One more part of the name: another key is another disk."""


class Preview(TypedDict, total=False):
    """A port that the disk of the job serves once it passed, at an address of its own."""

    port: Required[int]
    """The port at which `run` answers HTTP."""
    run: Required[str]
    """The command that serves it, in the workspace, when somebody looks."""
    for_: Literal["members", "everyone"]
    """`members` of the organization, who sign in, by default; or `everyone`."""
    hours: int
    """The hours for which it is there, at most 720.

    By default until its pull request is closed, and 24 for other builds.
    """


class Retry(TypedDict, total=False):
    """The attempts after a failure, each on a new VM."""

    limit: Required[int]
    """The most attempts after the first."""
    exit_codes: int | Sequence[int]
    """The exit codes that are tried again; without them all are."""
    backoff: str
    """The wait before another attempt."""


class SoftFail(TypedDict, total=False):
    """The failures that neither fail the build nor stop what needs the job."""

    exit_codes: int | Sequence[int]
    """The exit codes that count as such; without them all do."""
