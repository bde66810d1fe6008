"""The service over the simulated fleet, in place of `ci-daemon`."""

from __future__ import annotations

from unittest.mock import patch

from actors import vms
from benchmarks.scale.fleet import SimulatedFleet
from ci_daemon.command import main

if __name__ == "__main__":
    with patch.object(vms, "SandboxProvider", SimulatedFleet.from_environment):
        main()
