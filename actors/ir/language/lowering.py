"""The jobs of a pipeline of version "1": what the engine plans and runs. Pure."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir.built import CONTAINERS_VARIABLE, NAMED
from actors.ir.decoding import Fault, quoted
from actors.ir.language.beside import ALONE
from actors.ir.language.checking import check, refusal
from actors.ir.language.conditions import matchable, unmet
from actors.ir.language.expansion import Cell, Template, cells_of, with_names
from actors.ir.language.inputs import fitting, variable_of
from actors.ir.language.references import in_order, workspaces_of
from actors.ir.language.scalars import gigabytes_of, is_image, seconds_of
from actors.ir.planning import Definition
from actors.ir.readers import size
from storage import BuildErrorCode, Concurrency, Dependency, EdgeKind, NewJob, PreviewSpec, Service, Shape, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.ir.built import Built
    from actors.ir.language import model
    from actors.ir.language.beside import Beside
    from actors.ir.language.model import Cache, Job, Pipeline
    from actors.ir.language.workspaces import Workspaces
    from actors.ir.settings import IrSettings

_NO_CACHE = "none"
_MOST_CHARS = 255
_READY_SECONDS = 60


def read_pipeline(document: object, limits: IrSettings, built: Built | None) -> Definition:
    """Return the jobs that a document of version "1" describes. Raises IrError with all mistakes."""
    return lowered(check(document), limits, built)


def lowered(pipeline: Pipeline, limits: IrSettings, built: Built | None, beside: Beside = ALONE) -> Definition:
    """Return the jobs of a pipeline for a build, in its order. Raises IrError with what is over a limit.

    If it is not known what is ``built``, every condition holds, and names of the build stand for themselves. The jobs
    ``beside`` these come before them in the build.
    """
    inputs, faults = fitting(pipeline.inputs, {} if built is None else built.inputs, asked=bool(built and built.asked))
    if faults:
        raise refusal(faults)
    variables = {variable_of(name): value for name, value in inputs.items()}
    if built is None:
        names = {f"build.{name}": name for name in NAMED}
    else:
        names, built = built.names, replace(built, inputs=inputs)
    names |= {f"inputs.{name}": value or ("" if built else name) for name, value in inputs.items()}
    env = with_names(dict(pipeline.env or {}), names)
    jobs = {key: job.with_defaults(pipeline.defaults) for key, job in pipeline.jobs.items()}
    built = matchable(built, (job.when for job in jobs.values() for _ in cells_of(job)))
    conditions = _Conditions(built, beside)
    cells: list[_Planned] = []
    left = limits.max_bytes - sum(each.bytes for each in beside.jobs)
    for key in in_order(pipeline):
        job, template = jobs[key], Template(jobs[key])
        for cell in cells_of(job):
            named = template.with_names({**names, **cell.names})
            planned = _Planned(key, cell, named, env, variables, job.name, conditions.skip_reason(key, job, cell))
            cells.append(planned)
            left -= planned.bytes
            if len(beside.jobs) + len(cells) > limits.max_jobs:
                message = f"expected at most {limits.max_jobs} jobs{' in the build' if beside.jobs else ''}"
                raise refusal([Fault(BuildErrorCode.INVALID_IR, message, ("jobs",))])
            if left < 0:
                message = f"expected at most {limits.max_bytes} bytes of commands and env in all jobs together"
                raise refusal([Fault(BuildErrorCode.INVALID_IR, message, ("jobs",))])
    found = [fault for planned in cells for fault in planned.faults(limits)]
    seen: dict[str, _Planned] = {}
    taken = beside.taken
    for planned in cells:
        if planned.key in taken or seen.setdefault(planned.key, planned) is not planned:
            message = f"two jobs have the key {quoted(planned.key)}, as the matrix makes them"
            found.append(Fault(BuildErrorCode.DUPLICATE_KEY, message, ("jobs", planned.of)))
    if found:
        raise refusal(found)
    timeout = None if pipeline.timeout is None else seconds_of(pipeline.timeout)
    dependencies = _dependencies(cells, beside)
    awaited = zip(cells, _with_workspaces(cells, dependencies, workspaces_of(pipeline), beside), strict=True)
    new_jobs = tuple(cell.new_job(each, limits) for cell, each in awaited)
    return Definition(new_jobs, timeout, strict_shell=True, concurrency=_concurrency(pipeline))


def _concurrency(pipeline: Pipeline) -> Concurrency | None:
    declared = pipeline.concurrency
    if declared is None:
        return None
    return Concurrency(declared.group, declared.limit or 1, cancels=declared.cancel is True)


class _Conditions:
    """The conditions of jobs, asked in the order of the plan; it remembers what came before each."""

    def __init__(self, built: Built | None, beside: Beside) -> None:
        self._built = built
        self._running = {each.of for each in beside.jobs if not each.skipped}
        self._awaiting = self._running | {each.of for each in beside.jobs if each.awaits}

    def skip_reason(self, key: str, job: Job, cell: Cell) -> str | None:
        """Return why a cell of a job is skipped, perhaps for want of its disk; None if it is not."""
        files = job.files or {}
        awaits = not self._awaiting.isdisjoint((*(job.needs or ()), *files, job.from_ or ""))
        reason = unmet(job.when, self._built, cell.values or {})
        if reason is None and job.from_ is not None and job.from_ not in self._running:
            reason = f"it starts from the disk of {quoted(job.from_)}, which is skipped"
        if (
            reason is None
            and (skipped := next((name for name in files if name not in self._running), None)) is not None
        ):
            reason = f"it takes the files of {quoted(skipped)}, which is skipped"
        if reason is None and _status(job) == "failed" and not awaits:
            reason = "it runs after a failure, and nothing that it needs runs"
        if reason is None:
            self._running.add(key)
        if reason is None or awaits:
            self._awaiting.add(key)
        return reason


def _status(job: Job) -> str:
    """Return after which ends of what it needs a job runs."""
    return job.when.status or "passed" if job.when is not None else "passed"


@immutable
class _Planned:
    """A cell of a job: its key, the job with names replaced, and the variables of pipeline and inputs.

    ``declared_name`` is the name of the job with its names in text, ``skipped`` why it does not run.
    """

    of: str
    cell: Cell
    job: Job
    of_pipeline: Mapping[str, str]
    of_inputs: Mapping[str, str]
    declared_name: str | None
    skipped: str | None

    @property
    def key(self) -> str:
        return f"{self.of}{self.cell.key}"

    @property
    def name(self) -> str:
        """The name that is shown: it ends with the values of the cell, unless it names them itself."""
        own = self.job.name or self.of
        return (own if self.job.name != self.declared_name else f"{own}{self.cell.name}")[:_MOST_CHARS]

    @property
    def env(self) -> dict[str, str]:
        of_containers = {CONTAINERS_VARIABLE: "true"} if self.job.containers else {}
        return {**self.of_pipeline, **(self.job.env or {}), **self.of_inputs, **of_containers}

    @property
    def bytes(self) -> int:
        texts = (*self._commands.values(), json.dumps(self.services))
        return sum(len(text.encode()) for text in texts) + size(self.env)

    @property
    def _commands(self) -> dict[str, str]:
        """The commands, by their keys."""
        return {"run": self.job.run, **({} if self.job.preview is None else {"preview": self.job.preview.run})}

    @property
    def services(self) -> dict[str, dict[str, object]]:
        return {name: _service(each) for name, each in (self.job.services or {}).items()}

    def faults(self, limits: IrSettings) -> list[Fault]:
        """Return the values over a limit, and the texts that are wrong once their names have values."""
        job, most = self.job, limits.max_shape
        found: list[Fault] = []

        def add(message: str, key: str) -> None:
            found.append(Fault(BuildErrorCode.INVALID_IR, message, ("jobs", self.of, key)))

        if len(self.key) > _MOST_CHARS:
            add(f"the key and the values of the matrix come to more than {_MOST_CHARS} characters", "matrix")
        for name in (key for key, text in self._commands.items() if len(text.encode()) > limits.max_command_bytes):
            add(f"expected at most {limits.max_command_bytes} bytes", name)
        if size(self.env) > limits.max_env_bytes:
            add(f"expected at most {limits.max_env_bytes} bytes of names and values", "env")
        if job.image is not None and not is_image(job.image):
            add(f"expected the name of an image, got {quoted(job.image)}", "image")
        for message, key in _left_to_render(job):
            add(message, key)
        for message in _faults_of(job.services or {}, limits):
            add(message, "services")
        for key, given, limit in (
            ("cpu", job.cpu or 0, most.cpu),
            ("memory", gigabytes_of(job.memory or ""), most.memory_gb),
            ("services", self._memory_gb(limits) if _of_services(job) else 0, most.memory_gb),
            ("disk", gigabytes_of(job.disk or ""), most.disk_gb),
        ):
            if given > limit:
                of_all = " of memory with the job's" if key == "services" else ""
                add(f"expected at most {limit}{'' if key == 'cpu' else 'GB'}{of_all}", key)
        return found

    def _memory_gb(self, limits: IrSettings) -> int:
        return (gigabytes_of(self.job.memory or "") or limits.default_shape.memory_gb) + _of_services(self.job)

    def new_job(self, depends_on: tuple[Dependency, ...], limits: IrSettings) -> NewJob:
        """Return the job."""
        job, default = self.job, limits.default_shape
        policy, key = _cache(job.cache)
        of_services = (name for each in (job.services or {}).values() for name in each.secrets or ())
        return NewJob(
            step_key=self.key,
            name=self.name,
            command=_command(job),
            image=job.image,
            env=self.env,
            shape=Shape(
                job.cpu or default.cpu,
                self._memory_gb(limits),
                gigabytes_of(job.disk or "") or default.disk_gb,
            ),
            timeout_seconds=None if job.timeout is None else seconds_of(job.timeout),
            network=job.network is not False,
            retry_policy=_retry(job),
            soft_fail_policy=None if job.soft_fail is None else {"exit_codes": job.soft_fail.exit_codes},
            artifacts=tuple(job.artifacts or ()),
            secrets=tuple(dict.fromkeys((*(job.secrets or ()), *of_services))),
            cache_policy=policy,
            cache_key=key,
            depends_on=depends_on,
            skipped=self.skipped,
            services=self.services,
            only_after_failure=self.skipped is None and _status(job) == "failed",
            matrix_job=None if self.cell.values is None else self.of,
            matrix=self.cell.values,
            lock=None if job.concurrency is None else job.concurrency.group,
            identity_audience=None if job.identity is None else job.identity.audience,
            registries=tuple(dict.fromkeys(job.registries or ())),
            environment=None if job.gate is None else job.gate.environment,
            lock_limit=1 if job.concurrency is None else job.concurrency.limit or 1,
            files=dict(job.files or {}),
            files_of=dict(job.files_of or {}),
            keep=dict(job.keep or {}),
            generates=job.generates,
            problems=tuple(dict.fromkeys(job.problems or ())),
            preview={} if job.preview is None else _preview(job.preview),
        )


def _left_to_render(job: Job) -> Iterator[tuple[str, str]]:
    """Yield what a document alone does not say, because a render would have put it in, with the keys."""
    if job.cache is not None and job.cache.key is None and (job.cache.files or job.cache.days):
        yield 'a document alone needs a "key" for this policy: `ci-daemon render` writes one', "cache"
    if job.use is not None:
        yield "a document alone has no other files: `ci-daemon render` writes the used job into it", "use"


def _faults_of(services: Mapping[str, model.Service], limits: IrSettings) -> Iterator[str]:
    """Yield the same faults of a job's services: over a limit, or wrong once names have values."""
    for name, service in services.items():
        if not is_image(service.image):
            yield f"{name}: expected the name of an image, got {quoted(service.image)}"
        if size(service.env or {}) > limits.max_env_bytes:
            yield f"{name}: expected at most {limits.max_env_bytes} bytes of names and values"


