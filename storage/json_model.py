"""Models of JSON that cost an import little."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class JsonModel(BaseModel):
    """A pydantic model that is built as it is first used: to build all models takes a tenth of a start."""

    model_config = ConfigDict(defer_build=True)
