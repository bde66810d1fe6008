"""The settings of the live service, their defaults, and the waits that tests shorten."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping  # noqa: TC003 - the configuration's reader evaluates the annotations
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from actors.scheduling.capacity import Capacity
from storage import EmailInvalid, ProviderName, Shape, email_address, immutable, networks_of, pattern, setting

if TYPE_CHECKING:
    from actors.ir.settings import IrSettings
    from actors.repositories.settings import RepositorySettings, SourceSettings
    from actors.vms import HostSize
    from storage import Build, Job, Pipeline

_MAX_GB = 1_000_000
_MAX_RETENTION = 100_000
"""Days, and GB."""
_ONE_DAY = 86_400
_LONGEST_TERMINAL = 4 * 3600
_THIRTY_YEARS = 30 * 365 * _ONE_DAY
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = pattern(r"CI|CI_.*")

_LOCALHOST = "localhost"
_LOOPBACKS = frozenset({_LOCALHOST, "127.0.0.1", "0.0.0.0", "::1", "::"})  # noqa: S104 - they are compared with
_ADDRESS = pattern(r"https?://[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/?", re.IGNORECASE)
_PREVIEW = "preview-"
PREVIEW_HOST = pattern(r"preview-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([a-z0-9.-]{1,200})(?::[0-9]{1,5})?")
"""The host of a request to a preview, in lower case: its UUID, and the host below which it is."""

_SENDER = "ci-daemon@localhost"

_DOMAIN = pattern(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)

_DAY = 86_400


@immutable
class TerminalSettings:
    """Section ``[terminals]``: terminals on forks of jobs' disks, each with a VM.

    A look at one holds a thread, as one at a log does (``max_streams`` of ``[http]``).
    """

    idle_seconds: int = setting(
        1800,
        "The seconds after which a terminal ends in which nobody has typed; four hours at most.",
        at_least=10,
        at_most=_LONGEST_TERMINAL,
        live=True,
    )
    most: int = setting(16, "The most terminals at once; 0 allows none.", at_least=0, live=True)
    most_per_organization: int = setting(8, "The most terminals at once of one organization.", at_least=0, live=True)
    most_per_user: int = setting(4, "The most terminals at once of one user.", at_least=0, live=True)

    @property
    def longest_seconds(self) -> int:
        """The most seconds that a terminal lasts."""
        return _LONGEST_TERMINAL


@immutable
class PreviewSettings:
    """Section ``[previews]``: the ports that disks of passed jobs serve, each on a host of its own.

    One that is awake has a VM. Requests to previews have threads of their own.
    """

    url: str | None = setting(
        None,
        "The address below which each preview has a host of its own, all of which lead to this service, best of another"
        " domain than the service's; without it there are previews only where people reach the service at localhost.",
        example="https://previews.example.net",
    )
    idle_seconds: int = setting(
        300,
        "The seconds without a request after which a preview falls asleep, and its VM ends.",
        at_least=5,
        at_most=_LONGEST_TERMINAL,
        live=True,
    )
    ready_seconds: int = setting(
        60,
        "The seconds within which the port of a preview has to take connections once its command runs.",
        at_least=1,
        at_most=600,
        live=True,
    )
    most: int = setting(8, "The most previews that are awake at once; 0 allows none.", at_least=0, live=True)
    most_per_organization: int = setting(
        4, "The most previews of one organization that are awake at once.", at_least=0, live=True
    )

    def __post_init__(self) -> None:
        if self.url is not None and not _ADDRESS.fullmatch(self.url):
            raise ValueError(
                f'url must be an address without a path, such as "https://previews.example.net", not "{self.url}"'
            )


@immutable
class PreviewHosts:
    """The hosts of previews: each is below the host of ``url``, at its port."""

    url: str

    @classmethod
    def of(cls, settings: PreviewSettings, base_url: str) -> PreviewHosts | None:
        """Return those of a service at ``base_url``; None if it has no hosts for previews."""
        if settings.url is not None:
            return cls(settings.url.rstrip("/"))
        own = urlsplit(base_url)
        if own.hostname not in _LOOPBACKS:
            return None
        port = "" if own.port is None else f":{own.port}"
        return cls(f"{own.scheme}://{_LOCALHOST}{port}")

    def address(self, uuid: str) -> str:
        """Return the address of a preview, without a trailing slash."""
        scheme, _, host = self.url.partition("://")
        return f"{scheme}://{_PREVIEW}{uuid}.{host}"

    def uuid_of(self, host: str) -> str | None:
        """Return the UUID of the preview that a request to a host is for; None if it is for none."""
        found = PREVIEW_HOST.fullmatch(host.lower())
        return found[1] if found is not None and found[2] == urlsplit(self.url).hostname else None


@immutable
class PoolSettings:
    """Section ``[pool]``: caps on VMs for the host and per organization, parked VMs, and waiting for a VM."""

    provider: ProviderName = setting(
        "sandbox",
        'How VMs are made: `"sandbox"`, of namespaces, `"qemu"`, with a kernel of their own, or `"incus"`, on an'
        " engine's members; organizations may have their own choice (`ci-daemon org set`).",
        live=True,
    )
    image_providers: Mapping[str, ProviderName] = setting(
        {},
        "How VMs are made that start from an image, by its name in `ci-daemon image list`, whatever the organization's"
        " choice.",
        live=True,
    )
    max_vms: int = setting(
        0, "The most VMs at once; 0 is two per core of the host, or of the engine's members.", at_least=0, live=True
    )
    max_cpu: int = setting(
        0, "The most vCPUs of all VMs together; 0 is four per core of the host or members.", at_least=0, live=True
    )
    max_memory_gb: int = setting(
        0, "The most GB of memory of all VMs together; 0 is all memory of the host or members.", at_least=0, live=True
    )
    max_disk_gb: int = setting(0, "The most GB of disk of all VMs together; 0 is no cap.", at_least=0, live=True)
    max_vms_per_organization: int = setting(
        0, "The most VMs at once of one organization; 0 is no cap but the host's.", at_least=0, live=True
    )
    max_cpu_per_organization: int = setting(
        0, "The most vCPUs of one organization's VMs together; 0 is no cap but the host's.", at_least=0, live=True
    )
    max_memory_gb_per_organization: int = setting(
        0,
        "The most GB of memory of one organization's VMs together; 0 is no cap but the host's.",
        at_least=0,
        live=True,
    )
    max_disk_gb_per_organization: int = setting(
        0, "The most GB of disk of one organization's VMs together; 0 is no cap but the host's.", at_least=0, live=True
    )
    parked: int = setting(
        8,
        "The most VMs that wait for a job, whatever its image; fewer wait while few are taken, or memory is short.",
        at_least=0,
        live=True,
        replaces=("warm", "warm_images"),
    )
    queue_timeout: int = setting(
        _ONE_DAY,
        "The most seconds that a job waits for a VM before it is timed out; 0 is no limit.",
        at_least=0,
        at_most=_THIRTY_YEARS,
        live=True,
    )
    low_disk_gb: float = setting(
        5.0,
        "No job starts while the disk of the state directory has fewer GB left.",
        at_least=0,
        below=math.inf,
        live=True,
    )

    def host(self, size: HostSize) -> Capacity:
        """Return the caps for all VMs together, on hosts of this size."""
        return Capacity(
            vms=self.max_vms or 2 * size.cpus,
            cpu=self.max_cpu or 4 * size.cpus,
            memory_gb=self.max_memory_gb or size.memory_gb,
            disk_gb=self.max_disk_gb,
        )

    def organization(self) -> Capacity:
        """Return the caps for the VMs of any one organization."""
        return Capacity(
            vms=self.max_vms_per_organization,
            cpu=self.max_cpu_per_organization,
            memory_gb=self.max_memory_gb_per_organization,
            disk_gb=self.max_disk_gb_per_organization,
        )


@immutable
class ArtifactSettings:
    """Section ``[artifacts]``: limits on the artifacts of one job."""

    max_files: int = setting(
        1000, "The most files that a job may keep; it fails with more.", at_least=0, at_most=100_000, live=True
    )
    max_gb: float = setting(
        2.0, "The most GB that a job may keep; it fails with more.", at_least=0, at_most=_MAX_GB, live=True
    )
    timeout: float = setting(
        300.0,
        "The most seconds to collect them; a job that would pass fails if not all are kept by then.",
        above=0,
        live=True,
    )

    @property
    def max_bytes(self) -> int:
        """Return ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)


