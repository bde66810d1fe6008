"""Render the pipelines of a tree on this machine, as `ci-daemon run` does."""

from __future__ import annotations

import io
import os
import tarfile
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from actors.render import ArchiveSource, Envelope, nowhere
from ci_daemon import submit as submission
from ci_daemon.local.folders import LocalFolders
from ci_daemon.local.requirements import make_images
from ci_daemon.local.service import ORGANIZATION, local_config, local_service
from ci_daemon.providers import open_images
from storage import immutable
from storage.files import Confinement

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ir import Built, IrSettings
    from actors.render import YamlFiles
    from ci_daemon.config import Config


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
    """Render the pipeline files of a tree: YAML on this host, others in a VM.

    Keys of cached steps contain the organization's slug. ``progress`` gets a line if it has to wait or to make an
    image.

    Raises RenderFailed, PackError, ConfigError, CacheUnusable, HostUnfit and VmError.
    """
    archive = submission.pack(tree)
    folders = LocalFolders.of_user(os.environ)
    config = local_config(folders, tree, os.environ)
    files = read_files(archive.data, organization, config)
    if files.alone:
        envelope = Envelope.parse(files.rendered().envelope)
    else:
        envelope = _in_vm(tree, archive.data, folders, config, progress, organization, built)
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return RenderedTree(envelope, frozenset(tar.getnames()), config.ir, config.jobs.strict_shell)


def read_files(archive: bytes, organization: str, config: Config) -> YamlFiles:
    """Read the YAML files of an archive, for which no image is needed. Raises RenderFailed."""
    with TemporaryDirectory() as folder, closing(Confinement()) as confinement:
        path, room = Path(folder) / "source", config.render.shape.disk_gb * 2**30
        path.write_bytes(archive)
        manifest = path.with_name("manifest")
        return ArchiveSource(confinement, organization, path, manifest, room, time.time(), nowhere).read()


def _in_vm(
    tree: Path,
    archive: bytes,
    folders: LocalFolders,
    config: Config,
    progress: Callable[[str], None],
    organization: str,
    built: Built | None,
) -> Envelope:
    folders.make()
    directory = folders.project(tree)
    make_images(open_images(directory, config), directory, progress)

    def wait(_pid: int | None) -> None:
        progress("waiting for another command that runs this project")

    with local_service(directory, config, wait) as service:
        return service.discover(submission.default_slug(tree), archive, organization, built=built)
