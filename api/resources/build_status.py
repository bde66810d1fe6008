"""Badges, and the feed for monitors (wire-decisions.md, "Badges and monitors").

Both are for programs that refetch them, so they may be stored but are revalidated each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.coverage import percent_of
from api.build_status.badge import UNKNOWN_BADGE, badge_of, coverage_badge
from api.build_status.cctray import cctray
from api.errors.catalog import ApiError
from api.http.files import ETAG, NOT_MODIFIED, answer_unless_known
from api.openapi.operations import Answer, Parameter, operation
from api.operations.operation import Call
from api.operations.things import readable_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.middleware.authentication import Access
    from api.openapi.operations import Responder
    from api.operations.service import Service
    from storage import Storage

_SVG = "image/svg+xml"
_XML = "application/xml"
_MAX_PROJECTS = 1000
_BRANCH = Parameter(
    "branch",
    "The branch whose latest build is shown; by default the pipeline's default branch.",
    {"type": "string", "examples": ["main"]},
)
_UNKNOWN = "A badge that says `unknown`: there is no such pipeline, or you may not read it."


def _badge(id: str) -> Callable[[Responder], Responder]:
    """Declare the responder of a badge."""
    return operation(
        id,
        Answer(200, "The badge.", media_type=_SVG, headers=ETAG),
        NOT_MODIFIED,
        Answer(404, _UNKNOWN, media_type=_SVG),
        errors=("route_not_found",),  # of a name with a line break
        parameters=(_BRANCH,),
        security="optional",
    )


class BadgeResource:
    """``/badges/{org}/{pipeline}.svg``."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._storage = storage
        self._access = access

    @_badge("getBadge")
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Get the state of a pipeline's latest build as an image.

        Public pipelines need no token.
        """
        caller = self._access.wide_caller(req)
        branch = req.get_param("branch") or None
        reader = None if caller is None else caller.user.id
        status = self._storage.build_status.of_branch(org, pipeline, branch, reader)
        _answer_badge(req, resp, None if status is None else badge_of(status))


class CoverageBadgeResource:
    """``/badges/{org}/{pipeline}/coverage.svg``."""

    def __init__(self, access: Access, service: Service) -> None:
        self._access = access
        self._service = service

    @_badge("getCoverageBadge")
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Get the coverage of a pipeline's latest build that passed as an image.

        Public pipelines need no token.
        """
        call = Call(self._service, self._access.wide_caller(req))
        try:
            found = readable_pipeline(call.storage, call.caller, org, pipeline)
        except ApiError:
            _answer_badge(req, resp, None)
            return
        branch = req.get_param("branch") or found.default_branch
        build = call.storage.builds.latest_passed(found.id, branch)
        coverage = None if build is None else call.build_coverage.of_build(build)
        percent = None if coverage is None else percent_of(coverage.hits, coverage.count)
        _answer_badge(req, resp, coverage_badge(percent))


def _answer_badge(req: falcon.Request, resp: falcon.Response, badge: str | None) -> None:
    """Respond with a badge; without one, say that the pipeline is unknown."""
    _revalidated(req, resp)
    # The text comes from people, and the image may be opened as a page.
    resp.set_header("Content-Security-Policy", "default-src 'none'")
    if badge is None:
        resp.status = 404
        resp.content_type = _SVG
        resp.data = UNKNOWN_BADGE.encode()
    else:
        answer_unless_known(req, resp, badge.encode(), _SVG)


class CctrayResource:
    """``/cc.xml``."""

    def __init__(self, storage: Storage, access: Access, base_url: str) -> None:
        self._storage = storage
        self._access = access
        self._base_url = base_url

    @operation(
        "getCctray",
        Answer(200, "The feed.", media_type=_XML, headers=ETAG),
        NOT_MODIFIED,
        security="optional",
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the status of pipelines on their default branches, in the CCTray format.

        With a token the pipelines of your organizations come first. Public pipelines follow, oldest first. At most
        1,000 pipelines are listed.
        """
        caller = self._access.wide_caller(req)
        own = [] if caller is None else self._storage.build_status.of_reader(caller.user.id, _MAX_PROJECTS)
        public = self._storage.build_status.public(_MAX_PROJECTS)
        statuses = {(each.organization_slug, each.pipeline_slug): each for each in (*own, *public)}
        _revalidated(req, resp)
        answer_unless_known(req, resp, cctray(list(statuses.values())[:_MAX_PROJECTS], self._base_url), _XML)


def _revalidated(req: falcon.Request, resp: falcon.Response) -> None:
    """Let caches keep the response, but ask each time; what a token shows stays with its client."""
    resp.set_header("Cache-Control", "no-cache" if req.auth is None else "private, no-cache")
    resp.append_header("Vary", "Authorization")