@immutable
class CacheSettings:
    """Section ``[cache]``: disks of VMs, and folders of jobs, that are kept for later builds."""

    max_gb: float = setting(
        50.0, "The most GB of disks that are kept; 0 turns the cache off.", at_least=0, at_most=_MAX_GB, live=True
    )

    folder_gb: float = setting(2.0, "The most GB of one folder that a job keeps.", above=0, at_most=_MAX_GB, live=True)
    folders_gb: float = setting(
        20.0,
        "The most GB of the folders that jobs keep, of which the longest unused go first; 0 keeps none.",
        at_least=0,
        at_most=_MAX_GB,
        live=True,
    )
    folders_days: int = setting(
        30, "The days after which a kept folder goes that no job got.", at_least=1, at_most=_MAX_RETENTION, live=True
    )

    @property
    def max_bytes(self) -> int:
        """Return ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)

    @property
    def folder_bytes(self) -> int:
        """Return ``folder_gb`` in bytes."""
        return int(self.folder_gb * 2**30)

    @property
    def folders_bytes(self) -> int:
        """Return ``folders_gb`` in bytes."""
        return int(self.folders_gb * 2**30)


@immutable
class JobSettings:
    """Section ``[jobs]``: time-outs of each job, and its limits on disk, logs and retries."""

    secret_networks: tuple[str, ...] = setting(
        (),
        "The networks of this host's surroundings from which secrets may be fetched, also without encryption, as in"
        ' `"10.1.0.0/16"`; all others must be public.',
        live=True,
    )
    step_timeout: int = setting(
        3600, "The most seconds that a step runs if it sets no time-out of its own.", at_least=1, live=True
    )
    acquire_timeout: float = setting(120.0, "The most seconds to make a job's VM.", above=0, live=True)
    source_timeout: float = setting(120.0, "The most seconds to copy the source into a VM.", above=0, live=True)
    kill_grace: float = setting(
        10.0, "The seconds that a command has to end after it is told to, before it is killed.", at_least=0, live=True
    )
    min_free_disk_gb: float = setting(
        1.0,
        "A job that fills its VM's disk fails (`disk_full`) if the host has fewer GB left.",
        at_least=0,
        live=True,
    )
    service_retries: int = setting(
        2,
        "The number of times that a job is retried after it failed through the service's fault.",
        at_least=0,
        live=True,
    )
    log_limit_bytes: int = setting(
        100 * 2**20,
        "The most bytes of output that the log of an attempt keeps; of what is longer, the middle is left out.",
        at_least=1,
    )
    log_wait_seconds: float = setting(
        120.0,
        "The seconds that a command waits while its output cannot be kept, as on a full disk; then its job fails"
        " (`log_not_kept`).",
        at_least=0,
        live=True,
    )
    hold_seconds: int = setting(
        600,
        "The seconds that the VM of a failed job is held if its build asks for that; 0 is never.",
        at_least=0,
        at_most=_ONE_DAY,
        live=True,
    )
    strict_shell: bool = setting(
        default=False,
        description="Run the commands of new builds in `bash -eo pipefail -c`, or `sh -e -c` where there is no bash, so"
        " that each line that fails fails its step; organizations and pipelines may have their own choice.",
    )
    env: Mapping[str, str] = setting(
        {},
        "Variables of every job, such as proxies, mirrors or a locale: a step may override them, and they are not"
        " masked in logs, so do not put secrets here.",
        live=True,
    )

    @property
    def min_free_bytes(self) -> int:
        """Return ``min_free_disk_gb`` in bytes."""
        return int(self.min_free_disk_gb * 2**30)

    @property
    def allowed_secret_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks from which secrets may be fetched although they are not public."""
        return networks_of(self.secret_networks)

    def __post_init__(self) -> None:
        _ = self.allowed_secret_networks
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f'env: "{name}" is no name of a variable')
            if _RESERVED.fullmatch(name):
                raise ValueError(f'env: "{name}" is set by the service')
            if "\0" in value:
                raise ValueError(f'env: the value of "{name}" holds a null byte')


