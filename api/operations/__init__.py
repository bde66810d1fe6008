"""Operations of the service: plain functions, declared once, a file for each noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.operations.operation import Operation
else:
    __getattr__ = on_first_use(__name__)

__all__ = ["Operation"]
