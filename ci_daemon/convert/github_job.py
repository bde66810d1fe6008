"""One job of a GitHub workflow as steps. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import UnknownExpression, filled, literals
from ci_daemon.convert.github_image import SETUPS, image_of, set_up
from ci_daemon.convert.jobs import matrix, variables_in
from ci_daemon.convert.located import Located
from ci_daemon.draft import DraftStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.omissions import Omissions

__all__ = ["JobReader"]

_KNOWN = frozenset(
    {
        "name",
        "runs-on",
        "container",
        "steps",
        "needs",
        "env",
        "strategy",
        "timeout-minutes",
        "continue-on-error",
    }
    | {"defaults", "if"}
)
_RUN = frozenset({"name", "id", "run", "env", "working-directory", "shell", "continue-on-error"})
_STRATEGY = frozenset({"matrix", "fail-fast"})
"""A failure stops no other step here, but the build fails as it does there."""

_RUNNER = re.compile(r"ubuntu-(latest|slim|\d\d\.\d\d)")
_SECRET = re.compile(r"\$\{\{\s*secrets\.(\w+)\s*\}\}")
_SHELLS = {"bash": "bash --noprofile --norc -eo pipefail -c", "sh": "sh -e -c"}
_UNSAID = {True: "sh -e -c", False: "bash -e -c"}
"""The shell of a step that names none: inside of a container, and on the runner itself."""


class JobReader:
    """Makes steps of jobs; ``env`` and ``defaults`` are those of the workflow."""

    def __init__(self, omissions: Omissions, env: Mapping[str, str], defaults: Located) -> None:
        self._omissions = omissions
        self._env = env
        self._defaults = defaults

    def steps(self, name: str, job: Located) -> tuple[DraftStep, ...] | None:
        """Return the steps of a job, one for each cell of its matrix; None if it cannot be converted."""
        key = f"jobs.{name}"
        for member, why in (
            ("uses", "it calls another workflow"),
            ("if", "it runs under a condition"),
        ):
            if (part := job.get(member)).value is not None:
                self._omissions.add(part, f"{key}.{member}", f"the whole job is left out: {why}")
                return None
        if not _RUNNER.fullmatch(job.get("runs-on").text or ""):
            self._omissions.add(
                job,
                f"{key}.runs-on",
                "the whole job is left out: only GitHub's own runners of Ubuntu on x86-64 are known here",
            )
            return None
        cells = self._cells(key, job.get("strategy"))
        if cells is None:
            return None
        self._omissions.unknown(job, _KNOWN, f"{key}.")
        steps = [self._step(key, name, job, cell) for cell in cells]
        return tuple(each for each in steps if each is not None) or None

    def _cells(self, key: str, strategy: Located) -> list[dict[str, str]] | None:
        self._omissions.unknown(strategy, _STRATEGY, f"{key}.strategy.")
        axes = strategy.get("matrix")
        if axes.value is None:
            return [{}]
        cells = None if {"include", "exclude"} & set(axes.mapping()) or not axes.mapping() else matrix(axes.mapping())
        if cells is None:
            why = "the whole job is left out: only lists of plain values are known here"
            self._omissions.add(axes, f"{key}.strategy.matrix", why)
            return None
        return list(cells)

    def _step(self, key: str, label: str, job: Located, cell: Mapping[str, str]) -> DraftStep | None:
        omissions = self._omissions
        try:
            label = filled(job.get("name").text or label, cell)
        except UnknownExpression as error:
            omissions.add(job.get("name"), f"{key}.name", str(error))
        if cell:
            label = f"{label} ({', '.join(cell.values())})"
        secrets: list[str] = []
        artifacts: list[str] = []
        image = image_of(key, job, cell, omissions)
        commands = []
        for place, step in enumerate(job.get("steps").items()):
            where = f"{key}.steps[{place}]"
            if step.get("uses").value is not None:
                self._uses(where, step, cell, artifacts)
            elif (command := self._command(where, job, step, cell, secrets)) is not None:
                commands.append(command)
        if not commands:
            omissions.add(job, key, "the whole job is left out: nothing of it is left to run")
            return None
        env = literals(
            self._without_secrets(job.get("env"), secrets),
            f"{key}.env",
            omissions,
            cell,
        )
        args: dict[str, object] = {}
        if job.get("continue-on-error").value is True:
            args["soft_fail"] = True
        elif job.get("continue-on-error").value not in {None, False}:
            omissions.add(
                job.get("continue-on-error"),
                f"{key}.continue-on-error",
                "it is no plain truth value",
            )
        args |= {"artifacts": artifacts} if artifacts else {}
        args |= {"secrets": secrets} if secrets else {}
        minutes = job.get("timeout-minutes").value
        if minutes is not None and type(minutes) is not int:
            omissions.add(
                job.get("timeout-minutes"),
                f"{key}.timeout-minutes",
                "it is no whole number",
            )
        seconds = minutes * 60 if type(minutes) is int and minutes > 0 else None
        return DraftStep(
            label,
            "\n".join(["set -e", *commands]),
            image,
            env=env,
            timeout_seconds=seconds,
            runner_args=args,
        )

    def _command(
        self,
        key: str,
        job: Located,
        step: Located,
        cell: Mapping[str, str],
        secrets: list[str],
    ) -> str | None:
        """Return a step as GitHub runs it: in a shell of its own, in its folder, with its variables."""
        omissions = self._omissions
        if (condition := step.get("if")).value is not None:
            omissions.add(
                condition,
                f"{key}.if",
                "the step is left out: it runs under a condition",
            )
            return None
        omissions.unknown(step, _RUN, f"{key}.")
        defaults = (job.get("defaults", "run"), self._defaults)
        shell, folder = (
            next(
                (each for each in (step.get(name), *(part.get(name) for part in defaults)) if each.value is not None),
                None,
            )
            for name in ("shell", "working-directory")
        )
        in_container = job.get("container").value is not None
        try:
            program = _UNSAID[in_container] if shell is None else _SHELLS[shell.text or ""]
            script = filled(step.get("run").text, cell)
            directory = None if folder is None else filled(folder.text, cell)
        except KeyError:
            omissions.add(
                step,
                f"{key}.shell",
                "the step is left out: only bash and sh are known here",
            )
            return None
        except UnknownExpression as error:
            omissions.add(step, key, f"the step is left out: {error}")
            return None
        env = literals(
            self._without_secrets(step.get("env"), secrets, key),
            f"{key}.env",
            omissions,
            cell,
        )
        for variable in variables_in(script, lambda name: name.startswith(("GITHUB_", "RUNNER_", "ACTIONS_"))):
            why = f"the script uses ${variable}, which GitHub sets and builds here do not"
            omissions.add(step.get("run"), f"{key}.run", why)
        assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        command = f"{'env ' + assigned + ' ' if env else ''}{program} {shlex.quote(script)}"
        if directory is not None:
            command = f"(cd {shlex.quote(directory)} && {command})"
        if step.get("continue-on-error").value is True:
            return f"{command} || true"
        if step.get("continue-on-error").value not in {None, False}:
            omissions.add(
                step.get("continue-on-error"),
                f"{key}.continue-on-error",
                "it is no plain truth value",
            )
        return command

    def _without_secrets(self, env: Located, secrets: list[str], key: str | None = None) -> Located:
        """Return variables without those that are secrets of their own names, which are added to ``secrets``.

        ``key`` is that of the step, if the variables are of one step alone.
        """
        if not env.mapping():
            return env
        others = {}
        for name, given in env.mapping().items():
            secret = _SECRET.fullmatch(given.text or "")
            if secret is not None and secret[1] == name:
                secrets += [] if name in secrets else [name]
                if key is not None:
                    self._omissions.add(given, f"{key}.env.{name}", "the secret is there for all steps of the job")
            else:
                others[name] = given
        return Located(env.line, others)

    def _uses(self, key: str, step: Located, cell: Mapping[str, str], artifacts: list[str]) -> None:
        """Convert an action that has a counterpart here."""
        action = (step.get("uses").text or "").partition("@")[0]
        options = step.get("with")
        condition = step.get("if")
        if action == "actions/checkout" and condition.value is None:
            self._omissions.unknown(options, frozenset(), f"{key}.with.")
        elif action in SETUPS and set_up(step, cell) is not None:
            self._omissions.unknown(options, frozenset({f"{SETUPS[action]}-version"}), f"{key}.with.")
        elif action == "actions/upload-artifact" and condition.text in {
            None,
            "always()",
            "success() || failure()",
        }:
            self._artifacts(key, options, cell, artifacts)
        elif action == "actions/cache":
            self._omissions.add(
                step,
                f"{key}.uses",
                "folders are not cached by a key here: give a step a cache=",
            )
        else:
            self._omissions.add(step, f"{key}.uses", f"the action {action} has no counterpart here")

    def _artifacts(self, key: str, options: Located, cell: Mapping[str, str], artifacts: list[str]) -> None:
        self._omissions.unknown(options, frozenset({"name", "path"}), f"{key}.with.")
        for line in (options.get("path").text or "").splitlines():
            try:
                path = filled(line.strip().removeprefix("./"), cell)
            except UnknownExpression as error:
                self._omissions.add(options, f"{key}.with.path", str(error))
                continue
            if path.startswith(("/", "!", "~")) or ".." in path.split("/"):
                self._omissions.add(
                    options,
                    f"{key}.with.path",
                    f"{path} is not a glob below the project",
                )
            elif path and path not in artifacts:
                artifacts.append(path)
