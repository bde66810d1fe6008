"""The installation, step by step: what a release does to a host so that the service runs on it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ci_daemon.install import account, needs, release, state, switching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release

__all__ = ["Done", "Step", "carry_out", "outlook", "steps"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is to be so: ``lacking`` says in words what to do, None where it is so; ``make`` does that.

    Both may raise InstallError. Who was interrupted anywhere begins again with the first step.
    """

    name: str
    lacking: Callable[[], str | None]
    make: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a step: ``did`` says what was done, None where all was so already."""

    name: str
    did: str | None


def steps(host: Host, wanted: Release) -> list[Step]:
    """Return what makes the service run as a release, in order. The service runs on until the step that is its own."""
    before = release.current(host)
    return [
        Step("user", partial(account.lacking, host), partial(account.make, host)),
        Step("configuration", partial(state.configuration_lacking, host), partial(state.make_configuration, host)),
        Step("state", partial(state.directory_lacking, host), partial(state.make_directory, host, wanted)),
        Step("host", partial(needs.lacking, host, wanted), partial(needs.make, host, wanted)),
        Step("image", partial(needs.image_lacking, host, wanted), partial(needs.make_image, host, wanted)),
        Step("service", partial(switching.lacking, host, wanted), partial(switching.to, host, wanted)),
        Step("command", partial(_command_lacking, host), partial(_link_command, host)),
        Step("old releases", partial(_old, host, wanted, before), partial(_remove_old, host, wanted, before)),
    ]


def carry_out(planned: Sequence[Step]) -> Iterator[Done]:
    """Do what is lacking, and yield each step as it is done."""
    for step in planned:
        lack = step.lacking()
        if lack is not None:
            step.make()
        yield Done(step.name, lack)


def outlook(host: Host, origin: str) -> list[str]:
    """Return what an installation would do, as far as that can be known before its release is made. Changes nothing."""
    now = release.current(host)
    if now is None:
        found = [account.lacking(host), state.configuration_lacking(host), state.directory_lacking(host)]
        last = ["install what the host lacks", "build the default image, from which VMs start", "start the service"]
        return [f"make a release of {origin}", *filter(None, found), *last]
    first = f"make a release of {origin} and, if it differs from {now}, keep the database, stop that and start this"
    return [first, *(lack for step in steps(host, now) if (lack := step.lacking()) is not None)]


def _command_lacking(host: Host) -> str | None:
    there = host.command.is_symlink() and host.command.readlink() == host.opt / "current/bin/ci-daemon"
    return None if there else f"let {host.command} be the command of the current release"


def _link_command(host: Host) -> None:
    host.command.parent.mkdir(parents=True, exist_ok=True)
    host.command.unlink(missing_ok=True)
    host.command.symlink_to(host.opt / "current/bin/ci-daemon")


def _kept(host: Host, wanted: Release, before: Release | None) -> list[Release]:
    """Return the release that runs and the one to go back to."""
    earlier = release.other(host) if before in {None, wanted} else before
    return [each for each in (wanted, earlier) if each is not None]


def _old(host: Host, wanted: Release, before: Release | None) -> str | None:
    old = release.beside(host, _kept(host, wanted, before))
    return f"remove {', '.join(each.name for each in old)}" if old else None


def _remove_old(host: Host, wanted: Release, before: Release | None) -> None:
    for each in release.beside(host, _kept(host, wanted, before)):
        shutil.rmtree(each)
