"""Operations of the service: plain functions, declared once, a file for each noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.body import ABSENT, MAX_LONG_TEXT, MAX_TEXT, BodyField, body_fields
    from api.builds.provenance import BUILD_TYPE, PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, signed_message
    from api.operations.artifacts import ArtifactRecord
    from api.operations.builds import BuildRecord
    from api.operations.debugging import NoTarget, Shell, Target, find_target
    from api.operations.jobs import JobRecord
    from api.operations.operation import Download, Operation, Refused
    from api.operations.service import Box, Service
    from api.operations.things import LOG_PATH, RENDER_LOG_PATH, SERVICE_LOG_PATH
else:
    __getattr__ = on_first_use(__name__)
