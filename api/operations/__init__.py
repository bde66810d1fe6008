"""Operations of the service: plain functions, declared once, a file for each noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.operations.artifacts import ArtifactRecord
    from api.operations.builds import BuildRecord
    from api.operations.jobs import JobRecord
    from api.operations.operation import Download, Operation, Service
else:
    __getattr__ = on_first_use(__name__)
