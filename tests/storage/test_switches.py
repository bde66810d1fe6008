from __future__ import annotations

from pathlib import Path

from storage import Storage
from tests.clock import ManualClock


def test_a_host_that_is_drained_stays_so_until_it_is_resumed(storage: Storage, tmp_path: Path, clock: ManualClock):
    assert storage.switches.drained_since() is None
    since = clock.now()
    assert storage.switches.drain()
    clock.advance(hours=1)
    assert not storage.switches.drain()
    other = Storage.open(tmp_path / "state", clock)
    assert other.switches.drained_since() == since
    assert other.switches.resume()
    other.close()
    assert storage.switches.drained_since() is None
    assert not storage.switches.resume()
