"""Steps of Woodpecker and Drone, which share a workspace under several images, as jobs. Pure.

A step starts from the disk of the one before it, if that has the same image and runs whenever it does. Else it takes
the workspace as the steps before it left it, under its own image. Where it can have neither, it is told: what only
seems to run is no step.
"""

from __future__ import annotations

import re
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.ir.systems.builds import Filter, all_of, condition, disjoint, within
from actors.ir.systems.conditions import ALWAYS, FAILED, NotSayable
from actors.ir.systems.github_image import IMAGE
from actors.ir.systems.jobs import (
    MAX_CELLS,
    NAME_IN_TEXT,
    SET_HERE,
    check_names,
    in_order,
    label,
    matrix,
    variables_in,
    word,
)
from actors.ir.systems.located import EMPTY, Located, NotReadable
from actors.ir.systems.model import Cell, Job, texts_of
from actors.ir.systems.omissions import LeftOut, only
from actors.ir.systems.paths import NOT_KEPT
from actors.ir.systems.plugins import plugin_settings
from actors.ir.systems.services import services_of_steps
from actors.ir.systems.substitution import Substitution, Unsayable
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actors.ir.systems.builds import Builds, FilterReader
    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.model import Members
    from actors.ir.systems.omissions import Omissions

SHELL = ("sh", "-e", "-c")
"""The shell of all steps."""

