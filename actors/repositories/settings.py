"""The configuration sections of connected repositories and their sources, with their defaults."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the configuration reads the annotation
from typing import TYPE_CHECKING, Literal

from storage import ProviderName, immutable, networks_of, setting

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_DAY = 86_400


@immutable
class RepositorySettings:
    """Section ``[repositories]``: repositories whose pushes are built.

    Each has a mirror in the state directory, which backups leave out.
    """

    max_mirror_gb: float = setting(4.0, "The most GB of a mirror.", above=0, live=True)
    cancel_superseded: Literal["waiting", "branches", "all"] = setting(
        "waiting",
        "The builds that a newer push to their branch or pull request cancels: `waiting` are those that have not begun,"
        " `branches` also running ones, but not of the default branch, `all` these too.",
        live=True,
    )
    fork_approval: Literal["strangers", "always", "never"] = setting(
        "strangers",
        "The pull requests from forks whose builds wait for an approval: those of `strangers`, who may not push to the"
        " repository, or `always`, or `never`.",
        live=True,
    )
    fork_secrets: bool = setting(
        default=False,
        description="Give builds of pull requests from forks the secrets and caches of other builds.",
        live=True,
    )
    fork_provider: ProviderName | None = setting(
        None,
        "How VMs of pull requests from forks are made, whatever is chosen for their organization and images; like all"
        " others if not set.",
        example="qemu",
        live=True,
        replaces=("sources.fork_provider",),
    )
    fetch_timeout: float = setting(600.0, "The most seconds to fetch a repository.", above=0, at_most=_DAY, live=True)
    git_cpu_seconds: int = setting(
        60, "The most seconds of CPU time of a git program that works on a commit.", at_least=1, live=True
    )
    git_memory_mb: int = setting(
        512, "The most MB of memory of a git program that fetches, or works on a commit.", at_least=32, live=True
    )
    merge_queue_builds: int = setting(
        3, "The most merges of a merge queue that are built at a time for one target.", at_least=1, live=True
    )
    find_culprits: bool = setting(
        default=True,
        description="Whether the commit is searched that broke a job of a default branch; pipelines and organizations"
        " may have their own choice.",
        live=True,
    )
    culprit_builds: int = setting(4, "The most builds of one search at a time.", at_least=2, at_most=200, live=True)
    culprit_minutes: int = setting(180, "The minutes after which a search is given up.", at_least=1, live=True)
    culprit_cents: int = setting(500, "The most cents that the builds of one search may cost.", at_least=1, live=True)
    ca_file: Path | None = setting(
        None,
        "The certificates of the authorities that hosts are trusted by; if not set, those that this host trusts.",
        example="/etc/ci-daemon/git-ca.pem",
    )
    networks: tuple[str, ...] = setting(
        (),
        "The networks of this host's surroundings in which admins of organizations may connect repositories, and"
        ' other hosts may have submodules and files of git LFS, as in `"10.1.0.0/16"`; all others must be public.',
    )

    def __post_init__(self) -> None:
        _ = self.allowed_networks

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks in which repositories may be although they are not public."""
        return networks_of(self.networks)


@immutable
class SourceSettings:
    """Section ``[source]``: the files and shallow `.git` of builds of connected repositories."""

    depth: int = setting(
        50,
        "The commits of history in `.git`; more, up to 2000, to reach the merge base with the default branch.",
        at_least=1,
        at_most=100_000,
        live=True,
        replaces=("repositories.depth",),
    )
    max_mb: int = setting(
        256,
        "The most MB of a commit's files and history.",
        at_least=1,
        live=True,
        replaces=("repositories.max_source_mb",),
    )