def _of_services(job: Job) -> int:
    """Return the GB of memory that a job has more for its services."""
    return sum(gigabytes_of(each.memory or "") for each in (job.services or {}).values())


def _service(service: model.Service) -> dict[str, object]:
    """Return a service as its job has it: see `storage.Service`."""
    ready = service.ready
    return Service(
        image=service.image,
        env=dict(service.env or {}),
        command=None if service.command is None else tuple(service.command),
        ready_command=None if ready is None else ready.command,
        ready_port=None if ready is None else ready.port,
        ready_log=None if ready is None else ready.log,
        ready_seconds=_READY_SECONDS if ready is None or ready.timeout is None else seconds_of(ready.timeout),
        files=dict(service.files or {}),
        fails_job=service.fails_job is True,
        secrets=tuple(service.secrets or ()),
    ).document


def _preview(preview: model.Preview) -> dict[str, object]:
    """Return a preview as its job has it: see `storage.PreviewSpec`."""
    everyone = preview.for_ == "everyone"
    return PreviewSpec(preview.port, preview.run, everyone=everyone, hours=preview.hours).document


def _command(job: Job) -> str:
    """Return the command of a job for the service's own shell; it is empty for the program of its image."""
    if job.entrypoint:
        return ""
    command = job.run
    if job.shell is not None:
        command = f"exec {shlex.join([*job.shell, job.run])}"
    if job.working_directory is None:
        return command
    folder = job.working_directory
    return f"cd {shlex.quote(f'./{folder}' if folder.startswith('-') else folder)}\n{command}"


