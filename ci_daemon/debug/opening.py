"""A shell in a target's VM, with the variables of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import actors
from actors import vms
from ci_daemon.debug.shell import Shell
from storage import SystemClock

if TYPE_CHECKING:
    from ci_daemon.config import Config
    from ci_daemon.debug.target import Target
    from storage import Storage


def open_shell(storage: Storage, images: vms.Images, providers: vms.Providers, config: Config, target: Target) -> Shell:
    """Connect to the target's VM, with the variables of its job. Raises VmError.

    Secrets are not among them: a shell shows and stores its variables, and nothing here is masked.
    """
    try:
        of_image = images.environment(target.lease.image) if target.lease.image else {}
    except vms.ImageNotFound:
        of_image = {}
    variables = actors.job_environment(
        target.build,
        target.job,
        config.http.url,
        of_jobs=config.jobs.env,
        of_image=of_image,
        of_build=storage.builds.env(target.build.id),
        secrets={},
    )
    return Shell(providers.of(target.lease).connect(target.lease.uuid), SystemClock(), variables)
