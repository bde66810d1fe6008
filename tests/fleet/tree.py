"""Trees of Debian with an engine in them, from which members start; made once, below ``.run/fleet``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tests.debian import bootstrap, kept, of_host
from tests.fleet.engine import ENGINES, Engine

FOLDER = Path(__file__).parents[2] / ".run/fleet"

_PACKAGES = ("btrfs-progs", "ca-certificates", "dnsmasq-base", "iproute2", "lxcfs", "nftables", "procps", "tini")


def tree(engine: Engine) -> Path:
    """Return the root folder of a Debian with the engine; it is shared, so nothing may write to it."""
    packages = [*_PACKAGES, *engine.packages]
    return kept(FOLDER, engine.name, [engine.suite, *packages, *of_host()], partial(_bootstrap, engine, packages))


def _bootstrap(engine: Engine, packages: list[str], root: Path) -> None:
    bootstrap(engine.suite, root, packages, ['mkdir -p "$1/srv/pool"', ': >"$1/etc/resolv.conf"'])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        tree(ENGINES[name])