def _retry(job: Job) -> Mapping[str, object] | None:
    if job.retry is None:
        return None
    policy: dict[str, object] = {"limit": job.retry.limit}
    if job.retry.exit_codes is not None:
        policy["exit_codes"] = job.retry.exit_codes
    if job.retry.backoff is not None:
        policy["backoff_seconds"] = seconds_of(job.retry.backoff)
    return policy


def _cache(cache: Cache | None) -> tuple[str, str | None]:
    """Return the policy and the key of a cache; the service adds to the key all that can change what runs."""
    if cache is None:
        return _NO_CACHE, None
    if cache.files is not None and cache.days is not None:
        return "compose", cache.key or ""
    if cache.files is not None:
        return "on_change", cache.key or ""
    return ("ttl" if cache.days is not None else "forever"), cache.key or "true"


def _dependencies(cells: Sequence[_Planned], beside: Beside) -> list[tuple[Dependency, ...]]:
    """Return what each cell waits for, sorted by position; cells of one job wait for the same.

    One that its own condition skips counts as passed, so any end of it will do. It would have passed after what it
    needs itself, so that is waited for as well: no job runs before tests because a job between them is skipped. Cells
    come after the jobs beside them, and wait for the one that generates them.
    """
    before = len(beside.jobs)
    skipped = [each.skipped for each in beside.jobs] + [cell.skipped is not None for cell in cells]
    positions: dict[str, list[int]] = {}
    for position, name in enumerate([*(each.of for each in beside.jobs), *(cell.of for cell in cells)]):
        positions.setdefault(name, []).append(position)
    beyond = {
        position: _running(each.awaits, skipped, lenient=False)
        for position, each in enumerate(beside.jobs)
        if each.skipped
    }
    found: dict[str, tuple[Dependency, ...]] = {}
    for position, cell in enumerate(cells, start=before):
        if cell.of not in found:
            own = {each.position: each for each in _own_dependencies(cell.job, positions)}
            further = _beyond_skipped(own.values(), skipped, beyond)
            lenient = {
                each.position: each._replace(continue_on_failure=True)
                for each in own.values()
                if skipped[each.position] and each.kind is EdgeKind.DEPENDS_ON
            }
            awaited = {**further, **own, **lenient}
            if before and all(each < before for each in awaited):
                awaited.setdefault(beside.maker, Dependency(beside.maker))
            found[cell.of] = tuple(awaited[each] for each in sorted(awaited))
        if cell.skipped is not None:
            beyond[position] = _running(found[cell.of], skipped, lenient=_status(cell.job) == "failed")
    return [found[cell.of] for cell in cells]


