"""The pages of a pipeline: its builds, what they tell together, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from actors import wait_reason
from actors.render import without_excerpts
from actors.source_hosts import BuildPages
from api.console.builds.error_position import cause_of
from api.console.errors import Page
from api.console.insights import insights_of
from api.console.pages import title_of, whole_number
from api.engine import waiting_reason
from api.errors.catalog import ApiError
from storage import BuildPeople, BuildState, Role, SecretScope, Visibility, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import falcon

    from api.console.site import Site
    from storage import Build, Pipeline


_MOST_NAMES = 3

_BUILDS = 30
_SOURCES = {
    "api": "API",
    "ui": "person",
    "cli": "command line",
    "webhook": "push",
    "schedule": "schedule",
    "trigger_job": "pipeline",
}
_MOST_SCHEDULES = 100


@immutable
class BuildLine:
    """A build in a list; ``why`` says why it waits, failed or was canceled.

    ``pipeline`` is the name of its pipeline, in lists of several. ``people``, and ``pages`` at its source host, are for
    members.
    """

    build: Build
    why: str = ""
    people: BuildPeople = BuildPeople()
    pipeline: str = ""
    pages: BuildPages = BuildPages()

    @property
    def title(self) -> str:
        """The first line of its message."""
        return title_of(self.build.message, self.build.commit)

    @property
    def who(self) -> str:
        """The person to name beside the build; empty if nobody is known."""
        return self.people.first

    @property
    def who_page(self) -> str | None:
        """The page at the source host of whom the list names."""
        return self.pages.author if self.people.author else self.pages.pusher if self.people.pusher else None

    @property
    def runs(self) -> bool:
        """True if time passes for it."""
        return self.build.started_at is not None and self.build.finished_at is None


def why_of(site: Site, build: Build) -> str:
    """Return why a build waits, or was canceled, or the jobs that failed it."""
    match build.state:
        case BuildState.SCHEDULED:
            return _wait(site, build)
        case BuildState.FAILED:
            failed = _named(site.storage.build_history.failed_jobs(build.id))
            return failed or without_excerpts(cause_of(build.error_message or ""))
        case _:
            return build.error_message or ""


def host_pages(site: Site, builds: Iterable[Build], pipelines: Iterable[Pipeline] = ()) -> dict[int, BuildPages]:
    """Return the pages of builds at their source hosts by the builds' ids, for members.

    ``pipelines`` are those that the caller has at hand.
    """
    storage, of_build = site.storage, {each.id: each for each in builds}
    known = {each.id: each for each in pipelines}
    wanted = {each.pipeline_id for each in of_build.values()}
    others = (storage.pipelines.by_id(each) for each in wanted - known.keys())
    found = [*(known[each] for each in wanted & known.keys()), *(each for each in others if each is not None)]
    repositories = storage.repositories.of_pipelines(found)
    origins = storage.build_origins.of_builds(of_build)
    return {
        key: BuildPages.of(build, repositories.get(build.pipeline_id), origins.get(key))
        for key, build in of_build.items()
    }


def _wait(site: Site, build: Build) -> str:
    """Return why a build waits: what its first waiting job waits for."""
    if (reason := wait_reason(site.storage, build)) is not None:
        return reason
    if site.storage.renders.pending(build.id):
        return site.engine.renders_wait() or "its pipeline files are being rendered"
    storage, jobs = site.storage, site.storage.jobs.of_build(build.id)
    gates = storage.gates.of_build(build.id) if any(job.environment is not None for job in jobs) else {}
    reasons = (waiting_reason(storage, site.engine, job, gates.get(job.id)) for job in jobs)
    return next((reason for reason in reasons if reason), "")


def _named(jobs: Sequence[str]) -> str:
    """Return the first names of jobs, and how many there are besides."""
    others = len(jobs) - _MOST_NAMES
    return ", ".join(jobs[:_MOST_NAMES]) + (f" and {others} more" if others > 0 else "")


class PipelinePage(Page):
    """``/{org}/pipelines/{pipeline}``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the builds, from ``before`` on, or show what they tell together."""
        found = self._site.access.readable_pipeline(req, org, pipeline)
        storage = self._site.storage
        member = self._site.is_member(req, found.organization_id)
        insights = req.get_param("view") == "insights"
        filters = ("branch", "state", "event", "author") if member else ("branch", "state", "event")
        given = {name: req.get_param(name) or "" for name in filters}
        page = storage.build_history.filtered(
            found.id,
            _BUILDS,
            whole_number(req.get_param("before")),
            branch=given["branch"] or None,
            state=BuildState(given["state"]) if given["state"] in set(BuildState) else None,
            source=given["event"] or None,
            author=given.get("author") or None,
        )
        kept = {name: value for name, value in given.items() if value}
        pages = host_pages(self._site, (each.build for each in page.rows), [found]) if member else {}
        self._site.pages.show(
            req,
            resp,
            "pipelines/pipeline",
            pipeline=found,
            org=org,
            lines=[
                BuildLine(
                    each.build,
                    why_of(self._site, each.build),
                    each.people if member else BuildPeople(),
                    pages=pages.get(each.build.id, BuildPages()),
                )
                for each in page.rows
            ],
            more=None if page.next_key is None else urlencode({**kept, "before": page.next_key}),
            given=given,
            states=list(BuildState),
            sources=_SOURCES,
            member=member,
            connected=member and storage.repositories.of_pipeline(found) is not None,
            inputs=input_fields(declared.inputs) if member and (declared := storage.declarations.get(found.id)) else [],
            form_token=self._site.form_token(req),
            **(insights_of(self._site, found, given["branch"]) if insights else _NO_INSIGHTS),
            insights=insights,
        )


_NO_INSIGHTS: Mapping[str, object] = {"slowest": (), "flaky": (), "plot": None, "figures": None, "csv": ""}


class PipelineSettingsPage(Page):
    """``/{org}/pipelines/{pipeline}/settings``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Show the settings to a member; only admins change them."""
        member, found = self._site.access.pipeline(req, org, pipeline)
        storage = self._site.storage
        self._site.pages.show(
            req,
            resp,
            "pipelines/settings",
            org=org,
            pipeline=found,
            admin=member.role.covers(Role.ADMIN),
            public=found.visibility is Visibility.PUBLIC,
            connected=storage.repositories.of_pipeline(found) is not None,
            triggers=storage.pipeline_triggers.of_pipeline(found.id),
            schedules=storage.schedules.page(found.id, _MOST_SCHEDULES, None).rows,
            secrets=storage.secrets.names(SecretScope(found.organization_id, found.id)),
            form_token=self._site.form_token(req),
            url=self._url,
        )


def settings_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``updatePipeline`` for the form of the settings."""
    choices = {"yes": True, "no": False, "": None}
    followers = fields.get("followers")
    return {
        **({} if followers is None else {"followers": followers.replace(",", " ").split()}),
        **{
            name: choices[given]
            for name, given in fields.items()
            if name in {"strict_shell", "find_culprits"} and given in choices
        },
        **({} if "test_command" not in fields else {"test_command": fields["test_command"].strip() or None}),
        "name": fields.get("name", ""),
        "default_branch": fields.get("default_branch", ""),
        "description": fields.get("description") or None,
        "visibility": fields.get("visibility", ""),
        "allow_manual": fields.get("allow_manual") == "yes",
        "fail_fast": fields.get("fail_fast") == "yes",
        "artifacts_public": fields.get("artifacts_public") == "yes",
    }


