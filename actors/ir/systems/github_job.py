"""One job of a GitHub workflow as a job of the language. Pure.

A job of which a step is left out would run half, so that it is left out as a whole, but for actions whose loss changes
nothing of what the job does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.github_artifacts import DOWNLOAD, UPLOAD, kept_paths
from actors.ir.systems.github_conditions import condition_of
from actors.ir.systems.github_expressions import SET_BY_GITHUB, Environment, expressions, filled
from actors.ir.systems.github_image import SETUPS, action_of, image_of, set_up
from actors.ir.systems.github_matrix import cells_of
from actors.ir.systems.github_outputs import names_outputs
from actors.ir.systems.jobs import MAY_PIPE, check_names, duration, variables_in, word
from actors.ir.systems.jobs import label as one_line
from actors.ir.systems.model import Cell, Job, texts_of
from actors.ir.systems.omissions import LeftOut, UnknownExpression, only
from actors.ir.systems.paths import KEPT, MOST_FOLDERS, NOT_KEPT, kept_folders
from actors.ir.systems.services import services_of_github
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.ir.systems.github_artifacts import Artifacts, Downloads
    from actors.ir.systems.github_outputs import JobOutputs, Output, Outputs
    from actors.ir.systems.located import Located
    from actors.ir.systems.model import Members
    from actors.ir.systems.omissions import Omissions

_NOTES = MappingProxyType(
    {
        "permissions": "jobs here get no token of the other system, so that there is nothing to permit",
        "concurrency": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` "
        "lets them take turns",
    }
)
"""Members of a job that it can do without, and what that costs."""

_KNOWN = frozenset(
    {"name", "runs-on", "container", "steps", "needs", "env", "strategy", "timeout-minutes", "continue-on-error"}
    | {"defaults", "if", "services", "outputs", *_NOTES}
)
_WHY = MappingProxyType(
    {
        "uses": "it calls another workflow: copy its jobs into this one",
        "environment": "an environment may wait for a review and has secrets of its own: make it a pipeline of its "
        "own, which somebody starts",
    }
)
_RUN = frozenset({"name", "id", "run", "env", "working-directory", "shell", "continue-on-error", "timeout-minutes"})
_RUNNER = re.compile(r"ubuntu-(latest|slim|\d\d\.\d\d)|docker")
"""GitHub's own runners of Ubuntu on x86-64, and the label that runners of Forgejo have."""

_SHELLS = {"bash": "bash --noprofile --norc -eo pipefail -c", "sh": "sh -e -c"}
_UNSAID = {True: "sh -e -c", False: "bash -e -c"}
"""The shell of a step that names none: inside of a container, and on the runner itself."""

_CHECKOUT = MappingProxyType(
    {
        "submodules": "a push has submodules only after `ci-daemon repo edit --submodules`",
        "lfs": "a push has the files of git LFS only after `ci-daemon repo edit --lfs`",
        "fetch-depth": "builds have the last 50 commits, whatever this says",
        "fetch-tags": "builds have the tags of the last 50 commits, whatever this says",
        "persist-credentials": "there are no credentials in the checkout here",
        "token": "the repository's own credentials are used: `ci-daemon repo connect`",
        "clean": "the source is fresh for each job",
        "set-safe-directory": "the source belongs to root, as the steps do",
        "show-progress": "it changes the log alone",
    }
)
_SETUP = MappingProxyType(
    dict.fromkeys(
        ("check-latest", "token"),
        "the image has the version that its name says",
    )
)
_UPLOAD = MappingProxyType(
    dict.fromkeys(
        ("retention-days", "compression-level", "overwrite", "include-hidden-files"),
        "the owner of the service decides how artifacts are kept",
    )
)
_WITHOUT = MappingProxyType(
    {
        "codecov/codecov-action": "nothing is sent to this service: send it in a step, with a secret",
        "coverallsapp/github-action": "nothing is sent to this service: send it in a step, with a secret",
        "step-security/harden-runner": "each job has a VM of its own; `network: false` closes it",
    }
)
"""Actions without which a job does the same."""