@immutable
class RetentionSettings:
    """Section ``[retention]``: how long files, disks of failed jobs and the audit are kept.

    Over budget, the builds that finished first lose their logs, artifacts or sources. A build without its source cannot
    be rebuilt. Of the audit, only the oldest entries are ever deleted. Builds and the ledger are always kept.
    """

    logs_days: int = setting(
        90, "The days that logs are kept; 0 is for ever.", at_least=0, at_most=_MAX_RETENTION, live=True
    )
    logs_gb: float = setting(0.0, "The most GB of logs; 0 is no budget.", at_least=0, at_most=_MAX_RETENTION, live=True)
    artifacts_days: int = setting(
        90, "The days that artifacts are kept; 0 is for ever.", at_least=0, at_most=_MAX_RETENTION, live=True
    )
    artifacts_gb: float = setting(
        0.0, "The most GB of artifacts; 0 is no budget.", at_least=0, at_most=_MAX_RETENTION, live=True
    )
    sources_days: int = setting(
        30,
        "The days that the source archives of finished builds are kept; 0 is for ever.",
        at_least=0,
        at_most=_MAX_RETENTION,
        live=True,
    )
    sources_gb: float = setting(
        10.0, "The most GB of these archives; 0 is no budget.", at_least=0, at_most=_MAX_RETENTION, live=True
    )
    kept_disks_days: int = setting(
        2,
        "The days that the disks of failed jobs are kept, so that people can look into them; 0 keeps none.",
        at_least=0,
        at_most=_MAX_RETENTION,
        live=True,
    )
    kept_disks_gb: float = setting(
        10.0,
        "The most GB of these disks, of which the oldest of the organization that has most go first; 0 keeps none.",
        at_least=0,
        at_most=_MAX_RETENTION,
        live=True,
    )
    audit_days: int = setting(
        365,
        "The days that entries of the audit are kept; 0 is for ever.",
        at_least=0,
        at_most=_MAX_RETENTION,
        live=True,
    )

    @property
    def kept_disks_bytes(self) -> int:
        """Return the most bytes of the disks of failed jobs, 0 if none is kept."""
        return int(self.kept_disks_gb * 2**30) if self.kept_disks_days else 0