_KEYS = frozenset(
    {"name", "image", "commands", "environment", "secrets", "when", "depends_on", "failure", "directory", "pull"}
    | {"settings", "detach", "privileged", "entrypoint", "volumes", "group", "backend_options"}
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_JOBS = 1_000
_TOLD = "people are told of builds by `ci-daemon notify add`"
_NOT_NEEDED = MappingProxyType(
    {
        "cache": NOT_KEPT,
        "codecov": "nothing is sent to this service: send it in a step, with a secret",
        "coveralls": "nothing is sent to this service: send it in a step, with a secret",
        **dict.fromkeys(
            ("slack", "discord", "telegram", "email", "matrix", "mattermost", "rocketchat", "teams", "gotify"), _TOLD
        ),
    }
)
"""Words in the names of plugins without which a pipeline does the same, and their counterparts."""

_PRIVILEGED = re.compile(r"docker|buildx|kaniko|buildah|(^|-)(gcr|ecr|acr|heroku)$")
"""Names of plugins that build images with rights on their host."""

REF = (
    '"$(if [ -n "${CI_TAG:-}" ]; then printf %s "refs/tags/$CI_TAG"; '
    'elif [ -n "${CI_PULL_REQUEST:-}" ]; then printf %s "refs/pull/$CI_PULL_REQUEST/head"; '
    'else printf %s "refs/heads/$CI_BRANCH"; fi)"'
)
"""The ref of a build as Woodpecker and Drone write it, in words of a shell."""

BRANCH = '"$([ -n "${CI_TAG:-}" ] || printf %s "${CI_TARGET_BRANCH:-$CI_BRANCH}")"'
"""The branch as they write it: of a pull request its target, of a tag none."""


@immutable
class Workflow:
    """One workflow: its steps, its filter, its cells, and the workflows that it waits for."""

    name: str
    steps: tuple[tuple[str, Located], ...]
    filter: Filter
    waits_for: tuple[str, ...] = ()
    cells: tuple[Mapping[str, str], ...] = ({},)
    services: Located = EMPTY
    at: Located = field(default_factory=lambda: Located(0, None))


@immutable
class Dialect:
    """The words of a system in its scripts.

    ``variables`` are those that it sets, as words of the shell; those of its own begin with ``prefixes``.
    """

    system: str
    variables: Mapping[str, str]
    prefixes: tuple[str, ...]
    names: Mapping[str, str]
    """Those of them that plugins get, as texts with names of the language."""


@immutable
class _Step:
    """A step that can be a job by itself, with the keys of it in each cell."""

    name: str
    key: str
    at: Located
    needs: tuple[str, ...]
    filter: Filter
    builds: Builds
    members: tuple[Cell, ...]
    pattern: Members | None
    may_fail: bool

    @property
    def images(self) -> list[str]:
        return [str(each.members["image"]) for each in self.members]

    def runs_in(self, cell: Mapping[str, str]) -> bool:
        return all(cell.get(axis, "") in values for axis, values in self.filter.cells.items())

    @property
    def is_plugin(self) -> bool:
        return "entrypoint" in self.members[0].members

    @property
    def passes_on(self) -> bool:
        """Tell whether another step can start from its disk."""
        return not self.may_fail and self.filter.statuses == {"success"}


@immutable
class _Way:
    """The steps that a step needs, the one whose disk it has, if it shares, and what it lacks."""

    needs: tuple[_Step, ...]
    parent: str | None
    shares: bool
    missing: tuple[str, ...]


class WorkflowReader:
    """Makes the jobs of a workflow. What is lost is added to ``omissions``.

    ``finished`` are the jobs of each workflow that is whole. One of several in a pipeline has a ``workspace`` of its
    own name; the only one has none, and names its jobs after its steps.
    """

    def __init__(
        self,
        dialect: Dialect,
        filters: FilterReader,
        omissions: Omissions,
        *,
        workspace: str | None,
        finished: dict[str, list[str]],
    ) -> None:
        self._dialect = dialect
        self._filters = filters
        self._omissions = omissions
        self._alone = workspace is None
        self._workspace = "shared" if workspace is None else f"shared-{workspace}"
        self._jobs = finished
        self._services = EMPTY
        self._of_plugins: dict[str, str] = {}
        """The secrets that plugins get, by the names of their variables."""

    def jobs(self, workflow: Workflow, made: Builds) -> list[Job]:
        """Return the jobs of a workflow, in a pipeline for builds. Those that it waits for come before it."""
        for each in workflow.waits_for:
            if each not in self._jobs:
                why = f"all of it is left out: it waits for {label(each)}, which is not there as a whole"
                self._omissions.lose(workflow.at.get("depends_on"), f"{workflow.name}.depends_on", why)
                return []
        self._services = workflow.services
        kept, lost = self._read(workflow, workflow.filter.builds, made)
        if len(kept) > 1 and workflow.services.value is not None:
            why = "each step has services of its own, which begin anew: what one step leaves in them is not there"
            self._omissions.lose(workflow.services, "services", why)
        found: list[Job] = []
        whole = len(kept) == 1 and not kept[0].filter.cells
        for number in (0,) if whole else range(len(workflow.cells)):
            found += self._of_cell(workflow, kept, made, None if whole else number)
            if len(found) > _MAX_JOBS:
                message = f"its steps become more than {_MAX_JOBS} jobs"
                raise NotReadable(message)
        if not lost:
            self._jobs[workflow.name] = [each.name for each in found]
        return found

    def _of_cell(self, workflow: Workflow, kept: Sequence[_Step], made: Builds, number: int | None) -> list[Job]:
        """Return the jobs of one cell of the matrix; of all of them for None."""
        cell = {} if number is None else workflow.cells[number]
        before = [job for each in workflow.waits_for for job in self._jobs[each]]
        chosen = [each for each in kept if each.runs_in(cell)]
        after_failures = workflow.filter.statuses == {"failure"}
        ways = self._ways(chosen, shared=False)
        if any(each.missing for each in ways):
            ways = self._ways(chosen, shared=True)
        found = []
        for step, way in zip(chosen, ways, strict=True):
            relevant, parent = way.needs, way.parent
            if way.missing:
                self._omissions.lose(step.at, step.key, _lacks(way.missing))
            if after_failures and (step.filter.statuses != {"success"} or (relevant and parent is None)):
                # without its own workflow's disk it would run although nothing has failed
                message = (
                    f"{label(step.name)} is for failures of other workflows, and has an image or status of its own"
                )
                raise NotSayable(message)
            names = {each.name: self._name(workflow, each.name, cell) for each in chosen}
            statuses = workflow.filter.statuses if not relevant else frozenset({"success"})
            needs = [names[each.name] for each in relevant]
            if not (relevant and "failure" in workflow.filter.statuses):
                needs += before
            when = {**condition(step.builds, made), **_status(step.filter.statuses | statuses)}
            if step.filter.statuses == {"failure"} or (after_failures and not relevant):
                when |= FAILED
            more = {"workspace": self._workspace} if way.shares else {}
            given = step.members if number is None else (Cell({}, step.members[number].members),)
            cells = tuple(Cell(each.values, {**each.members, **more}) for each in given)
            pattern = None if step.pattern is None or number is not None else {**step.pattern, **more}
            disk = None if parent is None else names[parent]
            found.append(Job(names[step.name], cells, tuple(needs), pattern, disk, when))
        return found

    def _name(self, workflow: Workflow, step: str, cell: Mapping[str, str]) -> str:
        name = step if self._alone else f"{workflow.name}-{step}"
        return f"{name}-{'-'.join(cell.values())}" if cell else name

    def _ancestors(self, step: _Step, steps: Sequence[_Step]) -> set[str]:
        needs = {each.name: each.needs for each in steps}
        found: set[str] = set()
        ahead = list(step.needs)
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                ahead += needs.get(each, ())
        return found

    def _ways(self, steps: Sequence[_Step], *, shared: bool) -> list[_Way]:
        """Return how each step gets what others leave: by a disk, or if ``shared`` by the workspace.

        A shared workspace goes through all steps before one, also those of other builds, which are skipped.
        """
        chains: dict[str, tuple[str, ...]] = {}
        found = []
        for place, step in enumerate(steps):
            behind = [each for each in steps[:place] if each.name in self._ancestors(step, steps)]
            needs = behind if shared else [each for each in behind if not disjoint(each.builds, step.builds)]
            names = {each.name for each in needs}
            parent = _parent(step, needs, chains)
            before = chains.get(parent or "", ())
            shares = shared
            if shared and not names.issubset(before):
                last = max((chains[each.name] for each in needs), key=len)
                shares = names.issubset(last)
                before, parent = (last, None) if shares else (before, parent)
            chains[step.name] = (step.name, *before)
            found.append(_Way(tuple(needs), parent, shares=shares, missing=tuple(sorted(names.difference(before)))))
        return found

    def _read(self, workflow: Workflow, builds: Builds, made: Builds) -> tuple[list[_Step], bool]:
        """Return the steps that can be jobs, each after those that it waits for, and whether others are lost."""
        graph = any(step.get("depends_on").value is not None for _, step in workflow.steps)
        all_needs: dict[str, tuple[str, ...]] = {}
        for name, step in workflow.steps:
            needs = tuple(each.scalar or "?" for each in step.get("depends_on").items())
            all_needs[name] = needs if graph else tuple(all_needs)
        kept: dict[str, _Step] = {}
        lost: dict[str, Builds] = {}
        unused: set[str] = set()
        located = dict(workflow.steps)
        for name in in_order(all_needs):
            part = self._omissions.of_a_part(None if len(workflow.cells) > 1 else self._name(workflow, name, {}))
            key = f"{workflow.name}.{name}" if not self._alone else name
            try:
                if self._is_not_needed(name, located[name], key):
                    unused.add(name)
                    continue
                read = self._step(workflow, name, key, located[name], builds, part)
                if read is None:
                    unused.add(name)
                    continue
                _check_condition(read, made)
                needs = tuple(each for each in all_needs[name] if each not in unused)
                for each in needs:
                    if each not in kept and (each not in lost or not disjoint(lost[each], read.builds)):
                        why = f"it comes after {label(each)}, which is left out"
                        raise LeftOut(located[name], key, why)
                kept[name] = _with_needs(read, tuple(each for each in needs if each in kept))
                self._omissions.take(part)
            except LeftOut as left_out:
                self._omissions.add_job(left_out)
                lost[name] = self._builds_of(located[name], builds)
        for name in [each for each in all_needs if each not in kept and each not in lost and each not in unused]:
            lost[name] = builds
            self._omissions.add_job(LeftOut(located[name], name, "it waits for itself, through others"))
        return list(kept.values()), bool(lost)

    def _builds_of(self, step: Located, builds: Builds) -> Builds:
        """Return the builds of a step that is left out; all if they are not known."""
        try:
            return all_of(builds, self._filters.read(step.get("when"), "when").builds)
        except (LeftOut, NotSayable):
            return builds

    def _is_not_needed(self, name: str, step: Located, key: str) -> bool:
        """Tell of a plugin without which the others do the same."""
        if step.get("commands").value is not None or step.get("settings").value is None:
            return False
        image = (step.get("image").text or "").rpartition("/")[2].partition(":")[0]
        why = next((why for each, why in _NOT_NEEDED.items() if each in image), None)
        if why is None:
            return False
        self._omissions.add(step, key, f"the plugin {label(image)} is left out: {why}")
        return True

    def _step(
        self, workflow: Workflow, name: str, key: str, step: Located, builds: Builds, omissions: Omissions
    ) -> _Step | None:
        """Return a step; None if it never runs here. Raises LeftOut."""
        only(step, _KEYS, key)
        self._check(step, key)
        found = self._filters.read(step.get("when"), f"{key}.when")
        try:
            own = all_of(builds, found.builds)
        except NotSayable as error:
            raise LeftOut(step.get("when"), f"{key}.when", f"`when` cannot say this filter: {error}") from error
        if not own:
            self._omissions.add(step.get("when"), f"{key}.when", "it never runs: nothing is built for its events")
            return None
        may_fail = step.get("failure").text == "ignore"
        cells = tuple(Cell(cell, self._members(name, key, step, cell, omissions)) for cell in workflow.cells)
        pattern = None
        if len(cells) > 1:
            names = {axis: f"${{{{ matrix.{axis} }}}}" for axis in workflow.cells[0]}
            pattern = self._members(name, key, step, names, omissions, checked=False)
        return _Step(name, key, step, (), found, own, cells, pattern, may_fail)

    def _check(self, step: Located, key: str) -> None:
        if step.get("commands").value is None:
            _check_plugin(step, key)
        elif step.get("settings").value is not None:
            raise LeftOut(step.get("settings"), f"{key}.settings", "settings are of plugins, and it has commands")
        for member, why in (
            ("entrypoint", "commands are run by a shell here, and by no entry point"),
            ("volumes", "jobs share no folders with the host or with each other"),
            ("group", "steps of a group run side by side: write `depends_on` instead"),
            ("backend_options", "they are of another kind of host"),
        ):
            if (given := step.get(member)).items() and given.value != {}:
                raise LeftOut(given, f"{key}.{member}", why)
        for member, why in (
            ("detach", "it runs beside the other steps: start it in the command that needs it"),
            ("privileged", "jobs have no rights on the host: each is root in a VM of its own"),
        ):
            if not (given := step.get(member)).is_off:
                raise LeftOut(given, f"{key}.{member}", why)
        if step.get("failure").scalar not in {None, "ignore", "fail"}:
            raise LeftOut(step.get("failure"), f"{key}.failure", "only ignore and fail are known here")

    def _members(
        self, name: str, key: str, step: Located, cell: Mapping[str, str], omissions: Omissions, *, checked: bool = True
    ) -> Members:
        """Return the keys of a job for one cell. Raises LeftOut."""
        texts = Substitution(self._dialect.system, cell, self._dialect.variables)
        at = step
        try:
            at = step.get("image")
            image = texts.plain(at.text or "")
            if step.get("commands").value is None:
                return self._plugin(name, key, step, image, cell, omissions, checked=checked)
            at = step.get("directory")
            folder = texts.plain(at.text) if at.text is not None else None
            at = step.get("commands")
            commands = at.texts()
            if commands is None:
                raise LeftOut(at, f"{key}.commands", "they are no list of texts")
            script = "\n".join(texts.script(each) for each in commands)
            at = step.get("environment")
            env, words, secrets = self._environment(step, key, texts, omissions)
            at = self._services
            services = self._beside(texts, {**cell, **env}, omissions)
        except Unsayable as error:
            raise LeftOut(at, key, str(error)) from error
        if not IMAGE.fullmatch(re.sub(r"\$\{\{[^{}]*\}\}", "x", image)):
            raise LeftOut(step.get("image"), f"{key}.image", "it is not a plain name of an image")
        if folder is not None and (folder.startswith("/") or ".." in folder.split("/")):
            raise LeftOut(step.get("directory"), f"{key}.directory", "it leads out of the workspace")
        env = {**cell, **env}
        lines = self._beginning(key, step, script, {**env, **words}, name)
        lines += [f"export {each}={value}" for each, value in words.items()]
        shown = f"{name} ({', '.join(cell.values())})" if cell and checked else name
        members: dict[str, Any] = {"name": label(shown), "image": image, "env": env}
        members |= {"run": "\n".join([*lines, script]), "working_directory": folder or None}
        members |= {"services": services, "secrets": secrets, "soft_fail": step.get("failure").text == "ignore"}
        members = {each: value for each, value in members.items() if value}
        if checked:
            check_names(step, key, texts_of(members))
        return members

    def _beside(self, texts: Substitution, of_job: Collection[str], omissions: Omissions) -> Members:
        """Return the services of a step, whose variables ``of_job`` has. Raises LeftOut, and Unsayable."""
        found = services_of_steps(self._services, "services", texts, of_job)
        for name in dict.fromkeys(name for each in found.values() for name in each.get("secrets", ())):
            why = f"set it here, too: `ci-daemon secret set ORG/PIPELINE {name}`"
            omissions.add(self._services, f"services.{name}", why)
        return found

    def _plugin(
        self,
        name: str,
        key: str,
        step: Located,
        image: str,
        cell: Mapping[str, str],
        omissions: Omissions,
        *,
        checked: bool,
    ) -> Members:
        """Return the keys of a job that runs a plugin, the program of an image. Raises LeftOut."""
        if not IMAGE.fullmatch(NAME_IN_TEXT.sub("x", image)):
            raise LeftOut(step.get("image"), f"{key}.image", "it is not a plain name of an image")
        names = self._dialect.names
        in_builds = {each: value for each, value in self._dialect.variables.items() if each not in names}
        texts = Substitution(self._dialect.system, {**names, **cell}, in_builds)
        try:
            env, words, secrets = self._environment(step, key, texts, omissions)
            settings, of_secrets = plugin_settings(step.get("settings"), f"{key}.settings", texts)
            services = self._beside(texts, {**names, **cell, **env, **settings}, omissions)
        except Unsayable as error:
            raise LeftOut(step, key, str(error)) from error
        if words:
            why = f"no shell makes {', '.join(words)} for a plugin: give a plain value, or a secret its own name"
            raise LeftOut(step.get("environment"), f"{key}.environment", why)
        if checked:
            check_names(step, key, (_without(each, names.values()) for each in (*env.values(), *settings.values())))
        for variable, secret in of_secrets.items():
            if self._of_plugins.setdefault(variable, secret) != secret:
                why = f"{variable} is another secret in another step: let both be the same"
                raise LeftOut(step.get("settings"), f"{key}.settings", why)
            why = f"set it here as {variable}: `ci-daemon secret set ORG/PIPELINE {variable}`"
            omissions.add(step.get("settings"), f"{key}.settings.{label(secret)}", why)
        given = ", ".join(sorted(names))
        why = f"of {self._dialect.system}'s own variables the plugin gets these alone: {given}"
        omissions.add(step, f"{key}.image", why)
        shown = f"{name} ({', '.join(cell.values())})" if cell and checked else name
        members: dict[str, Any] = {"name": label(shown), "image": image, "env": {**names, **cell, **env, **settings}}
        members |= {"entrypoint": True, "services": services, "secrets": [*secrets, *of_secrets]}
        members |= {"soft_fail": step.get("failure").text == "ignore"}
        return {each: value for each, value in members.items() if value}

    def _beginning(self, key: str, step: Located, script: str, env: Collection[str], name: str) -> list[str]:
        """Return the lines that set the system's variables that a script takes. Raises LeftOut."""
        lines = []
        for each in variables_in(script, lambda each: each.startswith(self._dialect.prefixes) and each not in env):
            if each.endswith("_STEP_NAME"):
                lines.append(f"export {each}={word(name)}")
            elif each in self._dialect.variables:
                lines.append(f'export {each}={self._dialect.variables[each]}\n[ -n "${each}" ] || unset {each}')
            else:
                why = f"its script uses ${each}, which {self._dialect.system} sets and builds here do not"
                raise LeftOut(step.get("commands"), f"{key}.commands", why)
        return lines

    def _environment(
        self, step: Located, key: str, texts: Substitution, omissions: Omissions
    ) -> tuple[dict[str, str], dict[str, str], list[str]]:
        """Return variables with their values, those that are words of the shell, and names of secrets."""
        given = step.get("environment")
        pairs: dict[str, Located] = dict(given.mapping())
        if not pairs:
            for each in given.items():
                name, sign, rest = (each.text or "").partition("=")
                if not sign:
                    raise LeftOut(each, f"{key}.environment", "it is no mapping of variables")
                pairs[name] = each.with_value(rest)
        env: dict[str, str] = {}
        words: dict[str, str] = {}
        secrets: list[str] = []
        for name, value in pairs.items():
            if not _NAME.fullmatch(name) or name in SET_HERE:
                raise LeftOut(value, f"{key}.environment.{name}", "this is no name that a variable may have here")
            if value.mapping():
                only(value, frozenset({"from_secret"}), f"{key}.environment.{name}")
                secret = value.get("from_secret").text or ""
                self._take(value, f"{key}.environment.{name}", secret, secrets, omissions)
                if secret != name:
                    words[name] = f'"${secret}"'
                continue
            text = "" if value.value is None else value.scalar
            if text is None:
                raise LeftOut(value, f"{key}.environment.{name}", "its value is not a plain text: write it in quotes")
            found, is_word = texts.word(text)
            (words if is_word or name == "CI" else env)[name] = word(found) if name == "CI" and not is_word else found
        for each in step.get("secrets").items():
            source = each.text or each.get("source").text or ""
            target = each.get("target").text or source.upper()
            self._take(each, f"{key}.secrets", target, secrets, omissions)
        return env, words, secrets

    def _take(self, at: Located, key: str, name: str, secrets: list[str], omissions: Omissions) -> None:
        if not _NAME.fullmatch(name) or name in SET_HERE:
            raise LeftOut(at, key, f"{label(name) or 'this'} is no name that a secret may have here")
        if name not in secrets:
            secrets.append(name)
        omissions.add(at, key, f"set it here, too: `ci-daemon secret set ORG/PIPELINE {name}`")


def _parent(step: _Step, before: Sequence[_Step], chains: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the step from whose disk a step starts; None for its image."""
    if step.is_plugin or "failure" in step.filter.statuses:  # the latter also runs where there is no disk
        return None
    fitting = [
        each for each in before if each.images == step.images and each.passes_on and within(step.builds, each.builds)
    ]
    parent = max(fitting, key=lambda each: len(chains[each.name]), default=None)
    return None if parent is None else parent.name


def _lacks(names: Iterable[str]) -> str:
    return (
        f"it waits for {', '.join(map(label, names))}, and does not have what that leaves in the workspace, since the "
        "image or the condition is another: jobs side by side share no workspace here, but `artifacts`"
    )


def _without(text: str, parts: Iterable[str]) -> str:
    for each in parts:
        text = text.replace(each, "")
    return text


def _check_plugin(step: Located, key: str) -> None:
    """Raise LeftOut if a step without commands is no plugin that runs here."""
    name = label((step.get("image").text or "?").rpartition("/")[2].partition(":")[0])
    if _PRIVILEGED.search(name):
        why = f"the plugin {name} has rights on its host: build the image in a step with `containers: true`"
        raise LeftOut(step, f"{key}.image", why)
    if step.get("directory").value is not None:
        raise LeftOut(step.get("directory"), f"{key}.directory", "a plugin runs in the workspace itself")


def _status(statuses: frozenset[str]) -> Condition:
    return ALWAYS if "failure" in statuses else {}


def _check_condition(step: _Step, made: Builds) -> None:
    """Raise LeftOut if `when` cannot say for which builds a step is."""
    try:
        condition(step.builds, made)
    except NotSayable as error:
        why = f"`when` cannot say its filter for pushes and pull requests alike: name the events ({error})"
        raise LeftOut(step.at.get("when"), f"{step.key}.when", why) from error


def _with_needs(step: _Step, needs: tuple[str, ...]) -> _Step:
    return _Step(
        step.name, step.key, step.at, needs, step.filter, step.builds, step.members, step.pattern, step.may_fail
    )


def cells_of(given: Located, key: str) -> tuple[Mapping[str, str], ...]:
    """Return the cells of a matrix, or an empty one. Raises NotReadable."""
    if given.value is None:
        return ({},)
    axes = {name: axis for name, axis in given.mapping().items() if name != "include"}
    found = list(matrix(axes, lambda each: each.scalar, lists=True) or ()) if axes else []
    for each in given.get("include").items():
        values = {name: value.scalar for name, value in each.mapping().items()}
        if not values or None in values.values():
            found = []
            break
        found.append({name: str(value) for name, value in values.items()})
    names = {frozenset(each) for each in found}
    unknown = any(not _NAME.fullmatch(name) or name in SET_HERE for each in found for name in each)
    if not found or len(found) > MAX_CELLS or len(names) != 1 or unknown:
        message = f"line {given.line}: {key}: only lists of plain values are known here, at most {MAX_CELLS} cells"
        raise NotReadable(message)
    return tuple(found)


def steps_of(given: Located) -> tuple[tuple[str, Located], ...]:
    """Return the steps of a list, or of a mapping by name. Raises NotReadable if one is none."""
    pairs = (
        list(given.mapping().items())
        if given.mapping()
        else [(each.get("name").scalar or f"step-{place}", each) for place, each in enumerate(given.items(), 1)]
    )
    if not pairs or not all(each.mapping() for _, each in pairs) or len(dict(pairs)) != len(pairs):
        message = f"line {given.line}: steps: expected steps, each a mapping with a name of its own"
        raise NotReadable(message)
    return tuple(pairs)
