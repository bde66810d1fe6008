"""The page of a pipeline: its builds, by branch, state, author and event, and plots of the last ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.console.pages import Page, whole_number
from api.console.pipelines.lines import line_of
from storage import BuildState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import falcon

    from api.console.site import Site
    from storage import PastBuild

_BUILDS = 30
_PLOTTED = 100
_STEPS = 5
_SOURCES = {"api": "API", "ui": "person", "cli": "command line", "webhook": "push", "schedule": "schedule"}


class PipelinePage(Page):
    """``/{org}/pipelines/{pipeline}``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the builds; ``before`` is the number after which the list goes on."""
        found = self._site.access.readable_pipeline(req, org, pipeline)
        storage = self._site.storage
        member = self._site.is_member(req, found.organization_id)
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
        self._site.pages.show(
            req,
            resp,
            "pipelines/pipeline",
            pipeline=found,
            org=org,
            lines=[line_of(self._site, each.build, each.people.first if member else "") for each in page.rows],
            more=None if page.next_key is None else urlencode({**kept, "before": page.next_key}),
            given=given,
            states=list(BuildState),
            sources=_SOURCES,
            member=member,
            form_token=self._site.form_token(req),
            slowest=storage.build_history.slowest(found.id, _PLOTTED, _STEPS),
            flaky=storage.build_history.flaky(found.id, _PLOTTED, _STEPS),
            plot=_plot(storage.build_history.of_pipeline(found.id, _PLOTTED)),
        )


def _plot(newest_first: Sequence[PastBuild]) -> str | None:
    """Return numbers, durations, waits and costs of builds that ran, as JSON; None if they are too few."""
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
                    ("Cost", "", [build.amount_cents / 100 for build in ran]),
                )
            ],
        }
    )