def _with_workspaces(
    cells: Sequence[_Planned],
    dependencies: Sequence[tuple[Dependency, ...]],
    workspaces: Workspaces,
    beside: Beside,
) -> Iterator[tuple[Dependency, ...]]:
    """Yield the dependencies of each cell, with a mark at the one whose workspace it takes.

    That is the next of the chain that is not skipped: a job that does not run leaves the workspace as it was.
    """
    before = len(beside.jobs)
    positions = {cell.of: position for position, cell in enumerate(cells, start=before)}
    for cell, awaited in zip(cells, dependencies, strict=True):
        chain = (positions[key] for key in workspaces.taken_by(cell.of))
        taken = next((position for position in chain if cells[position - before].skipped is None), None)
        found = {each.position: each for each in awaited}
        if taken is not None and cell.skipped is None:
            found[taken] = found.get(taken, Dependency(taken))._replace(workspace=True)
        yield tuple(found[each] for each in sorted(found))


def _own_dependencies(job: Job, positions: Mapping[str, list[int]]) -> list[Dependency]:
    always = _status(job) == "always"
    found = [
        Dependency(position, continue_on_failure=always)
        for name in dict.fromkeys((*(job.needs or ()), *(job.files or ())))
        for position in positions[name]
        if name != job.from_
    ]
    if job.from_ is not None:
        (parent,) = positions[job.from_]
        found.append(Dependency(parent, EdgeKind.BUILDS_IN, always))
    return found


def _running(dependencies: Iterable[Dependency], skipped: Sequence[bool], *, lenient: bool) -> dict[int, Dependency]:
    """Return the dependencies on what is not skipped; with ``lenient`` any end satisfies them."""
    return {
        each.position: each._replace(continue_on_failure=lenient or each.continue_on_failure)
        for each in dependencies
        if not skipped[each.position]
    }


def _beyond_skipped(
    own: Iterable[Dependency], skipped: Sequence[bool], beyond: Mapping[int, Mapping[int, Dependency]]
) -> dict[int, Dependency]:
    """Return the dependencies of the skipped ones among some; of two on one job the stricter counts.

    ``beyond`` are those of the skipped cells before it, on what runs.
    """
    found: dict[int, Dependency] = {}
    for each in own:
        if skipped[each.position]:
            for further in beyond[each.position].values():
                lenient = each.continue_on_failure or further.continue_on_failure
                known = found.get(further.position)
                if known is None or known.continue_on_failure:
                    found[further.position] = Dependency(further.position, continue_on_failure=lenient)
    return found
