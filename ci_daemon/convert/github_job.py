"""One job of a GitHub workflow as steps. Pure.

A job of which a step is left out would run half, so that it is left out as a whole, but for actions whose loss changes
nothing of what the job does.
"""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import SET_BY_GITHUB, Environment, UnknownExpression, filled
from ci_daemon.convert.github_image import SETUPS, action_of, image_of, set_up
from ci_daemon.convert.jobs import label as one_line
from ci_daemon.convert.jobs import matrix, variables_in
from ci_daemon.convert.omissions import LeftOut, only
from ci_daemon.draft import DraftStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

_NOTES = MappingProxyType(
    {
        "permissions": "jobs here get no token of the other system, so that there is nothing to permit",
        "concurrency": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` "
        "lets them take turns",
        "outputs": "nothing takes it here",
    }
)
"""Members of a job that it can do without, and what that costs."""

_KNOWN = frozenset(
    {"name", "runs-on", "container", "steps", "needs", "env", "strategy", "timeout-minutes", "continue-on-error"}
    | {"defaults", *_NOTES}
)
_WHY = MappingProxyType(
    {
        "uses": "it calls another workflow: copy its jobs into this one",
        "if": "it runs under a condition: make it a pipeline of its own, with a trigger",
        "services": "it needs other containers beside it, which do not exist here: start them in a step",
        "environment": "an environment may wait for a review and has secrets of its own: make it a pipeline of its "
        "own, which somebody starts",
    }
)
_RUN = frozenset({"name", "id", "run", "env", "working-directory", "shell", "continue-on-error", "timeout-minutes"})
_STRATEGY = frozenset({"matrix", "fail-fast", "max-parallel"})
"""A failure stops no other step here, but the build fails as it does there."""

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
        ("cache", "cache-dependency-path", "check-latest", "token"),
        "nothing is kept between builds: give the step that installs a cache=",
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
        "actions/cache": "folders are not cached by a key here: give a step a cache=",
        "codecov/codecov-action": "nothing is sent to this service: send it in a step, with a secret",
        "coverallsapp/github-action": "nothing is sent to this service: send it in a step, with a secret",
        "step-security/harden-runner": "each job has a VM of its own; `network: off` closes it",
    }
)
"""Actions without which a job does the same."""

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
    """Makes steps of jobs; ``env`` and ``defaults`` are those of the workflow."""

    def __init__(self, omissions: Omissions, env: Environment, defaults: Located) -> None:
        self._omissions = omissions
        self._env = env
        self._defaults = defaults

    def steps(self, name: str, job: Located) -> tuple[DraftStep, ...]:
        """Return the steps of a job, one for each cell of its matrix. Raises LeftOut."""
        key = f"jobs.{name}"
        if not job.mapping():
            raise LeftOut(job, key, "it is no mapping")
        for member in job.mapping():
            if member not in _KNOWN:
                why = _WHY.get(member, f"{member} has no counterpart here")
                raise LeftOut(job.get(member), f"{key}.{member}", why)
        cells = self._cells(key, job.get("strategy"))
        for cell in cells:
            _check_runner(key, job, cell)
        self._omissions.told(job, _NOTES, f"{key}.")
        return tuple(_Cell(self._omissions, key, name, job, cell, self._defaults).step(self._env) for cell in cells)

    def _cells(self, key: str, strategy: Located) -> list[dict[str, str]]:
        only(strategy, _STRATEGY, f"{key}.strategy")
        if (most := strategy.get("max-parallel")).value is not None:
            why = "as many run at a time as the service has VMs: [jobs] of the configuration bounds them"
            self._omissions.add(most, f"{key}.strategy.max-parallel", why)
        axes = strategy.get("matrix")
        if axes.value is None:
            return [{}]
        known = axes.mapping() and not {"include", "exclude"} & set(axes.mapping())
        cells = matrix(axes.mapping(), _value, lists=True) if known else None
        if cells is None:
            raise LeftOut(
                axes, f"{key}.strategy.matrix", "only lists of plain values are known here, at most 256 cells"
            )
        return list(cells)


def _value(given: Located) -> str | None:
    text = given.number_or_text
    return None if text is None or "${{" in text else text


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


class _Cell:
    """One cell of the matrix of a job on its way to a step."""

    def __init__(
        self, omissions: Omissions, key: str, name: str, job: Located, cell: Mapping[str, str], defaults: Located
    ) -> None:
        self._omissions = omissions
        self._key = key
        self._name = name
        self._job = job
        self._cell = cell
        self._defaults = (job.get("defaults", "run"), defaults)
        self._artifacts: list[str] = []
        self._scripts: list[str] = []
        self._secrets: list[str] = []

    def step(self, workflow: Environment) -> DraftStep:
        """Return the step. Raises LeftOut."""
        job, key = self._job, self._key
        env = Environment()
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
        return DraftStep(
            self._label(),
            "\n".join(["set -e", *self._beginning(env), *commands]),
            image,
            env=own,
            timeout_seconds=self._seconds(),
            runner_args=self._runner_args(env),
        )

    def _label(self) -> str:
        label = self._name
        try:
            label = one_line(filled(self._job.get("name").text or label, self._cell)) or label
        except UnknownExpression as error:
            self._omissions.add(self._job.get("name"), f"{self._key}.name", str(error))
        return one_line(f"{label} ({', '.join(self._cell.values())})" if self._cell else label)

    def _beginning(self, env: Environment) -> list[str]:
        """Return what comes before the steps: sudo, and variables that GitHub sets or that have secrets."""
        scripts = "\n".join(self._scripts)
        lines = []
        if self._job.get("container").value is None and re.search(r"\bsudo\b", scripts):
            lines.append(_SUDO)
        for name in variables_in(scripts, lambda name: name in SET_BY_GITHUB):
            lines.append(f"export {name}={SET_BY_GITHUB[name]}")
            if SET_BY_GITHUB[name] == "/dev/null":
                self._omissions.add(self._job, f"{self._key}.steps", f"what is written to ${name} goes nowhere here")
        lines += [f"export {name}={word}" for name, word in env.words.items() if word != f'"${name}"']
        for name, given in env.tokens.items():
            if name in variables_in(scripts, lambda _: True):
                raise LeftOut(
                    given, f"{self._key}.env.{name}", f"its script uses ${name}, which GitHub makes by itself"
                )
            why = "GitHub makes this token by itself, and jobs here have none: make one, `ci-daemon secret set` it, "
            self._omissions.add(given, f"{self._key}.env.{name}", f"{why}and name it in `secrets`")
        return lines

    def _seconds(self) -> int | None:
        minutes = self._job.get("timeout-minutes")
        if minutes.value is None:
            return None
        if type(minutes.value) is not int or not 0 < minutes.value <= _MAX_MINUTES:
            self._omissions.add(minutes, f"{self._key}.timeout-minutes", "it is no whole number: the service's holds")
            return None
        return minutes.value * 60

    def _runner_args(self, env: Environment) -> dict[str, object]:
        args: dict[str, object] = {}
        tolerant = self._job.get("continue-on-error")
        if tolerant.value is True:
            args["soft_fail"] = True
        elif not tolerant.is_off:
            why = "it is no plain truth value: a failure fails the build"
            self._omissions.add(tolerant, f"{self._key}.continue-on-error", why)
        args |= {"artifacts": self._artifacts} if self._artifacts else {}
        secrets = list(dict.fromkeys([*env.secrets, *self._secrets]))
        return args | ({"secrets": secrets} if secrets else {})

    def _command(self, key: str, step: Located, env: Environment) -> str | None:
        """Return a step as GitHub runs it: in a shell of its own, in its folder, with its variables.

        Returns None for an action, which needs no command here. Raises LeftOut.
        """
        if not step.mapping():
            raise LeftOut(step, key, "a step of it is no mapping")
        if step.get("uses").value is not None:
            self._uses(key, step)
            return None
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
            script = filled(step.get("run").text, self._cell, own.values)
            directory = None if folder is None else filled(folder.text, self._cell, own.values)
        except KeyError as error:
            raise LeftOut(shell or step, f"{key}.shell", "only bash and sh are known here") from error
        except UnknownExpression as error:
            raise LeftOut(step, key, f"{error}: pass it as a variable, `env:`, never as a part of a command") from error
        if not script.strip():
            return None
        self._check_variables(key, step, script, own)
        self._scripts.append(script)
        command = f"{self._assigned(key, step, env, own)}{program} {shlex.quote(script)}"
        if directory is not None:
            command = f"(cd -- {shlex.quote(directory)} && {command})"
        tolerant = step.get("continue-on-error")
        if not tolerant.is_off and tolerant.value is not True:
            why = "it is no plain truth value: a failure fails the job"
            self._omissions.add(tolerant, f"{key}.continue-on-error", why)
        return f"{command} || true" if tolerant.value is True else command

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

    def _assigned(self, key: str, step: Located, env: Environment, own: Environment) -> str:
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
        words |= {name: shlex.quote(own.values[name]) for name in mine if name in own.values}
        return f"env {' '.join(f'{name}={word}' for name, word in words.items())} " if words else ""

    def _uses(self, key: str, step: Located) -> None:
        """Convert an action that has a counterpart here, or whose loss is noted. Raises LeftOut."""
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
            only(options, frozenset({f"{SETUPS[action]}-version", *_SETUP}), f"{key}.with")
            self._tell(key, options, _SETUP)
        elif action == "actions/upload-artifact" and (unconditional or condition.text in _ANYWAY):
            self._keep(key, options)
        else:
            name = one_line(action) or "of no name"
            raise LeftOut(step, f"{key}.uses", f"the action {name} has no counterpart here: write its commands")

    def _tell(self, key: str, options: Located, notes: Mapping[str, str]) -> None:
        for name, given in options.mapping().items():
            unused = given.value is None or given.value is False or (name == "fetch-depth" and given.scalar == "1")
            if name in notes and not unused:
                self._omissions.add(given, f"{key}.with.{name}", notes[name])

    def _keep(self, key: str, options: Located) -> None:
        only(options, frozenset({"name", "path", "if-no-files-found", *_UPLOAD}), f"{key}.with")
        self._omissions.told(options, _UPLOAD, f"{key}.with.")
        if options.get("if-no-files-found").text not in {None, "warn", "ignore"}:
            raise LeftOut(options, f"{key}.with.if-no-files-found", "missing files fail no step here: test for them")
        for line in (options.get("path").text or "").splitlines():
            try:
                path = filled(line.strip().removeprefix("./"), self._cell)
            except UnknownExpression as error:
                self._omissions.add(options, f"{key}.with.path", f"it is not kept: {error}")
                continue
            path = path.removeprefix("/workspace/")
            if path.startswith(("/", "!", "~")) or ".." in path.split("/") or one_line(path) != path:
                why = f"it is not kept: {one_line(path)} is not a glob below the project"
                self._omissions.add(options, f"{key}.with.path", why)
            elif path and path not in self._artifacts:
                self._artifacts.append(path)
