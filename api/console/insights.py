"""Figures of the last builds of a pipeline or an organization, as pages and as CSV."""

from __future__ import annotations

import csv
import io
import json
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.console.errors import Page
from storage import BuildState, Role, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import falcon

    from api.console.site import Site
    from storage import PastBuild, Pipeline

_PLOTTED = 100
_OF_EACH = 30
"""The last builds of each pipeline that count for its organization."""

_STEPS = 5
_COLUMNS = (
    *("pipeline", "build", "branch", "commit", "state", "created_at", "started_at", "finished_at"),
    *("seconds", "waited_seconds"),
)
_LEAST = 4.0
_JUDGED = {BuildState.PASSED, BuildState.FAILED}
BAR_HEIGHT = 20.0
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@immutable
class BuildBar:
    """A build as a bar: its height is its duration, to the scale of the longest."""

    number: int
    state: BuildState
    height: float


@immutable
class Figures:
    """Bars from the oldest build to the newest. Without builds that passed or failed the figures are None."""

    bars: tuple[BuildBar, ...]
    passed_percent: int | None
    median_seconds: float | None

    @property
    def spoken(self) -> str:
        """The bars in words."""
        count = {state: sum(bar.state is state for bar in self.bars) for state in BuildState}
        return ", ".join(f"{number} {state.value}" for state, number in count.items() if number) or "no builds"


def figures_of(builds: Sequence[PastBuild]) -> Figures:
    """Return the figures of builds, oldest first."""
    longest = max((build.seconds or 0.0 for build in builds), default=0.0) or 1.0
    judged = [build for build in builds if build.state in _JUDGED]
    passed = [build for build in judged if build.state is BuildState.PASSED]
    times = [build.seconds for build in passed if build.seconds is not None]
    return Figures(
        bars=tuple(
            BuildBar(build.number, build.state, max(_LEAST, (build.seconds or 0.0) / longest * BAR_HEIGHT))
            for build in builds
        ),
        passed_percent=round(100 * len(passed) / len(judged)) if judged else None,
        median_seconds=median(times) if times else None,
    )


def insights_of(site: Site, pipeline: Pipeline, branch: str) -> dict[str, object]:
    """Return figures and plots of a pipeline's last builds, its slowest steps, and flaky ones.

    They are of one branch, or of all if it is empty.
    """
    history, wanted = site.storage.build_history, branch or None
    builds = history.of_pipeline(pipeline.id, _PLOTTED, wanted)
    return {
        "slowest": history.slowest(pipeline.id, _PLOTTED, _STEPS, wanted),
        "flaky": history.flaky(pipeline.id, _PLOTTED, _STEPS, wanted),
        "figures": figures_of(builds[::-1]),
        "plot": _plot(builds, _currency(site)),
        "csv": f"insights.csv?{urlencode({'branch': branch})}",
    }


class PipelineInsightsFile(Page):
    """``/{org}/pipelines/{pipeline}/insights.csv``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Download the last builds of a pipeline, of a ``branch`` if it is given."""
        found = self._site.access.readable_pipeline(req, org, pipeline)
        builds = self._site.storage.build_history.of_pipeline(found.id, _PLOTTED, req.get_param("branch") or None)
        rows = [(found.slug, each) for each in builds]
        _download(resp, f"{found.slug}.csv", csv_of(rows, _currency(self._site)))


class OrganizationInsights(Page):
    """``/{org}/insights`` and ``/{org}/insights.csv``, over the last builds of each pipeline."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show a member the figures of each pipeline, of a ``branch`` if it is given."""
        member = self._site.access.member(req, org)
        branch = req.get_param("branch") or ""
        found = self._found(member.organization.id, branch)
        self._site.pages.show(
            req,
            resp,
            "organization/insights",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            branch=branch,
            of_each=_OF_EACH,
            whole=figures_of([each for _, builds in found for each in builds]),
            rows=[(pipeline, len(builds), figures_of(builds)) for pipeline, builds in found],
            csv=f"insights.csv?{urlencode({'branch': branch})}",
        )

    def on_get_file(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Download the builds that the page counts."""
        organization = self._site.access.member(req, org).organization
        found = self._found(organization.id, req.get_param("branch") or "")
        rows = [(pipeline.slug, each) for pipeline, builds in found for each in reversed(builds)]
        _download(resp, f"{organization.slug}.csv", csv_of(rows, _currency(self._site)))

    def _found(self, organization_id: int, branch: str) -> list[tuple[Pipeline, list[PastBuild]]]:
        """Return the pipelines that have builds of a branch, by slug, with their last ones, oldest first."""
        recent = self._site.storage.build_history.recent(organization_id, _OF_EACH)
        wanted = {key: [each for each in builds if branch in {"", each.branch}] for key, builds in recent.items()}
        found = ((self._site.storage.pipelines.by_id(key), builds) for key, builds in wanted.items() if builds)
        return sorted(((each, builds) for each, builds in found if each is not None), key=lambda each: each[0].slug)


def csv_of(rows: Iterable[tuple[str, PastBuild]], currency: str) -> str:
    """Return builds, each with the slug of its pipeline, as CSV; with a currency also what they cost."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((*_COLUMNS, *([f"cost_{currency}"] if currency else [])))
    for slug, each in rows:
        times = (each.created_at, each.started_at, each.finished_at)
        cells = (
            *(slug, each.number, _harmless(each.branch or ""), _harmless(each.commit or ""), each.state.value),
            *("" if at is None else at.isoformat() for at in times),
            *("" if seconds is None else round(seconds, 1) for seconds in (each.seconds, each.waited)),
        )
        writer.writerow((*cells, *([each.amount_cents / 100] if currency else [])))
    return text.getvalue()


def _harmless(text: str) -> str:
    """Return a stranger's text so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _download(resp: falcon.Response, name: str, text: str) -> None:
    resp.content_type = "text/csv; charset=utf-8"
    resp.set_header("Content-Disposition", f'attachment; filename="{name}"')
    resp.cache_control = ["no-store"]
    resp.text = text


def _currency(site: Site) -> str:
    return site.currency if site.storage.billing.require_credit else ""


def _plot(newest_first: Sequence[PastBuild], currency: str) -> str | None:
    """Return numbers, durations and waits of builds that ran, as JSON; None if they are too few.

    With a currency also what they cost.
    """
    ran = [build for build in reversed(newest_first) if build.seconds is not None]
    if len(ran) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    return json.dumps(
        {
            "time": False,
            "x": [build.number for build in ran],
            "series": [
                {"label": label, "unit": unit, "values": values}
                for label, unit, values in (
                    ("Duration", "s", [round(build.seconds or 0.0, 1) for build in ran]),
                    ("Wait for a VM", "s", [round(build.waited or 0.0, 1) for build in ran]),
                    ("Cost", currency, [build.amount_cents / 100 for build in ran]),
                )
                if label != "Cost" or currency
            ],
        }
    )