_OF_CONTAINERS = "build, push and run images with `containers: true`, by `buildah` and `podman`"
_CACHES = frozenset({"actions/cache", "actions/cache/restore", "actions/cache/save"})
_SAVED = MappingProxyType({("python", "pip"): "~/.cache/pip", ("node", "npm"): "~/.npm"})
"""The folders that an action for a language saves, where images have them at the same place."""

_ANYWAY = frozenset({"always()", "success() || failure()", "${{ always() }}", "!cancelled()", "${{ !cancelled() }}"})
_SUDO = """\
command -v sudo > /dev/null || {
cat > /usr/local/bin/sudo << 'END'
#!/bin/sh
# Steps run as root, so that sudo needs only to start the command.
user=root
while :; do
  case "${1-}" in
    -[EHnS] | -EH | -HE | --preserve-env* | --set-home | --non-interactive) shift ;;
    -u | --user) user=$2; shift 2 ;;
    --) shift; break ;;
    -* | '') echo "sudo: '${1-}' is not known here" >&2; exit 1 ;;
    *) break ;;
  esac
done
[ "$user" = root ] || exec runuser -u "$user" -- env "$@"
exec env "$@"
END
chmod +x /usr/local/bin/sudo
}"""
"""Images lack it, and GitHub's runner has it."""

_TOKENS = frozenset({"GITHUB_TOKEN", "GITEA_TOKEN", "FORGEJO_TOKEN"})
_MAX_MINUTES = 60 * 24 * 30


class JobReader:
    """Makes jobs; ``env``, ``defaults``, ``artifacts`` and ``outputs`` are those of the workflow."""

    def __init__(
        self, omissions: Omissions, env: Environment, defaults: Located, artifacts: Artifacts, outputs: JobOutputs
    ) -> None:
        self._omissions = omissions
        self._env = env
        self._defaults = defaults
        self._artifacts = artifacts
        self._outputs = outputs

    def job(self, name: str, job: Located) -> Job:
        """Return a job, with a cell for each combination of its matrix. Raises LeftOut."""
        key = f"jobs.{name}"
        if not job.mapping():
            raise LeftOut(job, key, "it is no mapping")
        for member in job.mapping():
            if member not in _KNOWN:
                why = _WHY.get(member, f"{member} has no counterpart here")
                raise LeftOut(job.get(member), f"{key}.{member}", why)
        needs = job.get("needs").texts()
        if needs is None:
            raise LeftOut(job.get("needs"), f"{key}.needs", "what it needs is no list of names")
        when = condition_of(job.get("if"), f"{key}.if", self._omissions)
        cells = cells_of(key, job.get("strategy"), self._omissions)
        for cell in cells:
            _check_runner(key, job, cell)
        self._omissions.told(job, _NOTES, f"{key}.")
        found = []
        files: list[Mapping[str, tuple[str, ...]]] = []
        outputs_of: dict[str, None] = {}
        if self._outputs.of(name).given and len(cells) > 1:
            why = "of its cells the last one in the build that gives an output counts, not the last one to end"
            self._omissions.add(job.get("outputs"), f"{key}.outputs", why)
        for cell in cells:
            each = self._cell(self._omissions, name, job, cell)
            found.append(Cell(cell, each.members(self._env)))
            files.append(each.files)
            outputs_of |= each.outputs.jobs
            check_names(job, key, texts_of(found[-1].members))
        if any(each != files[0] for each in files):
            raise LeftOut(job, f"{key}.steps", "its cells take different files: write a job for each")
        needs = tuple(dict.fromkeys((*needs, *files[0])))
        pattern = self._pattern(name, job, cells)
        return Job(name, tuple(found), needs, pattern, when=when, files=files[0], outputs_of=tuple(outputs_of))

    def _cell(self, omissions: Omissions, name: str, job: Located, cell: Mapping[str, str]) -> _Cell:
        downloads, outputs = self._artifacts.before(name), self._outputs.of(name)
        return _Cell(omissions, f"jobs.{name}", name, job, cell, self._defaults, downloads, outputs)

    def _pattern(self, name: str, job: Located, cells: Sequence[Mapping[str, str]]) -> Members | None:
        """Return the keys with names of the matrix for its values; None if they cannot stand there."""
        if len(cells) == 1 or any(set(each) != set(cells[0]) for each in cells):
            return None
        names = {axis: f"${{{{ matrix.{axis} }}}}" for axis in cells[0]}
        try:
            members = self._cell(self._omissions.of_a_part(), name, job, names).members(self._env)
        except LeftOut:
            return None
        suffix = f" ({', '.join(names.values())})"
        return {**members, "name": members["name"].removesuffix(suffix)}


