"""Render the pipelines of a tree on this machine, as `ci-daemon run` does."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

from ci_daemon import submit as submission
from ci_daemon.local.folders import LocalFolders
from ci_daemon.local.requirements import make_images
from ci_daemon.local.service import ORGANIZATION, local_config, local_service
from ci_daemon.providers import open_images
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.ir import Built, IrSettings
    from actors.render import Envelope


@immutable
class RenderedTree:
    """The pipelines that a tree declares, the names of its packed files, and the settings of builds here."""

    envelope: Envelope
    files: frozenset[str]
    limits: IrSettings
    strict_shell: bool


def render_tree(
    tree: Path, progress: Callable[[str], None], *, organization: str = ORGANIZATION, built: Built | None = None
) -> RenderedTree:
    """Render the pipeline files of a tree in a VM. Keys of cached steps contain the organization's slug.

    ``progress`` gets a line if it has to wait or to make an image.

    Raises RenderFailed, PackError, ConfigError, CacheUnusable, HostUnfit and VmError.
    """
    archive = submission.pack(tree)
    folders = LocalFolders.of_user(os.environ)
    folders.make()
    config = local_config(folders, tree, os.environ)
    directory = folders.project(tree)
    make_images(open_images(directory, config), directory, progress)

    def wait(_pid: int | None) -> None:
        progress("waiting for another command that runs this project")

    with local_service(directory, config, wait) as service:
        envelope = service.discover(submission.default_slug(tree), archive.data, organization, built=built)
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return RenderedTree(envelope, frozenset(tar.getnames()), config.ir, config.jobs.strict_shell)
