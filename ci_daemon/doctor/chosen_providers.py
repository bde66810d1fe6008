"""The providers of VMs that anybody has chosen, which are those that the doctor examines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import StorageError, frozen, schema_of_release

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.config import Config


def chosen_providers(state_dir: Path, config: Config) -> set[str | None]:
    """Return the providers that the configuration or an organization chooses."""
    return {*_configured(config), *_of_organizations(state_dir)}


def _configured(config: Config) -> Iterator[str | None]:
    yield config.pool.provider
    yield from config.pool.image_providers.values()
    yield config.repositories.fork_provider


def _of_organizations(state_dir: Path) -> set[str]:
    """Return what organizations have chosen; nothing where another check complains of the database."""
    try:
        with frozen(state_dir) as database:
            return database.providers() if database.schema_version == schema_of_release() else set()
    except StorageError:
        return set()