def _check_runner(key: str, job: Located, cell: Mapping[str, str]) -> None:
    labels = job.get("runs-on").texts() or ()
    try:
        known = len(labels) == 1 and _RUNNER.fullmatch(filled(labels[0], cell))
    except UnknownExpression:
        known = None
    if not known:
        why = "only GitHub's own runners of Ubuntu on x86-64, and the label docker, are known here"
        at = job.get("runs-on") if job.get("runs-on").line else job
        raise LeftOut(at, f"{key}.runs-on", why)


@immutable
class _Command:
    """A step that runs a script: the program, variables that are set for it alone, its folder.

    One that is ``tolerant`` may fail. Of one with a ``step``, the id of it, others take outputs.
    """

    program: str
    script: str
    assigned: str = ""
    directory: str | None = None
    tolerant: bool = False
    step: str | None = None

    def __str__(self) -> str:
        command = f"{self.assigned}{self.program} {word(self.script)}"
        check, line = "", "\n"
        if self.step is not None:
            command = f'GITHUB_OUTPUT="$outputs/{self.step}" {command}'
            check = f"{' && ' if self.tolerant else line}output {self.step} > /dev/null"
        if self.directory is not None:
            command = f"(cd -- {word(self.directory)} && {command})"
        return f"{command}{check} || true" if self.tolerant else f"{command}{check}"

    @property
    def may_stand_alone(self) -> bool:
        """Tell whether the script can be that of a job."""
        folder = self.directory or "."
        inside = not folder.startswith("/") and ".." not in folder.split("/") and one_line(folder) == folder
        return inside and not (self.assigned or self.tolerant)

    @property
    def own_shell(self) -> list[str] | None:
        """The shell, if the script may come to another end in the service's own."""
        pipes = MAY_PIPE.search(self.script) is not None
        if self.program.startswith("bash") and not pipes:
            return None
        return ["bash", "-eo", "pipefail", "-c"] if "pipefail" in self.program else self.program.split()


