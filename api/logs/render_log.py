"""Render logs: the output of pipeline files when they were rendered (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.logs.ranges import ERRORS, PARAMETERS, PART, WHOLE, GrowingLog, LogRanges
from api.openapi.operations import operation
from storage import RENDER_LOG

if TYPE_CHECKING:
    import falcon

    from api.logs.access import LogAccess
    from api.request import ApiRequest
    from storage import Storage


class RenderLogResource:
    """``…/builds/{number}/render-log``; at most 1 MiB, written when the render is over."""

    def __init__(self, storage: Storage, access: LogAccess, ranges: LogRanges) -> None:
        self._storage = storage
        self._access = access
        self._ranges = ranges

    @operation(
        "getRenderLog",
        WHOLE,
        PART,
        errors=(*ERRORS, "render_log_not_found"),
        parameters=PARAMETERS,
        security="log_token",
    )
    def on_get(self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get the render log, the output of the pipeline files, or a range of it."""
        build = self._access.by_build(req, org, pipeline, number)
        renders = self._storage.renders
        if renders.get(build.id) is None:
            raise ApiError("render_log_not_found", "the build was created with pipeline_ir, so there is no render log")
        log = self._storage.logs.reader(build.uuid, RENDER_LOG)
        growing = GrowingLog(
            log,
            build.uuid,
            ended=lambda: not renders.pending(build.id),
            reader=lambda: self._access.reader(req, build),
        )
        self._ranges.answer(req, resp, growing)
