"""A page of a list."""

from __future__ import annotations

from typing import Generic, TypeVar

from storage.data_classes import immutable

T = TypeVar("T")


@immutable
class Page(Generic[T]):
    """One page of a list; ``next_key`` is the last row's key if more rows follow, else None."""

    rows: tuple[T, ...]
    next_key: int | None
