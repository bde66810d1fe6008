"""Progress of the trace export."""

from __future__ import annotations

from storage.models.fields import InstantField
from storage.models.row import Row

__all__ = ["TracesSentRow"]


class TracesSentRow(Row, table="traces_sent"):
    """The instant up to which the traces of ended builds were sent."""

    until = InstantField()
