"""One job of GitLab as steps. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_daemon.convert.github_image import IMAGE
from ci_daemon.convert.gitlab_variables import Variables, told_of_git
from ci_daemon.convert.jobs import label as one_line
from ci_daemon.convert.jobs import matrix
from ci_daemon.convert.omissions import LeftOut
from ci_daemon.draft import DraftStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

_KNOWN = frozenset(
    {"stage", "image", "script", "before_script", "after_script", "variables", "needs", "dependencies", "artifacts"}
    | {"timeout", "retry", "allow_failure", "parallel", "rules", "only", "when", "tags"}
)
_NOTES = MappingProxyType(
    {
        "cache": "nothing is kept between builds: give the step that installs a cache=",
        "coverage": "no figure is read from the log: keep the report as an artifact",
        "interruptible": "`ci-daemon pipeline edit ORG/PIPELINE --cancel-superseded` says what a newer commit cancels",
        "resource_group": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME`"
        " lets them take turns",
        "dast_configuration": "it has no counterpart here",
    }
)
"""Members of a job that it can do without, and what that costs."""

_OF_ARTIFACTS = MappingProxyType(
    {
        "expire_in": "the service keeps artifacts as long as its retention says (`retention.artifacts_days`)",
        "exclude": "what it excludes is kept, too: name what you want in paths",
        "untracked": "untracked files are not kept: name them in paths",
        "name": "artifacts are files here, not archives with a name",
        "expose_as": "artifacts are listed with their build",
        "public": "artifacts are for members of the organization",
        "access": "artifacts are for members of the organization",
    }
)
_WHY = MappingProxyType(
    {
        "trigger": "it starts other pipelines: copy their jobs, or make them pipelines with triggers",
        "services": "it needs other containers beside it, which do not exist here: start them in its script",
        "environment": "an environment may wait for an approval and has variables of its own: make it a pipeline of "
        "its own, which somebody starts",
        "secrets": "its secrets come from a vault: `ci-daemon secret set` them and name them in `secrets`",
        "id_tokens": "jobs here get no tokens of an identity provider",
        "release": "it makes a release, which nothing does here: write the request to GitLab",
        "inherit": "its defaults are not all of them: write what it takes into it",
        "pages": "GitLab publishes what it makes, and nothing does here",
    }
)
_TAGS = re.compile(r"docker|linux|shared|amd64|x86_64|x86-64|gitlab-org(-docker)?|saas-linux-\w+-amd64")
"""Tags of runners that run jobs in containers on Linux."""

_SHELL = "if set -o | grep pipefail > /dev/null; then set -o pipefail; fi\nset -o errexit"
"""The beginning of the scripts that GitLab's runner makes."""

_TIMES = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(\d{1,6})\s*(d|h|m|s|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)\b\s*")
_COPIES = range(2, 201)
"""The numbers of copies that GitLab accepts."""

_MAX_RETRIES = 2
_GLOB_CHARS = frozenset("${}!")


