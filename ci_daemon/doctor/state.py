"""Checks of the service's own state: the state directory, configuration, database, disk space, image."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

from actors.vms.host import NoSubIds
from ci_daemon.config import Config, ConfigError, configuration_file, load
from ci_daemon.doctor.check import Check, passed
from ci_daemon.doctor.host import nearest_existing
from ci_daemon.host.place import StateCopied, is_copy
from ci_daemon.providers import open_images
from storage import (
    CONFIRM,
    Storage,
    StorageError,
    SystemClock,
    check_database,
    frozen,
    schema_of_release,
    step_text,
    why_no_files,
)
from storage.files import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_GIB = 2**30
_MIN_FREE_GIB = 5
_PRIVATE = 0o077


def state_directory(directory: Path) -> Check:
    """Check that the state directory exists, that this user can use it, and that others cannot read it."""
    name = "state"
    command = f"ci-daemon --state-dir {shlex.quote(str(directory))}"
    key = directory / KEY
    try:
        if not (directory / DATABASE).exists():
            detail = f"{directory} is not a state directory yet"
            return Check(name, ok=False, detail=detail, fix=f"{command} init", root=False, fixable=False)
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            detail = f"{directory} is on a read-only file system: remount it writable"
            return Check(name, ok=False, detail=detail, fixable=False)
        for path, mode in ((directory, "0700"), (key, "0600"), (directory / DATABASE, "0600")):
            if path.stat().st_mode & _PRIVATE:
                detail = f"{path} is open to others"
                return Check(name, ok=False, detail=detail, fix=shlex.join(["chmod", mode, str(path)]), root=False)
        if not all(os.access(path, os.R_OK | os.W_OK) for path in (directory, directory / DATABASE, key)):
            owner = directory.owner()
            detail = f"{directory} belongs to {owner}: run as {owner}"
            return Check(name, ok=False, detail=detail, fixable=False)
    except PermissionError:
        return Check(name, ok=False, detail=f"this user cannot open {directory}: run as its owner", fixable=False)
    except FileNotFoundError:
        detail = (
            f"{key} is missing: restore it from a backup, because without it the secrets in the database are lost; a"
            " credential of the unit works for the service only, not for commands"
        )
        return Check(name, ok=False, detail=detail, fixable=False)
    if is_copy(directory):
        return Check(name, ok=False, detail=str(StateCopied(directory)), fixable=False)
    return passed(name, f"{directory} is a state directory")


def configuration(directory: Path, environ: Mapping[str, str]) -> tuple[Config, Check]:
    """Load and check the configuration; if it has an error, the other checks use the defaults."""
    name = "configuration"
    try:
        config, file = load(directory, environ), configuration_file(directory)
    except ConfigError as error:
        first, *more = str(error).splitlines()
        detail = f"{first}{f' (and {len(more)} more: see `ci-daemon config check`)' if more else ''}"
        return Config(), Check(name, ok=False, detail=detail, fixable=False)
    return config, passed(name, f"{file} is valid" if file else "there is no ci-daemon.toml: every key has its default")


def database(directory: Path) -> Check:
    """Check every page, index and reference of the database, and that this release knows its schema."""
    name, known, path = "database", schema_of_release(), directory / DATABASE
    if not path.exists():
        return Check(name, ok=False, detail="there is no database yet", needed=False, fixable=False)
    if not os.access(path, os.R_OK | os.W_OK):
        detail = "the database cannot be checked without write access"
        return Check(name, ok=False, detail=detail, needed=False, fixable=False)
    try:
        check_database(path)
        with frozen(directory) as found:
            at = found.schema_version
    except StorageError as error:
        detail = f"{error}: restore a backup with `ci-daemon restore`"
        return Check(name, ok=False, detail=detail, fixable=False)
    if at > known:
        detail = f"a newer release wrote the database (schema {at}, this one knows {known}): run that release"
        return Check(name, ok=False, detail=detail, fixable=False)
    upgrade = f"; the service upgrades it to {known} when it starts" if at < known else ""
    return passed(name, f"the database is intact, at schema {at}{upgrade}")


def retention(directory: Path) -> Iterator[Check]:
    """Check that retention trusts the clock; skipped where no service of this release has run."""
    try:
        with frozen(directory) as found:
            if found.schema_version != schema_of_release():
                return
        with closing(Storage.open(directory, SystemClock())) as storage:
            storage.clock_steps.read()
            jump = storage.clock_steps.jump
    except StorageError:
        return  # the check of the database says why
    if jump is None:
        yield passed("retention", "the clock moves as the service knows it")
        return
    detail = f"{step_text(jump.by.total_seconds())}, and retention removes nothing: {CONFIRM}"
    yield Check("retention", ok=False, detail=detail, needed=False, fixable=False)


def disk_space(directory: Path) -> Check:
    """Check the free disk space where VMs write, and that the folders of files take more of them."""
    folder = nearest_existing(directory)
    hindrance = why_no_files(directory) if folder == directory else None
    if hindrance is not None:
        return Check("disk", ok=False, detail=f"{hindrance}: jobs wait until then", needed=False, fixable=False)
    free = shutil.disk_usage(folder).free / _GIB
    detail = f"{free:.1f} GiB are free below {folder}"
    if free >= _MIN_FREE_GIB:
        return passed("disk", detail)
    return Check(
        "disk", ok=False, detail=f"{detail}, less than {_MIN_FREE_GIB}: free some space", needed=False, fixable=False
    )


def default_image(state_dir: Path, config: Config) -> Check:
    """Check that the default image exists, and the one whose sshd serves all VMs."""
    name = "image"
    try:
        images = open_images(state_dir, config)
    except NoSubIds:
        return Check(name, ok=False, detail="images cannot be built without sub-ids", needed=False, fixable=False)
    default, base, present = images.default, images.base, images.store.names()
    if default not in present and config.sandbox.base_image is None:
        base = default  # it may do once it is there
    why = {base: "whose sshd serves all VMs", default: "from which most steps start"}
    if missing := [each for each in why if each not in present]:
        detail = "; ".join(f"there is no image {each}, {why[each]}" for each in missing)
        build = f"ci-daemon --state-dir {shlex.quote(str(state_dir))} image build"
        fix = " && ".join(f"{build} {each}" for each in missing)
        return Check(name, ok=False, detail=detail, fix=fix, needed=False, root=False, fixable=False)
    if not images.store.can_be_base(base):
        detail = f"the image {base} cannot serve VMs, it lacks sshd, util-linux or perl: set another sandbox.base_image"
        return Check(name, ok=False, detail=detail, needed=False, root=False, fixable=False)
    return passed(name, f"the image {default} exists, and the sshd of {base} serves all VMs")
