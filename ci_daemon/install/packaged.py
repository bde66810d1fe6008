"""The service as a package of the distribution: the package manager owns its program and its units.

`python -m ci_daemon.install.packaged` is what the package runs before it starts the service: it asks nothing, needs no
network, and leaves the rest to `ci-daemon install`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from ci_daemon.install import database, units
from ci_daemon.install.host import Host, InstallError
from ci_daemon.install.release import Release
from ci_daemon.install.steps import InstallStep, preparation, requirement_steps, run_steps

RELEASE = Release(Path("/usr/lib/ci-daemon"))
"""The program of the package: a virtual environment, as every release is."""


def is_packaged() -> bool:
    """Tell whether the running program belongs to the package."""
    return Path(sys.prefix) == RELEASE.path


def configuring_steps(host: Host, release: Release = RELEASE) -> list[InstallStep]:
    """Return the steps before the service starts, for the first time or as a new version."""
    copying = InstallStep("copy of the database", partial(_check_copy, host, release), partial(_copy, host))
    return [*preparation(host, release), copying]


def completing_steps(host: Host, release: Release = RELEASE) -> list[InstallStep]:
    """Return the steps of `ci-daemon install`, after which the service builds."""
    service = InstallStep("service", partial(_check_service, host), partial(units.start, host))
    return [*preparation(host, release), *requirement_steps(host, release), service]


def _check_copy(host: Host, release: Release) -> str | None:
    if not database.has_older_schema(host, release):
        return None
    return f"copy the database to {_copied_database(host)}, because this version changes it"


def _copy(host: Host) -> None:
    copy = _copied_database(host)
    copy.parent.mkdir(mode=0o755, exist_ok=True)
    database.back_up(host, copy)


def _copied_database(host: Host) -> Path:
    """Return the file for a database as it was before an upgrade, for a return to the earlier version."""
    return host.root / "var/backups/ci-daemon.sqlite3"


def _check_service(host: Host) -> str | None:
    return None if units.is_active(host) else "start the service"


if __name__ == "__main__":
    try:
        for each in run_steps(configuring_steps(Host())):
            sys.stdout.write(f"{each}\n")
    except InstallError as error:
        sys.exit(f"ci-daemon: {error}")
