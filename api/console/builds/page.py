"""The page of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from actors import source_hosts
from actors.render import parts_of
from actors.test_reports import CaseOutcome
from api.console.artifacts import trees
from api.console.builds.debugging import held_vms
from api.console.builds.error_position import cause_of, positions_of
from api.console.builds.failures import failed_jobs
from api.console.builds.graph import NODE_HEIGHT, NODE_WIDTH, GraphEdge, GraphNode, lay_out
from api.console.builds.live import Moment
from api.console.builds.states import MatrixView, view_of
from api.console.builds.summaries import Summaries
from api.console.builds.test_reports import MOST_SHOWN, TestReports
from api.console.builds.timeline import WIDTH, time_line
from api.console.errors import Page
from api.console.pages import whole_number
from api.console.previews import shown_previews
from api.operations.coverage import CoverageRecord, listed_files
from api.operations.culprits import CulpritSearchRecord
from api.operations.proofs import ProofRecord
from api.state_looks import LOOKS, in_signs, look_of, worst
from storage import RENDER_LOG, BuildPeople, BuildState, EdgeKind, ProofState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.test_reports import ReadReports
    from api.console.builds.states import BuildView, JobView
    from api.console.site import Site
    from storage import Build, Pipeline

_VIEWS = (
    ("jobs", "Jobs"),
    ("graph", "Graph"),
    ("time", "Time line"),
    ("summary", "Summary"),
    ("tests", "Tests"),
    ("coverage", "Coverage"),
    ("artifacts", "Artifacts"),
)
_FOR_MEMBERS = {"tests", "coverage", "artifacts"}
_NAMES = tuple(name for name, _ in _VIEWS)
_SOURCES = {
    "api": "the API",
    "ui": "a person, here",
    "cli": "a command line",
    "webhook": "a push",
    "schedule": "a schedule",
    "trigger_job": "another build",
    "culprit": "the search for a culprit",
}
_FOLD_FROM = 40
_RENDER_LOG_BYTES = 64 * 2**10
_MOST_ARTIFACTS = 500
_MOST_FILES = 500
_MOST_ANNOTATIONS = 200
_MOST_PROOFS = 20


class BuildPage(Page):
    """``/{org}/pipelines/{pipeline}/builds/{number}``, in one of its views."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._reports = TestReports(site.storage, site.test_reports)
        self._summaries = Summaries(site.storage)

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Show the build with its jobs as a list, a graph or a time line, or what these left."""
        site = self._site
        build = site.access.readable_build(req, org, pipeline, number)
        member = site.is_member(req, build.organization_id)
        named = req.get_param("view")
        chosen = named if named in _NAMES and (named not in _FOR_MEMBERS or member) else _NAMES[0]
        moment = Moment(view_of(site.storage, site.engine, build, site.amount))
        if chosen == "tests" and req.get_param("part") == "count":
            resp.content_type = falcon.MEDIA_HTML
            resp.cache_control = ["no-store"]
            resp.text = count_of_tests(self._reports.reports.of_build(build))
            return
        its_pipeline = site.storage.pipelines.by_id(build.pipeline_id)
        site.pages.show(
            req,
            resp,
            "builds/build",
            moment=moment,
            chosen=chosen,
            member=member,
            views=[each for each in _VIEWS if each[0] not in _FOR_MEMBERS or member],
            sources=_SOURCES,
            people=site.storage.build_history.people(build.id) if member else BuildPeople(),
            pipeline_name="" if its_pipeline is None else its_pipeline.name,
            pages=self._at_host(build, its_pipeline) if member else source_hosts.BuildPages(),
            counts=self._counts(moment.view, member=member),
            previews=shown_previews(site, build) if member else [],
            excused_tests=site.storage.quarantine.count_excused(build.id),
            counts_tests=member and site.storage.artifacts.count_ending(build.id, ".xml") > 0,
            form_token=site.form_token(req),
            held=held_vms(site.storage, moment.view.build) if member and build.debug else [],
            **self._culprit(build, its_pipeline),
            **self._rejection(moment.view.build),
            **self._of_view(req, moment.view, chosen, member=member),
        )

    def _of_view(self, req: falcon.Request, view: BuildView, chosen: str, *, member: bool) -> dict[str, object]:
        storage, build = self._site.storage, view.build
        match chosen:
            case "graph":
                return self._graph(req, view)
            case "time":
                jobs = storage.jobs.of_build(build.id)
                attempts = storage.attempts.of_build(build.id)
                line = time_line(jobs, attempts, build.created_at, self._site.clock.now())
                return {"time": line, "time_width": WIDTH}
            case "tests":
                return {"tests": self._reports.of_build(build), "most": MOST_SHOWN, **self._proofs(build)}
            case "coverage":
                found = self._site.build_coverage.compared(build)
                files, more = listed_files(found, 0, _MOST_FILES)
                return {"coverage": CoverageRecord.of(found), "files": files, "more": more}
            case "artifacts":
                kept = storage.artifacts.page_of_build(build.id, _MOST_ARTIFACTS, whole_number(req.get_param("after")))
                return {
                    "artifacts": trees(kept.rows, {job.uuid: job.name for job in view.jobs}),
                    "more_artifacts": kept.next_key,
                    "artifacts_expired_at": storage.artifacts.expired_at(build.id),
                }
            case "summary":
                return {
                    "summaries": self._summaries.of_build(build),
                    "annotations": storage.told.annotations(build.id, _MOST_ANNOTATIONS),
                    "annotation_counts": storage.told.annotation_counts(build.id),
                }
            case _:
                provable = self._provable(build) if member else frozenset()
                return {"failed": failed_jobs(view, storage.logs), "provable": provable}

    def _proofs(self, build: Build) -> dict[str, object]:
        """Return the proofs of a build, newest first, and the latest result of each test by its job."""
        storage = self._site.storage
        found = [ProofRecord.of(storage, each) for each in storage.proofs.of_build(build.id, _MOST_PROOFS)]
        proved = {
            (proof.job_id, test.suite, test.name): test
            for proof in reversed(found)
            for test in proof.tests
            if test.passed + test.failed
        }
        held = storage.quarantine.in_force(build.pipeline_id)
        excused = {(each.suite, each.name) for each in storage.quarantine.excused(build.id)}
        running = any(each.state is ProofState.RUNNING for each in found)
        return {
            "proofs": found,
            "proved": proved,
            "proving": running,
            "provable": self._provable(build),
            "quarantine": held,
            "in_quarantine": {(each.suite, each.name) for each in held},
            "excused": excused,
        }

    def _provable(self, build: Build) -> frozenset[str]:
        """Return the failed jobs whose tests can be run again from the disk before them, by UUID."""
        storage = self._site.storage
        jobs = storage.jobs.of_build(build.id) if build.state.terminal or build.state is BuildState.FAILING else []
        return frozenset(job.uuid for job in jobs if job.state.failed and storage.kept_disks.of_job(job.id))

    def _counts(self, view: BuildView, *, member: bool) -> dict[str, int]:
        """Return how much there is in views, as far as that is known without reading files."""
        files = self._site.storage.artifacts.count_ending(view.build.id, "") if member else 0
        return {"jobs": len(view.jobs), "artifacts": files}

    def _at_host(self, build: Build, pipeline: Pipeline | None) -> source_hosts.BuildPages:
        storage = self._site.storage
        repository = None if pipeline is None else storage.repositories.of_pipeline(pipeline)
        return source_hosts.BuildPages.of(build, repository, storage.build_origins.get(build.id))

    def _culprit(self, build: Build, pipeline: Pipeline | None) -> dict[str, object]:
        """Return the search for what broke a build, and the number of the build whose search this one is of."""
        storage = self._site.storage
        search = storage.culprits.of_build(build.id)
        of = None if build.culprit_search_id is None else storage.culprits.get(build.culprit_search_id)
        broken = None if of is None else storage.builds.get(of.build_id)
        repository = None if pipeline is None else storage.repositories.of_pipeline(pipeline)
        pages = source_hosts.HostPages.of(repository)
        return {
            "culprit": None if search is None else CulpritSearchRecord.of(storage, search),
            "culprit_page": pages.commit(search.culprit) if pages and search and search.culprit else None,
            "searches": None if broken is None else broken.number,
        }

    def _graph(self, req: falcon.Request, view: BuildView) -> dict[str, object]:
        position = {job.id: job.position for job in view.jobs}
        edges = [
            GraphEdge(position[edge.from_id], position[edge.to_id], edge.kind is EdgeKind.BUILDS_IN)
            for edge in self._site.storage.jobs.edges(view.build.id)
        ]
        wanted = req.get_param("fold")
        folded = len(view.jobs) >= _FOLD_FROM if wanted is None else wanted == "yes"
        nodes = [GraphNode(job.position, job.name, job.seconds, job.matrix_job) for job in view.jobs]
        asked = set(req.get_param_as_list("open") or ())
        opened = [each.key for each in view.entries if isinstance(each, MatrixView) and each.key in asked]
        return {
            "graph": lay_out(nodes, edges, fold=folded, opened=opened),
            "opened": opened,
            "in_signs": _in_signs,
            "by_position": {job.position: job for job in view.jobs},
            "folded": folded,
            "worst": _worst,
            "looks": [(state, look.sign, look.tone) for state, look in LOOKS.items()],
            "node_width": NODE_WIDTH,
            "node_height": NODE_HEIGHT,
        }

    def _rejection(self, build: Build) -> dict[str, object]:
        """Return why a build failed as a whole, its pipeline files' output, and the place of the error."""
        storage = self._site.storage
        message = build.error_message or ""
        if build.error_code is None:
            return {"why_parts": parts_of(message), "render_log": "", "positions": []}
        log = ""
        if storage.renders.get(build.id) is not None and build.logs_expired_at is None:
            log = storage.logs.reader(build.uuid, RENDER_LOG).read(0, _RENDER_LOG_BYTES).decode("utf-8", "replace")
        positions = positions_of(message, log, storage.builds.pipeline_ir(build.id))
        # The output has the whole traceback.
        return {"why_parts": parts_of(cause_of(message) if log else message), "render_log": log, "positions": positions}


def count_of_tests(read: ReadReports) -> str:
    """Return the number of tests that failed with its sign, or of all; empty without tests."""
    failed = read.counts.get(CaseOutcome.FAILED, 0)
    return f"{failed} {look_of('failed').sign}" if failed else str(sum(read.counts.values()) or "")


def _in_signs(positions: Sequence[int], by_position: Mapping[int, JobView]) -> str:
    """Return how many jobs of a node are in which state."""
    return in_signs([by_position[position].shown for position in positions])


def _worst(positions: Sequence[int], by_position: Mapping[int, JobView]) -> str:
    """Return the state of a node: of several jobs the one that matters most."""
    return worst({by_position[position].shown for position in positions})