def build_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``createBuild`` for its form. Raises ApiError ``invalid_body``."""
    texts = {name: fields[name] for name in ("branch", "commit", "message") if fields.get(name)}
    sources = {name: fields[name] for name in ("source_url", "pipeline_ir") if fields.get(name, "").strip()}
    debug = fields.get("debug") == "yes"
    return {**texts, **sources, "env": _env(fields.get("env", "")), "source": "ui", "debug": debug}


_INPUT = "input-"


def start_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``startBuild`` for its form; an input without a value has its default."""
    inputs = {name.removeprefix(_INPUT): value for name, value in fields.items() if name.startswith(_INPUT) and value}
    ref, debug = fields.get("ref", "").strip(), fields.get("debug") == "yes"
    return {**({"ref": ref} if ref else {}), "inputs": inputs, "source": "ui", "debug": debug}


def input_fields(declared: Mapping[str, object]) -> list[InputField]:
    """Return the fields of a form for inputs, as the repository's default branch declares them."""
    return [InputField.of(name, each) for name, each in declared.items() if isinstance(each, dict)]


@immutable
class InputField:
    """A field for an input: its kind, the values of a choice, and its default as text."""

    name: str
    kind: str
    choices: tuple[str, ...]
    default: str
    required: bool
    help: str

    @classmethod
    def of(cls, name: str, declared: Mapping[str, object]) -> InputField:
        """Return the field of one declaration, which was checked as it was rendered."""
        choices = declared.get("choice")
        kind = next((each for each in ("choice", "boolean", "number") if declared.get(each)), "text")
        return cls(
            name,
            kind,
            tuple(map(str, choices)) if isinstance(choices, list) else (),
            str(declared.get("default", "false" if kind == "boolean" else "")),
            declared.get("required") is True and "default" not in declared,
            str(declared.get("help", "")),
        )


def rebuild_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``rebuildBuild`` for its form."""
    return {"debug": fields.get("debug") == "yes", "source": "ui"}


def _env(text: str) -> dict[str, str]:
    """Return the variables of lines ``NAME=value``."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if not equals:
            raise ApiError("invalid_body", f"env: expected NAME=value in each line, not {line[:100]!r}")
        found[name.strip()] = value
    return found