@immutable
class FrontEnd:
    """The address and the paths of pages: those of the console, or of another front end.

    Pages for tokens get them in the fragment, so that no server's log has them. ``build`` names a build by ``{org}``,
    ``{pipeline}`` and ``{number}``, ``pipeline`` a pipeline by the first two.
    """

    url: str
    verify: str = "/login/verify"
    recover: str = "/login/recover"
    invite: str = "/invites"
    paid: str = "/billing/paid"
    canceled: str = "/billing/canceled"
    build: str = "/{org}/pipelines/{pipeline}/builds/{number}"
    pipeline: str = "/{org}/pipelines/{pipeline}"

    def page(self, path: str) -> str:
        """Return the address of a page."""
        return f"{self.url}{path}"

    def page_of(self, build: Build) -> str:
        """Return the address of a build's page."""
        return self._filled(
            self.build, org=build.organization_slug, pipeline=build.pipeline_slug, number=str(build.number)
        )

    def page_of_pipeline(self, organization_slug: str, pipeline: Pipeline) -> str:
        """Return the address of a pipeline's page."""
        return self._filled(self.pipeline, org=organization_slug, pipeline=pipeline.slug)

    def _filled(self, path: str, **names: str) -> str:
        for name, value in names.items():
            path = path.replace(f"{{{name}}}", value)
        return self.page(path)


@immutable
class EngineSettings:
    """The sections that the engine uses, and the addresses of the API.

    ``api_address`` is where this process reaches the API, ``base_url`` is where others do.
    """

    pool: PoolSettings
    jobs: JobSettings
    retention: RetentionSettings
    cache: CacheSettings
    artifacts: ArtifactSettings
    render: RenderSettings
    ir: IrSettings
    mail: MailSettings
    notifications: NotificationSettings
    repositories: RepositorySettings
    source: SourceSettings
    terminals: TerminalSettings
    previews: PreviewSettings
    base_url: str
    api_address: tuple[str, int]
    front_end: FrontEnd | None = None
    """The pages of another front end; by default those of the console, at ``base_url``."""

    @property
    def pages(self) -> FrontEnd:
        """The pages that links lead to."""
        return self.front_end or FrontEnd(self.base_url)

    @property
    def preview_hosts(self) -> PreviewHosts | None:
        """The hosts of previews; None if there are none."""
        return PreviewHosts.of(self.previews, self.base_url)

    def preview_of(self, job: Job) -> str | None:
        """Return the address of the preview that a job has once it passed; None if it has none here."""
        hosts = self.preview_hosts
        kept = hosts is not None and self.retention.kept_disks_bytes and self.previews.most
        return hosts.address(job.preview_uuid) if hosts is not None and kept and job.preview else None


@dataclass(slots=True)
class LiveSettings:
    """The settings in force: read them at each use, a reload replaces them. Only the engine writes here."""

    now: EngineSettings