class JobReader:
    """Makes steps of jobs.

    ``variables`` are those of the file; all steps get ``values``, the plain ones among them.
    """

    def __init__(self, omissions: Omissions, variables: Located, values: Mapping[str, str]) -> None:
        self._omissions = omissions
        self._variables = variables
        self._values = values

    def steps(self, name: str, job: Located) -> tuple[DraftStep, ...]:
        """Return the steps of a job, one for each of its parallel copies. Raises LeftOut."""
        if job.has_tags():
            raise LeftOut(job, name, "tags such as !reference are known as values alone here, and of !reference only")
        for member in job.mapping():
            if member not in _KNOWN | set(_NOTES):
                why = _WHY.get(member, f"{one_line(member)} has no counterpart here")
                raise LeftOut(job.get(member), f"{name}.{member}", why)
        self._omissions.told(job, _NOTES, f"{name}.")
        self._tell_tags(name, job.get("tags"))
        script = self._script(name, job)
        args = self._runner_args(name, job)
        seconds = self._seconds(f"{name}.timeout", job.get("timeout"))
        copies = self._copies(name, job.get("parallel"))
        return tuple(self._step(name, job, label, cell, script, args, seconds) for label, cell in copies.items())

    def _step(
        self,
        name: str,
        job: Located,
        label: str,
        cell: Mapping[str, str],
        script: tuple[str, str],
        args: Mapping[str, object],
        seconds: int | None,
    ) -> DraftStep:
        own = job.get("variables")
        if own.value is not None and not isinstance(own.value, dict):
            raise LeftOut(own, f"{name}.variables", "its variables are no mapping")
        told_of_git(own, f"{name}.variables", self._omissions)
        numbers = {key: value for key, value in cell.items() if key.startswith("CI_NODE_")}
        cells = {key: own.with_value(value.replace("$", "$$")) for key, value in cell.items() if key not in numbers}
        variables = Variables({**self._variables.mapping(), **own.mapping(), **cells}, f"{name}.variables")
        given = {"CI_JOB_NAME": label, "CI_JOB_STAGE": job.get("stage").text or "test", **numbers}
        whole = "\n".join(script)
        command = "\n".join(
            ["set -e", *variables.beginning(name, job, whole, given, self._omissions), _command(*script)]
        )
        env = {key: value for key, value in variables.values.items() if self._values.get(key) != value}
        return DraftStep(
            one_line(label),
            command,
            self._image(name, job, variables),
            env={**env, **numbers},
            timeout_seconds=seconds,
            runner_args=args,
        )

    def _script(self, name: str, job: Located) -> tuple[str, str]:
        """Return what a job runs, and what it runs afterwards. Raises LeftOut."""
        parts = {}
        for key in ("before_script", "script", "after_script"):
            lines = self._lines(job.get(key))
            if lines is None:
                raise LeftOut(job.get(key), f"{name}.{key}", "not all lines are texts")
            parts[key] = "\n".join(lines)
        if not parts["script"].strip():
            raise LeftOut(job, name, "it has no script")
        return "\n".join(filter(None, (parts["before_script"], parts["script"]))), parts["after_script"]

    def _lines(self, script: Located) -> list[str] | None:
        found: list[str] = []
        for each in script.items():
            lines = self._lines(each) if isinstance(each.value, tuple) and each.tag is None else [each.text or ""]
            if lines is None or each.tag is not None or (each.text is None and not isinstance(each.value, tuple)):
                return None
            found += lines
        return found

    def _image(self, name: str, job: Located, variables: Variables) -> str | None:
        image = job.get("image")
        given = image.get("name") if image.mapping() else image
        if image.value is None:
            why = "the job has none, so that GitLab takes its runner's: here it gets the service's default image"
            self._omissions.add(job, f"{name}.image", why)
            return None
        for key, value in image.mapping().items():
            if key != "name" and not (key == "entrypoint" and value.texts() == ("",)):
                self._omissions.add(
                    value, f"{name}.image.{one_line(key)}", "it is not used: steps run as root in the shell"
                )
        text = variables.image(image, f"{name}.image", given.text or "")
        if not IMAGE.fullmatch(text):
            raise LeftOut(image, f"{name}.image", "it is not a plain name of an image")
        return text

    def _tell_tags(self, name: str, tags: Located) -> None:
        for each in tags.items():
            if not _TAGS.fullmatch(each.text or ""):
                why = f"it wants a runner of its own, {one_line(each.scalar or '?')}, which may be any kind of machine"
                raise LeftOut(each, f"{name}.tags", why)
            self._omissions.add(each, f"{name}.tags", "there are no runners to choose from: each job gets a VM")

    def _copies(self, name: str, parallel: Located) -> dict[str, dict[str, str]]:
        """Return the variables of each copy of a job, by its label. Raises LeftOut."""
        if parallel.value is None:
            return {name: {}}
        if type(parallel.value) is int and parallel.value in _COPIES:
            total = parallel.value
            numbers = ((f"{name} {place}/{total}", place) for place in range(1, total + 1))
            return {label: {"CI_NODE_INDEX": str(place), "CI_NODE_TOTAL": str(total)} for label, place in numbers}
        cells: dict[str, dict[str, str]] = {}
        rows = parallel.get("matrix").items()
        for row in rows:
            found = matrix(row.mapping(), lambda each: each.scalar, lists=False) if row.mapping() else None
            if found is None or len(rows) > len(_COPIES):
                break
            cells |= {f"{name}: [{', '.join(cell.values())}]": cell for cell in found}
        else:
            if 0 < len(cells) < _COPIES.stop and not any(
                "$" in value for each in cells.values() for value in each.values()
            ):
                return cells
        raise LeftOut(parallel, f"{name}.parallel", "only lists of plain values are known here, at most 200 copies")

    def _runner_args(self, name: str, job: Located) -> dict[str, object]:
        args: dict[str, object] = {}
        allowed = job.get("allow_failure")
        codes = [each.value for each in allowed.get("exit_codes").items()]
        if allowed.value is True:
            args["soft_fail"] = True
        elif codes and all(type(each) is int and 0 < each < 256 for each in codes):  # noqa: PLR2004 - exit codes
            args["soft_fail"] = {"exit_codes": codes}
        elif not allowed.is_off:
            self._omissions.add(allowed, f"{name}.allow_failure", "it is not known here: a failure fails the build")
        if (retry := self._retry(name, job.get("retry"))) is not None:
            args["retry"] = retry
        if artifacts := self._artifacts(name, job.get("artifacts")):
            args["artifacts"] = artifacts
        return args

    def _retry(self, name: str, retry: Located) -> dict[str, object] | None:
        most = retry.get("max") if retry.mapping() else retry
        if retry.value is None:
            return None
        when = set(retry.get("when").texts() or ("always",))
        known = (
            type(most.value) is int
            and 0 <= most.value <= _MAX_RETRIES
            and when & {"always", "script_failure"}
            and not set(retry.mapping()) - {"max", "when"}
        )
        if not known:
            why = "it runs once: only retries after a failing script are known here, at most two"
            self._omissions.add(retry, f"{name}.retry", why)
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
                path = (each.text or "").removeprefix("./")
                if not path or path.startswith("/") or ".." in path.split("/") or _GLOB_CHARS & set(path):
                    why = "it is not kept: it is not a plain glob below the project"
                    self._omissions.add(each, f"{name}.artifacts.{key}", why)
                else:
                    found.append(path)
        known = {"paths", "reports", "when", *_OF_ARTIFACTS}
        self._omissions.unknown(artifacts, frozenset(known), f"{name}.artifacts.")
        self._omissions.told(artifacts, _OF_ARTIFACTS, f"{name}.artifacts.")
        for report, given in artifacts.get("reports").mapping().items():
            if report != "junit":
                why = "it is not kept as a report: name it in paths, to keep the file"
                self._omissions.add(given, f"{name}.artifacts.reports.{one_line(report)}", why)
        return list(dict.fromkeys(found))

    def _seconds(self, key: str, given: Located) -> int | None:
        text = given.text or ""
        if given.value is None:
            return None
        parts = _TIME.findall(text)
        seconds = sum(int(number) * _TIMES[unit[0]] for number, unit in parts)
        if len(text) > 100 or _TIME.sub("", text) or not 0 < seconds < 2**31:  # noqa: PLR2004 - no duration is longer
            self._omissions.add(given, key, "this duration is not known here: the service's holds")
            return None
        return seconds


def _command(script: str, after: str) -> str:
    """Return a script as GitLab runs it: all lines in one shell that stops at the first failure."""
    if not after:
        return f"{_SHELL}\n{script}"
    return f"set +e\n(\n{_SHELL}\n{script}\n)\nstatus=$?\n(\n{_SHELL}\n{after}\n)\nexit $status"
