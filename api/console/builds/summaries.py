"""The summaries that the jobs of a build write, as HTML."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from storage import immutable
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from markupsafe import Markup

    from storage import Build, ShownSummary, Storage

_MOST = 20
_REMEMBERED = 64
_BOUNDS = Bounds(cpu_seconds=5, memory_bytes=256 << 20, seconds=15)


@immutable
class SummaryView:
    """The summary of a job; ``html`` is None if its text could not be made HTML within bounds."""

    job_uuid: str
    job_name: str
    text: str
    is_cut: bool
    html: Markup | None


@immutable
class SummariesView:
    """The first summaries of a build, and whether there are more."""

    shown: list[SummaryView]
    more: bool


class Summaries:
    """The summaries of builds for pages; remembers the last ones as HTML. Safe in any thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._known: OrderedDict[str, str | None] = OrderedDict()

    def of_build(self, build: Build) -> SummariesView:
        """Return the first summaries of a build."""
        page = self._storage.told.summaries(build.id, _MOST)
        return SummariesView([self._view(build, each) for each in page.rows], page.next_key is not None)

    def _view(self, build: Build, summary: ShownSummary) -> SummaryView:
        from markupsafe import Markup  # noqa: PLC0415 - as the templates, for the first page

        html = self._html(build.organization_slug, summary.text)
        shown = None if html is None else Markup(html)  # noqa: S704 - of `html_of`, which lets no HTML of the job through
        return SummaryView(summary.job_uuid, summary.job_name, summary.text, summary.is_cut, shown)

    def _html(self, owner: str, text: str) -> str | None:
        """Return a text as HTML, None if that takes more than the bounds."""
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        from api.console.builds.markdown import html_of  # noqa: PLC0415 - few pages have any

        html: str | None
        try:
            html = self._storage.confinement.run(html_of, text, bounds=_BOUNDS, owner=owner)
        except WorkFailed:
            html = None
        with self._lock:
            self._known[text] = html
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return html