@immutable
class Timings:
    """Waits in seconds.

    Attributes:
        retry: before a message is handled again after a transient error.
        vm_first: how long after its limit a VM may take to end a command, before this process ends it.
        report: how long after the grace a VM may take to report a killed command's end and the rest of its output.
        acquire: before each further try to make a job's VM.
        disk: before the host's disk is measured again while it is too full.
        parked: before another try to park a VM, after one that failed.
        first_parked: after the pool's start, in which first jobs begin, before it parks a VM.
        rendered: after a render, in which its first jobs begin, before a VM is made for the next render.
        housekeeping: before the first round of housekeeping.
    """

    retry: float = 1.0
    vm_first: float = 2.0
    report: float = 10.0
    acquire: tuple[float, ...] = (0.2, 1.0, 3.0, 10.0)
    disk: float = 5.0
    parked: float = 10.0
    first_parked: float = 0.0
    rendered: float = 0.3
    housekeeping: float = 0.0


@immutable
class MailSettings:
    """Section ``[mail]``: the SMTP server for e-mail.

    The server's certificate is verified. A server that does not offer the configured encryption gets no mail, and the
    password goes to a server on another host only when the connection is encrypted.
    """

    host: str = setting("", "The name or address of the server; if it is empty, no e-mail is sent.", live=True)
    port: int = setting(587, "The port of the server.", at_least=1, at_most=65535, live=True)
    security: Literal["starttls", "tls", "none"] = setting("starttls", "The encryption of the connection.", live=True)
    user: str = setting("", "The user to log in as; if it is empty, the service does not log in.", live=True)
    password: str = setting("", "The password of `user`.", secret=True, live=True)
    sender: str = setting(_SENDER, "The address that e-mail comes from.", live=True)

    def __post_init__(self) -> None:
        if self.user and self.security == "none" and not _is_loopback(self.host):
            raise ValueError(
                'security must be "starttls" or "tls" if user is set: without encryption,'
                " the password goes to a server on this host alone"
            )
        if self.sender == _SENDER:
            return
        try:
            email_address(self.sender)
        except EmailInvalid as error:
            raise ValueError(f'sender must be an address such as "ci@example.org": {error}') from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@immutable
class NotificationSettings:
    """Section ``[notifications]``: what is told about the ends of builds, and to whom."""

    networks: tuple[str, ...] = setting(
        (),
        "The networks of this host's surroundings that webhooks may be sent to, also without encryption, as in"
        ' `"10.1.0.0/16"`; all others must be public.',
        live=True,
    )
    mail_domains: tuple[str, ...] = setting(
        (),
        "The domains at which the authors of commits get mail without an account; all others get it only as members of"
        " the organization.",
        live=True,
    )
    timeout: float = setting(15.0, "The most seconds that an endpoint may take.", above=0, at_most=60, live=True)

    def __post_init__(self) -> None:
        _ = self.allowed_networks
        for domain in self.mail_domains:
            if not _DOMAIN.fullmatch(domain):
                raise ValueError(f'mail_domains must be domains such as "example.org", not "{domain}"')

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks that webhooks may be sent to although they are not public."""
        return networks_of(self.networks)


@immutable
class RenderSettings:
    """Section ``[render]``: rendering of builds that bring source and no ``pipeline_ir``.

    Each is rendered in a VM of the default image, beside the VMs of jobs.
    """

    vms: int = setting(
        3, "The most builds that are rendered at once; one organization has all but one of them.", at_least=1
    )
    fetch_timeout: float = setting(120.0, "The most seconds to fetch the source.", above=0, at_most=_DAY, live=True)
    timeout: float = setting(120.0, "The most seconds to load the pipeline files.", above=0, at_most=_DAY, live=True)
    max_source_mb: int = setting(512, "The most MB of a source that is fetched from a URL.", at_least=1, live=True)
    cpu: int = setting(1, "The vCPUs of each VM.", at_least=1, live=True)
    memory_gb: int = setting(2, "The GB of memory of each VM.", at_least=1, live=True)
    disk_gb: int = setting(10, "The GB of disk of each VM.", at_least=1, live=True)
    cache_seconds: int = setting(
        3600,
        "The seconds that the render of an archive is cached; with 0 every build is rendered.",
        at_least=0,
        at_most=30 * _DAY,
        live=True,
    )
    register: bool = setting(
        default=True, description="Let a build by repository create the pipeline that its archive declares.", live=True
    )

    @property
    def vms_of_one(self) -> int:
        """The most renders of one organization at once, so that another's never waits for those of one alone."""
        return max(1, self.vms - 1)

    @property
    def shape(self) -> Shape:
        """The shape of each VM."""
        return Shape(self.cpu, self.memory_gb, self.disk_gb)
