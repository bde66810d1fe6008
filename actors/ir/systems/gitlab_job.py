"""One job of GitLab as a job of the language. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.ir.systems.github_image import IMAGE
from actors.ir.systems.gitlab_variables import Variables, told_of_git
from actors.ir.systems.jobs import MAY_PIPE, NAME_IN_TEXT, check_names, duration, matrix, word
from actors.ir.systems.jobs import label as one_line
from actors.ir.systems.model import Cell, Job, texts_of
from actors.ir.systems.omissions import LeftOut
from actors.ir.systems.paths import KEPT, MOST_FOLDERS, NOT_KEPT, kept_folders
from actors.ir.systems.services import services_of_gitlab

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.systems.located import Located
    from actors.ir.systems.model import Members
    from actors.ir.systems.omissions import Omissions

_KNOWN = frozenset(
    {"stage", "image", "script", "before_script", "after_script", "variables", "needs", "dependencies", "artifacts"}
    | {"timeout", "retry", "allow_failure", "parallel", "rules", "only", "except", "when", "tags"}
    | {"services", "cache"}
)
_NOTES = MappingProxyType(
    {
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

_PIPES = "if set -o | grep pipefail > /dev/null; then set -o pipefail; fi"
"""The rule of GitLab's runner that a failure in a pipe is one, for shells that are not bash."""

_TIMES = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(\d{1,6})\s*(d|h|m|s|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)\b\s*")
_COPIES = range(2, 201)
"""The numbers of copies that GitLab accepts."""

_MAX_RETRIES = 2
_CODES = range(1, 256)
_ANY_OF_GLOB = frozenset("*?[")
_GLOB_CHARS = frozenset("${}!")
_LARGE = frozenset({"node_modules", "vendor", ".venv", "venv", "virtualenv", ".gradle", ".m2", "target", ".cargo"})
"""Folders of which one has more files than a job may keep as artifacts."""


