"""One job of GitLab as steps. Pure."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from ci_daemon.convert.jobs import matrix, variables_in
from ci_daemon.draft import DraftStep

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

__all__ = ["JobReader"]

_KNOWN = frozenset(
    [
        "stage",
        "image",
        "script",
        "before_script",
        "after_script",
        "variables",
        "needs",
        "dependencies",
        "artifacts",
        "timeout",
        "retry",
        "allow_failure",
        "parallel",
        "rules",
        "only",
        "except",
        "when",
        "inherit",
        "extends",
    ]
)
_SHELL = "if set -o | grep pipefail > /dev/null; then set -o pipefail; fi\nset -o errexit"
"""The beginning of the scripts that GitLab's runner makes."""

_TIMES = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(\d+)\s*(d|h|m|s|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)\b\s*")
_COPIES = range(2, 201)
"""The numbers of copies that GitLab accepts."""

_OURS = frozenset({"CI", "CI_PROJECT_DIR", "CI_NODE_INDEX", "CI_NODE_TOTAL"})
_IMAGE = re.compile(r"[\w./:@+-]+")


class JobReader:
    """Makes steps of jobs. ``variables`` are the names that the whole file sets."""

    def __init__(self, omissions: Omissions, variables: frozenset[str]) -> None:
        self._omissions = omissions
        self._variables = variables

    def steps(self, name: str, job: Located) -> tuple[DraftStep, ...] | None:
        """Return the steps of a job, one for each of its parallel copies; None if it cannot be converted."""
        omissions = self._omissions
        if (trigger := job.get("trigger")).value is not None:
            omissions.add(
                trigger,
                f"{name}.trigger",
                "the whole job is left out: it starts other pipelines",
            )
            return None
        if job.has_tags():
            omissions.add(
                job,
                name,
                "the whole job is left out: tags such as !reference are not known here",
            )
            return None
        command = self._command(name, job)
        copies = self._copies(name, job.get("parallel"))
        if command is None or copies is None:
            return None
        image = self._image(name, job)
        omissions.unknown(job, _KNOWN, f"{name}.")
        env = self.variables(job.get("variables"), f"{name}.variables")
        self._tell_variables(name, job, command, {*env, *chain(*copies.values())})
        if "$CI_PROJECT_DIR" in command or "${CI_PROJECT_DIR}" in command:
            env["CI_PROJECT_DIR"] = "/workspace"
        args = self._runner_args(name, job)
        seconds = self._seconds(f"{name}.timeout", job.get("timeout"))
        return tuple(
            DraftStep(
                label,
                command,
                image,
                env={**env, **cell},
                timeout_seconds=seconds,
                runner_args=args,
            )
            for label, cell in copies.items()
        )

    def variables(self, variables: Located, key: str) -> dict[str, str]:
        """Return variables; GitLab expands those that name others, which nothing here does."""
        found: dict[str, str] = {}
        self._omissions.unknown(variables, frozenset(variables.mapping()), f"{key}.")
        for name, given in variables.mapping().items():
            value = given.get("value") if given.mapping() else given
            text = value.scalar
            if text is None or ("$" in text.replace("$$", "") and given.get("expand").value is not False):
                self._omissions.add(given, f"{key}.{name}", "its value is not a plain text")
            else:
                found[name] = text.replace("$$", "$")
        return found

    def _command(self, name: str, job: Located) -> str | None:
        """Return a script as GitLab runs it: all lines in one shell that stops at the first failure."""
        parts = {key: self._lines(job.get(key)) for key in ("before_script", "script", "after_script")}
        for key, lines in parts.items():
            if lines is None:
                self._omissions.add(
                    job.get(key),
                    f"{name}.{key}",
                    "the whole job is left out: not all lines are texts",
                )
                return None
        before, script, after = (parts[key] or [] for key in ("before_script", "script", "after_script"))
        if not script:
            self._omissions.add(job, name, "the whole job is left out: it has no script")
            return None
        command = "\n".join([_SHELL, *before, *script])
        if not after:
            return command
        ending = "\n".join([_SHELL, *after])
        return f"(\n{command}\n)\nstatus=$?\n(\n{ending}\n)\nexit $status"

    def _lines(self, script: Located) -> list[str] | None:
        found: list[str] = []
        for each in script.items():
            lines = self._lines(each) if isinstance(each.value, tuple) and each.tag is None else [each.text or ""]
            if lines is None or each.tag is not None or (each.text is None and not isinstance(each.value, tuple)):
                return None
            found += lines
        return found

    def _image(self, name: str, job: Located) -> str | None:
        image = job.get("image")
        text = image.get("name").text if image.mapping() else image.text
        if text is None:
            why = "the job has none, so that GitLab takes its runner's: here it gets the service's default image"
            self._omissions.add(job, f"{name}.image", why)
            return None
        for key, value in image.mapping().items():
            if key != "name" and not (key == "entrypoint" and value.texts() == ("",)):
                self._omissions.add(value, f"{name}.image.{key}", "it has no counterpart here")
        if not _IMAGE.fullmatch(text):
            self._omissions.add(
                image,
                f"{name}.image",
                "it is not a plain name: the service's default image is used",
            )
            return None
        return text

    def _copies(self, name: str, parallel: Located) -> dict[str, dict[str, str]] | None:
        """Return the variables of each copy of a job, by its label."""
        if parallel.value is None:
            return {name: {}}
        if type(parallel.value) is int and parallel.value in _COPIES:
            total = parallel.value
            numbers = ((f"{name} {place}/{total}", place) for place in range(1, total + 1))
            return {label: {"CI_NODE_INDEX": str(place), "CI_NODE_TOTAL": str(total)} for label, place in numbers}
        cells: dict[str, dict[str, str]] = {}
        for row in parallel.get("matrix").items():
            found = matrix(row.mapping()) if row.mapping() else None
            if found is None:
                break
            cells |= {f"{name}: [{', '.join(cell.values())}]": cell for cell in found}
        else:
            if cells:
                return cells
        self._omissions.add(
            parallel,
            f"{name}.parallel",
            "the whole job is left out: this matrix is not known here",
        )
        return None

    def _runner_args(self, name: str, job: Located) -> dict[str, object]:
        args: dict[str, object] = {}
        allowed = job.get("allow_failure")
        if allowed.value is True:
            args["soft_fail"] = True
        elif codes := [each.value for each in allowed.get("exit_codes").items() if type(each.value) is int]:
            args["soft_fail"] = {"exit_codes": codes}
        elif allowed.value not in {None, False} if not allowed.mapping() else True:
            self._omissions.add(allowed, f"{name}.allow_failure", "it is not known here")
        if (retry := self._retry(name, job.get("retry"))) is not None:
            args["retry"] = retry
        if artifacts := self._artifacts(name, job.get("artifacts")):
            args["artifacts"] = artifacts
        return args

    def _retry(self, name: str, retry: Located) -> dict[str, object] | None:
        most = retry.get("max") if retry.mapping() else retry
        if most.value is None:
            return None
        when = set(retry.get("when").texts() or ("always",))
        known = (
            type(most.value) is int
            and when & {"always", "script_failure"}
            and not set(retry.mapping()) - {"max", "when"}
        )
        if not known:
            self._omissions.add(
                retry,
                f"{name}.retry",
                "only retries after a failing script are known here",
            )
            return None
        return {"limit": most.value} if most.value else None

    def _artifacts(self, name: str, artifacts: Located) -> list[str]:
        found: list[str] = []
        lists = {
            "paths": artifacts.get("paths"),
            "reports.junit": artifacts.get("reports", "junit"),
        }
        for key, paths in lists.items():
            for each in paths.items():
                path = each.text or ""
                if not path or path.startswith("/") or ".." in path.split("/") or set("${}!") & set(path):
                    self._omissions.add(
                        each,
                        f"{name}.artifacts.{key}",
                        "it is not a plain glob below the project",
                    )
                else:
                    found.append(path)
        self._omissions.unknown(artifacts, frozenset({"paths", "reports", "when"}), f"{name}.artifacts.")
        self._omissions.unknown(artifacts.get("reports"), frozenset({"junit"}), f"{name}.artifacts.reports.")
        return list(dict.fromkeys(found))

    def _seconds(self, key: str, given: Located) -> int | None:
        text = given.text
        if given.value is None:
            return None
        parts = _TIME.findall(text or "")
        if not parts or _TIME.sub("", text or ""):
            self._omissions.add(given, key, "this duration is not known here")
            return None
        return sum(int(number) * _TIMES[unit[0]] for number, unit in parts)

    def _tell_variables(self, name: str, job: Located, command: str, known: set[str]) -> None:
        """Tell the variables of GitLab that a script uses and no build here has."""

        def is_theirs(variable: str) -> bool:
            ours = _OURS | self._variables | known
            return variable.startswith(("CI_", "GITLAB_", "FF_")) and variable not in ours

        for variable in variables_in(command, is_theirs):
            why = f"the script uses ${variable}, which GitLab sets and builds here do not"
            self._omissions.add(job.get("script"), f"{name}.script", why)