class _Cell:
    """One cell of the matrix of a job on its way to a job of the language."""

    def __init__(
        self,
        omissions: Omissions,
        key: str,
        name: str,
        job: Located,
        cell: Mapping[str, str],
        defaults: Located,
        downloads: Downloads,
        outputs: Outputs,
    ) -> None:
        self._omissions = omissions
        self._key = key
        self._name = name
        self._job = job
        self._cell = cell
        self._defaults = (job.get("defaults", "run"), defaults)
        self._downloads = downloads
        self.outputs = outputs
        self.files: dict[str, tuple[str, ...]] = {}
        """The jobs whose artifacts it takes, with globs of them."""
        self._artifacts: list[str] = []
        self._keep: list[str] = []
        self._scripts: list[str] = []
        self._secrets: list[str] = []

    def members(self, workflow: Environment) -> Members:
        """Return the keys of the job. Raises LeftOut."""
        job, key = self._job, self._key
        env = Environment(outputs=self.outputs)
        env.add(job.get("container", "env"), f"{key}.container.env", self._cell)
        inside = dict(env.values)
        for name, value in workflow.values.items():
            env.words.pop(name, None)
            env.values[name] = value
        env.words |= workflow.words
        env.secrets += workflow.secrets
        env.tokens |= workflow.tokens
        env.add(job.get("env"), f"{key}.env", self._cell)
        image = image_of(key, job, self._cell, self._omissions)
        commands = [
            command
            for place, step in enumerate(job.get("steps").items())
            if (command := self._command(f"{key}.steps[{place}]", step, env)) is not None
        ]
        if not commands:
            raise LeftOut(job, key, "nothing of it is left to run")
        own = {
            name: value for name, value in env.values.items() if workflow.values.get(name) != value or name in inside
        }
        found = {"name": self._label(), "image": image, "env": own, **self._run(env, commands)}
        found |= {"timeout": self._timeout(), "artifacts": self._artifacts, "keep": self._keep}
        found["services"] = services_of_github(job.get("services"), key, self._cell, env.values)
        found |= {"secrets": list(dict.fromkeys([*env.secrets, *self._secrets])), "soft_fail": self._soft_fail()}
        return {name: value for name, value in found.items() if value}

    def _run(self, env: Environment, commands: Sequence[_Command]) -> Members:
        """Return the command of the job: that of its only step, or all of them, each in a shell of its own."""
        given = [(each.name, self._output(each, env)) for each in self.outputs.given]
        commands = [each if each.step in self.outputs.steps else replace(each, step=None) for each in commands]
        begins = [*self._beginning(env, commands), *self.outputs.beginning(given)]
        if len(commands) > 1 or begins or not commands[0].may_stand_alone:
            return {"run": "\n".join([*begins, *map(str, commands)])}
        (command,) = commands
        return {"run": command.script, "shell": command.own_shell, "working_directory": command.directory}

    def _output(self, output: Output, env: Environment) -> str:
        """Return an output that other jobs take as a word of the shell. Raises LeftOut."""
        try:
            return env.word(output.given.number_or_text or "", self._cell, env.values)
        except UnknownExpression as error:
            why = f"{error}, and another job takes this output"
            raise LeftOut(output.given, f"{self._key}.outputs", why) from error

    def _label(self) -> str:
        given = self._job.get("name").text
        if given is not None and any(name is not None for _, name in expressions(given)):
            try:
                return one_line(filled(given, self._cell)) or self._name
            except UnknownExpression as error:
                self._omissions.add(self._job.get("name"), f"{self._key}.name", str(error))
                given = None
        label = one_line(given or "") or one_line(self._name)
        return one_line(f"{label} ({', '.join(self._cell.values())})" if self._cell else label)

    def _beginning(self, env: Environment, commands: Sequence[_Command]) -> list[str]:
        """Return what comes before the steps: sudo, and variables that GitHub sets or that have secrets."""
        scripts = "\n".join(self._scripts)
        without = "\n".join(each.script for each in commands if each.step is None)
        lines = []
        if self._job.get("container").value is None and re.search(r"\bsudo\b", scripts):
            lines.append(_SUDO)
        for name in variables_in(scripts, lambda name: name in SET_BY_GITHUB):
            if name != "GITHUB_OUTPUT" or name in without:
                lines.append(f"export {name}={SET_BY_GITHUB[name]}")
            if name == "GITHUB_STEP_SUMMARY":
                why = "summaries of all steps are one text on the build's page, where HTML is shown as text"
                self._omissions.add(self._job, f"{self._key}.steps", why)
        lines += [f"export {name}={word}" for name, word in env.words.items() if word != f'"${name}"']
        for name, given in env.tokens.items():
            if name in variables_in(scripts, lambda _: True):
                raise LeftOut(
                    given, f"{self._key}.env.{name}", f"its script uses ${name}, which GitHub makes by itself"
                )
            why = "GitHub makes this token by itself, and jobs here have none: make one, `ci-daemon secret set` it, "
            self._omissions.add(given, f"{self._key}.env.{name}", f"{why}and name it in `secrets`")
        return lines

    def _timeout(self) -> str | None:
        minutes = self._job.get("timeout-minutes")
        if minutes.value is None:
            return None
        if type(minutes.value) is not int or not 0 < minutes.value <= _MAX_MINUTES:
            self._omissions.add(minutes, f"{self._key}.timeout-minutes", "it is no whole number: the service's holds")
            return None
        return duration(minutes.value * 60)

    def _soft_fail(self) -> bool:
        tolerant = self._job.get("continue-on-error")
        if not tolerant.is_off and tolerant.value is not True:
            why = "it is no plain truth value: a failure fails the build"
            self._omissions.add(tolerant, f"{self._key}.continue-on-error", why)
        return tolerant.value is True

    def _command(self, key: str, step: Located, env: Environment) -> _Command | None:
        """Return a step as GitHub runs it: in a shell of its own, in its folder, with its variables.

        Returns None for an action, which needs no command here. Raises LeftOut.
        """
        if not step.mapping():
            raise LeftOut(step, key, "a step of it is no mapping")
        if step.get("uses").value is not None:
            return self._uses(key, step)
        if (condition := step.get("if")).value is not None:
            raise LeftOut(condition, f"{key}.if", "this step runs under a condition, and without it the job is half")
        only(step, _RUN, key)
        if (minutes := step.get("timeout-minutes")).value is not None:
            self._omissions.add(minutes, f"{key}.timeout-minutes", "only the time of the whole job is bounded")
        own = Environment(env)
        own.secrets = []
        own.tokens = {}
        own.add(step.get("env"), f"{key}.env", self._cell)
        shell, folder = self._setting(step, "shell"), self._setting(step, "working-directory")
        in_container = self._job.get("container").value is not None
        try:
            program = _UNSAID[in_container] if shell is None else _SHELLS[shell.text or ""]
            script, variables = own.script(step.get("run").text, self._cell)
            directory = None if folder is None else filled(folder.text, self._cell, own.values)
        except KeyError as error:
            raise LeftOut(shell or step, f"{key}.shell", "only bash and sh are known here") from error
        except UnknownExpression as error:
            raise LeftOut(step, key, f"{error}: pass it as a variable, `env:`, never as a part of a command") from error
        if not script.strip():
            return None
        self._check_variables(key, step, script, own)
        self._scripts.append(script)
        if names_outputs(step.get("run").text or ""):
            why = "outputs are variables in a script here: nothing in their values is taken for a command"
            self._omissions.add(step.get("run"), f"{key}.run", why)
        name = (step.get("id").text or "").lower()
        self.outputs.ran(name, script)
        tolerant = step.get("continue-on-error")
        if not tolerant.is_off and tolerant.value is not True:
            why = "it is no plain truth value: a failure fails the job"
            self._omissions.add(tolerant, f"{key}.continue-on-error", why)
        assigned = self._assigned(key, step, env, own, variables)
        return _Command(program, script, assigned, directory, tolerant.value is True, name)

    def _setting(self, step: Located, name: str) -> Located | None:
        """Return a setting of a step, or its default in the job or the workflow."""
        given = (step.get(name), *(part.get(name) for part in self._defaults))
        return next((each for each in given if each.value is not None), None)

    def _check_variables(self, key: str, step: Located, script: str, env: Environment) -> None:
        """Raise LeftOut if a script uses a variable that GitHub sets, and nothing here does."""

        def is_theirs(name: str) -> bool:
            known = name in SET_BY_GITHUB or name in env.values or name in env.words or name in _TOKENS
            return name.startswith(("GITHUB_", "RUNNER_", "ACTIONS_", "GITEA_", "FORGEJO_")) and not known

        for variable in variables_in(script, is_theirs):
            why = f"its script uses ${variable}, which GitHub sets and builds here do not"
            raise LeftOut(step.get("run"), f"{key}.run", why)

    def _assigned(
        self, key: str, step: Located, env: Environment, own: Environment, variables: Mapping[str, str]
    ) -> str:
        """Return the variables of a step alone, as a command that sets them for what follows."""
        for name in own.secrets:
            if name not in env.secrets and name not in self._secrets:
                self._secrets.append(name)
                why = f"the secret {name} is there for all steps of the job"
                self._omissions.add(step.get("env"), f"{key}.env", why)
        for name, given in own.tokens.items():
            env.tokens.setdefault(name, given)
        mine = step.get("env").mapping()
        words = {name: own.words[name] for name in mine if name in own.words and own.words[name] != f'"${name}"'}
        words |= {name: word(own.values[name]) for name in mine if name in own.values} | dict(variables)
        return f"env {' '.join(f'{name}={word}' for name, word in words.items())} " if words else ""

    def _uses(self, key: str, step: Located) -> _Command | None:
        """Convert an action that has a counterpart, or whose loss is noted; return its command, if any.

        Raises LeftOut.
        """
        action, options, condition = action_of(step), step.get("with"), step.get("if")
        unconditional = condition.value is None
        if action in _WITHOUT:
            self._omissions.add(step, f"{key}.uses", _WITHOUT[action])
        elif action == "actions/checkout" and unconditional:
            only(options, frozenset(_CHECKOUT), f"{key}.with")
            self._tell(key, options, _CHECKOUT)
        elif action in SETUPS and self._job.get("container").value is not None:
            raise LeftOut(step, f"{key}.uses", f"{action} is not applied in a container: take an image that has it")
        elif action in SETUPS and set_up(step, self._cell) is not None:
            known = {f"{SETUPS[action]}-version", "cache", "cache-dependency-path", *_SETUP}
            only(options, frozenset(known), f"{key}.with")
            self._tell(key, options, _SETUP)
            if not (cache := options.get("cache")).is_off:
                folder = _SAVED.get((SETUPS[action], cache.text or ""))
                self._keep_folders(cache, f"{key}.with.cache", None if folder is None else [folder])
        elif action in _CACHES:
            self._keep_folders(step, f"{key}.uses", kept_folders((options.get("path").text or "").splitlines()))
        elif action == UPLOAD and (unconditional or condition.text in _ANYWAY):
            self._upload(key, options)
        elif action == DOWNLOAD and unconditional:
            return self._download(key, step)
        else:
            name = one_line(action) or "of no name"
            instead = _OF_CONTAINERS if action.startswith("docker/") else "write its commands"
            raise LeftOut(step, f"{key}.uses", f"the action {name} has no counterpart here: {instead}")
        return None

    def _keep_folders(self, at: Located, key: str, folders: Sequence[str] | None) -> None:
        """Keep the folders of a cache, if they are known."""
        whole = list(dict.fromkeys([*self._keep, *(folders or ())]))
        if folders is None or len(whole) > MOST_FOLDERS:
            self._omissions.add(at, key, NOT_KEPT)
            return
        self._omissions.add(at, key, KEPT)
        self._keep = whole

    def _download(self, key: str, step: Located) -> _Command | None:
        """Take files of other jobs; return the command that copies them, if any. Raises LeftOut."""
        found = self._downloads.read(step, key, self._cell)
        for job, globs in found.files.items():
            known = self.files.get(job, ())
            self.files[job] = ("**",) if "**" in (*known, *globs) else tuple(dict.fromkeys((*known, *globs)))
        if self._scripts:
            why = "its files are there from the beginning, not after the steps before it alone"
            self._omissions.add(step, f"{key}.uses", why)
        if not found.commands:
            return None
        if found.copies:
            self._omissions.add(step, f"{key}.uses", "the files are also at the paths that they have in the job before")
        return _Command("sh -e -c", "\n".join(found.commands))

    def _tell(self, key: str, options: Located, notes: Mapping[str, str]) -> None:
        for name, given in options.mapping().items():
            unused = given.value is None or given.value is False or (name == "fetch-depth" and given.scalar == "1")
            if name in notes and not unused:
                self._omissions.add(given, f"{key}.with.{name}", notes[name])

    def _upload(self, key: str, options: Located) -> None:
        only(options, frozenset({"name", "path", "if-no-files-found", *_UPLOAD}), f"{key}.with")
        self._omissions.told(options, _UPLOAD, f"{key}.with.")
        if options.get("if-no-files-found").text not in {None, "warn", "ignore"}:
            raise LeftOut(options, f"{key}.with.if-no-files-found", "missing files fail no step here: test for them")
        paths, lost = kept_paths(options, self._cell)
        for why in lost:
            self._omissions.add(options, f"{key}.with.path", why)
        self._artifacts += [each for each in paths if each not in self._artifacts]
