"""Fleets that stand as long as tests need them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fleet.fleet import Fleet
from tests.fleet.own_members import OwnMembers
from tests.fleet.prepared import PreparedFleet

if TYPE_CHECKING:
    from tests.fleet import engine


class StandingFleets(ExitStack):
    """Lone members that stand until the context is left, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        """Keep their certificates in ``folder``."""
        super().__init__()
        self._folder = folder
        self._fleets: dict[str, Fleet] = {}
        self._prepared: dict[str, PreparedFleet] = {}
        self._own: OwnMembers | None = None

    def of(self, kind: engine.Engine) -> Fleet:
        """Return the lone member of an engine."""
        if kind.name not in self._fleets:
            self._fleets[kind.name] = self.enter_context(Fleet(kind))
        return self._fleets[kind.name]

    def prepared(self, kind: engine.Engine, *, over_tls: bool) -> PreparedFleet:
        """Return the lone member of an engine, prepared; called inside of its switch's network."""
        name = f"{kind.name}-tls" if over_tls else kind.name
        if name not in self._prepared:
            folder = self._folder / name
            folder.mkdir()
            self._prepared[name] = PreparedFleet.make(self.of(kind), folder, over_tls=over_tls)
        return self._prepared[name]

    def own(self) -> OwnMembers:
        """Return the members of one's own, prepared."""
        if self._own is None:
            folder = self._folder / "own"
            folder.mkdir()
            self._own = self.enter_context(OwnMembers.made(folder))
        return self._own