class JobReader:
    """Makes jobs.

    ``variables`` are those of the file; all jobs get ``values``, the plain ones among them.
    """

    def __init__(self, omissions: Omissions, variables: Located, values: Mapping[str, str]) -> None:
        self._omissions = omissions
        self._variables = variables
        self._values = values

    def job(self, name: str, job: Located) -> Job:
        """Return a job, with a cell for each copy, but not what it waits for. Raises LeftOut."""
        if job.has_tags():
            raise LeftOut(job, name, "tags such as !reference are known as values alone here, and of !reference only")
        for member in job.mapping():
            if member not in _KNOWN | set(_NOTES):
                why = _WHY.get(member, f"{one_line(member)} has no counterpart here")
                raise LeftOut(job.get(member), f"{name}.{member}", why)
        self._omissions.told(job, _NOTES, f"{name}.")
        self._tell_tags(name, job.get("tags"))
        script = self._script(name, job)
        outputs = self._outputs(name, job)
        common = self._common(name, job)
        copies = self._copies(name, job.get("parallel"))
        cells = tuple(
            Cell(values, self._members(self._omissions, name, job, label, values, script, outputs) | common)
            for label, values in copies.items()
        )
        for each in cells:
            check_names(job, name, texts_of(each.members))
        return Job(name, cells, pattern=self._pattern(name, job, copies, script, outputs, common))

    def _pattern(
        self,
        name: str,
        job: Located,
        copies: Mapping[str, Mapping[str, str]],
        script: tuple[str, str],
        outputs: str,
        common: Members,
    ) -> Members | None:
        """Return the keys with names of the matrix for its values; None if they cannot stand there."""
        first, *others = copies.values()
        if not first or any(set(each) != set(first) for each in others):
            return None
        names = {axis: f"${{{{ matrix.{axis} }}}}" for axis in first}
        label = f"{name}: [{', '.join(names.values())}]"
        if "CI_NODE_TOTAL" in first:
            label = f"{name} {names['CI_NODE_INDEX']}/{names['CI_NODE_TOTAL']}"
        try:
            return {**self._members(self._omissions.of_a_part(), name, job, label, names, script, outputs), **common}
        except LeftOut:
            return None

    def _members(
        self,
        omissions: Omissions,
        name: str,
        job: Located,
        label: str,
        cell: Mapping[str, str],
        script: tuple[str, str],
        outputs: str,
    ) -> dict[str, Any]:
        own = job.get("variables")
        if own.value is not None and not isinstance(own.value, dict):
            raise LeftOut(own, f"{name}.variables", "its variables are no mapping")
        told_of_git(own, f"{name}.variables", omissions)
        numbers = {key: value for key, value in cell.items() if key.startswith("CI_NODE_")}
        cells = {key: own.with_value(value.replace("$", "$$")) for key, value in cell.items() if key not in numbers}
        variables = Variables({**self._variables.mapping(), **own.mapping(), **cells}, f"{name}.variables")
        given = {"CI_JOB_NAME": label, "CI_JOB_STAGE": job.get("stage").text or "test", **numbers}
        begins = variables.beginning(name, job, "\n".join(script), given, omissions)
        env = {key: value for key, value in variables.values.items() if self._values.get(key) != value}
        return {
            "name": one_line(label),
            "image": self._image(name, job, variables, omissions),
            "services": services_of_gitlab(job.get("services"), name, variables, omissions),
            "env": {**env, **numbers},
            "run": "\n".join([*begins, _command(f"{script[0]}{outputs}", script[1])]),
        }

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

    def _image(self, name: str, job: Located, variables: Variables, omissions: Omissions) -> str | None:
        image = job.get("image")
        given = image.get("name") if image.mapping() else image
        if image.value is None:
            why = "the job has none, so that GitLab takes its runner's: here it gets the service's default image"
            omissions.add(job, f"{name}.image", why)
            return None
        for key, value in image.mapping().items():
            if key != "name" and not (key == "entrypoint" and value.texts() == ("",)):
                omissions.add(value, f"{name}.image.{one_line(key)}", "it is not used: steps run as root in the shell")
        text = variables.image(image, f"{name}.image", given.text or "")
        if not IMAGE.fullmatch(NAME_IN_TEXT.sub("x", text)):
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

    def _common(self, name: str, job: Located) -> dict[str, Any]:
        """Return what all copies have in common."""
        found: dict[str, Any] = {
            "artifacts": self._artifacts(name, job.get("artifacts")),
            "timeout": self._timeout(f"{name}.timeout", job.get("timeout")),
            "retry": self._retry(name, job.get("retry")),
            "keep": self._kept(name, job.get("cache")),
        }
        allowed = job.get("allow_failure")
        codes = _exit_codes(allowed.get("exit_codes"))
        if allowed.value is True:
            found["soft_fail"] = True
        elif codes:
            found["soft_fail"] = {"exit_codes": codes}
        elif not allowed.is_off:
            self._omissions.add(allowed, f"{name}.allow_failure", "it is not known here: a failure fails the build")
        return {key: value for key, value in found.items() if value}

    def _retry(self, name: str, retry: Located) -> int | dict[str, object] | None:
        most = retry.get("max") if retry.mapping() else retry
        if retry.value is None:
            return None
        when = set(retry.get("when").texts() or ("always",))
        codes = retry.get("exit_codes")
        known = (
            type(most.value) is int
            and 0 <= most.value <= _MAX_RETRIES
            and when & {"always", "script_failure"}
            and not set(retry.mapping()) - {"max", "when", "exit_codes"}
            and (codes.value is None or _exit_codes(codes))
        )
        if not known:
            why = "it runs once: only retries after a failing script are known here, at most two"
            self._omissions.add(retry, f"{name}.retry", why)
            return None
        limit = most.value if type(most.value) is int else 0
        return {"limit": limit, "exit_codes": _exit_codes(codes)} if limit and codes.value is not None else limit

    def _kept(self, name: str, caches: Located) -> list[str]:
        """Return the folders of the caches of a job."""
        found: list[str] = []
        for each in caches.items():
            paths = each.get("paths").texts() if each.get("paths").value is not None else ()
            folders = kept_folders(paths or ())
            if each.get("untracked").value is True or folders is None or len(found) + len(folders) > MOST_FOLDERS:
                if each.mapping():
                    self._omissions.add(each, f"{name}.cache", NOT_KEPT)
                continue
            self._omissions.add(each, f"{name}.cache", KEPT)
            found += folders
        return list(dict.fromkeys(found))

    def _artifacts(self, name: str, artifacts: Located) -> list[str]:
        found: list[str] = []
        lists = {
            "paths": artifacts.get("paths"),
            "reports.junit": artifacts.get("reports", "junit"),
        }
        for key, paths in lists.items():
            for each in paths.items():
                path = kept_path(each)
                if path is None:
                    why = "it is not kept: it is not a plain glob below the project"
                    self._omissions.add(each, f"{name}.artifacts.{key}", why)
                elif is_large(path):
                    why = f"{one_line(path)} is not kept: a job keeps at most 1,000 files, and others start `from` it"
                    self._omissions.add(each, f"{name}.artifacts.{key}", why)
                else:
                    found.append(path)
        known = {"paths", "reports", "when", *_OF_ARTIFACTS}
        self._omissions.unknown(artifacts, frozenset(known), f"{name}.artifacts.")
        self._omissions.told(artifacts, _OF_ARTIFACTS, f"{name}.artifacts.")
        for report, given in artifacts.get("reports").mapping().items():
            if report not in {"junit", "dotenv"}:
                why = "it is not kept as a report: name it in paths, to keep the file"
                self._omissions.add(given, f"{name}.artifacts.reports.{one_line(report)}", why)
        return list(dict.fromkeys(found))

    def _outputs(self, name: str, job: Located) -> str:
        """Return the lines that make outputs of the variables of a report. Raises LeftOut."""
        given = job.get("artifacts", "reports", "dotenv")
        if given.value is None:
            return ""
        key = f"{name}.artifacts.reports.dotenv"
        path = kept_path(given)
        if path is None or _ANY_OF_GLOB & set(path):
            raise LeftOut(given, key, "it is not the plain path of one file below the project")
        if job.get("parallel").value is not None or job.get("artifacts", "when").text not in {None, "on_success"}:
            raise LeftOut(given, key, "only variables of one job that has passed are handed over here")
        why = (
            "its variables are outputs, for the jobs that need it: one that a job declares itself wins there, and a"
            " line that is no NAME=value fails this job"
        )
        self._omissions.add(given, key, why)
        file = word(f"./{path}")
        return f'\nif [ -f {file} ]; then cat {file} >> "$CI_OUTPUT"; fi'

    def _timeout(self, key: str, given: Located) -> str | None:
        text = given.text or ""
        if given.value is None:
            return None
        parts = _TIME.findall(text)
        seconds = sum(int(number) * _TIMES[unit[0]] for number, unit in parts)
        if len(text) > 100 or _TIME.sub("", text) or not 0 < seconds < 2**31:  # noqa: PLR2004 - no duration is longer
            self._omissions.add(given, key, "this duration is not known here: the service's holds")
            return None
        return duration(seconds)


def kept_path(given: Located) -> str | None:
    """Return a path of artifacts as a glob of the language; None if it has none."""
    path = (given.text or "").removeprefix("./")
    known = path and not path.startswith("/") and ".." not in path.split("/") and not _GLOB_CHARS & set(path)
    return path if known else None


def is_large(path: str) -> bool:
    """Tell whether a path is a folder that usually has more files than a job may keep."""
    return path.rstrip("/*").rpartition("/")[2] in _LARGE


def _exit_codes(given: Located) -> list[int]:
    """Return exit codes of failures; none if one of them is none."""
    codes = [each.value for each in given.items()]
    known = [each for each in codes if type(each) is int and each in _CODES]
    return known if len(known) == len(codes) else []


def _command(script: str, after: str) -> str:
    """Return a script as GitLab runs it: all lines in one shell that stops at the first failure.

    The shell of the language does that, but for pipes in images without bash.
    """
    pipes = f"{_PIPES}\n" if MAY_PIPE.search(script) or MAY_PIPE.search(after) else ""
    if not after:
        return f"{pipes}{script}"
    return f"{pipes}set +e\n(\nset -e\n{script}\n)\nstatus=$?\n(\nset -e\n{after}\n)\nexit $status"
