"""Rendering of pipeline files to the v0 IR, in a leased VM (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from actors.render.envelope import Declared, Envelope, RenderFailed
from actors.render.settings import RenderSettings

__all__ = ["Declared", "Envelope", "RenderFailed", "RenderSettings"]
