"""The parts of the service that operations use: at every door, over HTTP, and on its own host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from storage import Clock, Storage, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors import PoolSettings, RetentionSettings
    from actors.forks import ForkWork
    from actors.mail import Mails, MailSettings
    from actors.repositories import RepositorySettings
    from actors.scheduling import Capacity
    from actors.source_hosts import Installations, Workspaces
    from actors.vms import Images, Providers
    from actors.vms.images import PullOptions
    from api.builds.coverage import KeptCoverage
    from api.builds.creation import BuildCreation
    from api.builds.test_reports import KeptReports
    from api.engine import EngineInterface
    from api.operations.debugging import Shell, Target
    from api.operations.github_installations import GithubApp
    from api.operations.host import Finding, HostMember
    from api.operations.repositories import Connecting
    from api.payments.provider import PaymentProvider
    from api.settings import RateLimitSettings
    from api.sign_in.mail import SignInMail
    from api.sign_in.passkeys import PasskeyRegistration, PasskeySignIn
    from api.sign_in.providers.sign_in import IdentityProviders, ProviderSignIn
    from api.signing import LogTokens, Signer
    from storage import Build, Job, SignUpPolicy

R = TypeVar("R")

_ONLY_THE_SERVICE = "only the service itself does this"


@immutable
class Serving:
    """The parts of the service for callers of HTTP and for browsers."""

    signer: Signer
    log_tokens: LogTokens


@immutable
class LaterParts:
    """The parts of the service that only resources use which are imported at the first request for one."""

    passkeys: PasskeyRegistration
    passkey_sign_in: PasskeySignIn
    provider_sign_in: ProviderSignIn
    sign_up_policy: SignUpPolicy
    sign_in_mail: SignInMail
    identities: IdentityProviders
    open_workspaces: Callable[[], Workspaces]
    github: GithubApp
    payments: PaymentProvider | None
    """The way to pay; None if nobody can."""

    @property
    def workspaces(self) -> Workspaces:
        """The connected workspaces of Bitbucket, imported when they are first asked for."""
        return self.open_workspaces()


class Box(Protocol):
    """The host of the service, as its owner's operations use it beside the storage."""

    @property
    def providers(self) -> Providers:
        """The makers of VMs."""
        ...

    @property
    def images(self) -> Images:
        """The images that VMs start from."""
        ...

    @property
    def pool(self) -> PoolSettings:
        """The bounds of the VMs of jobs."""
        ...

    @property
    def capacity(self) -> Capacity:
        """The caps for all VMs together."""
        ...

    @property
    def repositories(self) -> RepositorySettings:
        """The bounds of reading repositories."""
        ...

    @property
    def retention(self) -> RetentionSettings:
        """The ages and sizes of what is kept."""
        ...

    @property
    def mail(self) -> MailSettings:
        """The mail server."""
        ...

    @property
    def url(self) -> str:
        """The configured address of the service."""
        ...

    def serves(self) -> bool:
        """Tell whether the service runs."""
        ...

    def image_bytes(self) -> int:
        """Return the size of all images."""
        ...

    def pull_options(self) -> PullOptions:
        """Return the bounds of a pull of an image that the owner wants."""
        ...

    def members(self) -> Iterable[HostMember]:
        """Return the members of the engine that makes VMs; none if this host makes them. Raises VmError."""
        ...

    def examine(self) -> Iterable[Finding]:
        """Check the host and the state directory. Raises Refused if that takes too long."""
        ...

    def installations(self) -> Installations | None:
        """Return the installations of the GitHub app; None if there is no app."""
        ...

    def open_shell(self, target: Target) -> Shell:
        """Connect to a job's VM. Raises VmError."""
        ...

    def open_fork(self, build: Build, job: Job, *, before: bool, opened_by: str) -> Shell:
        """Make a VM with a fork of a job's disk, and connect to it. Raises Refused and VmError."""
        ...

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[R], *, opened_by: str, gone: Callable[[], bool]) -> R:
        """Do work on a fork of a job's disk, as the engine of the service does."""
        ...


@immutable
class Service:
    """The parts of the service that operations use."""

    storage: Storage
    clock: Clock
    engine: EngineInterface
    mails: Mails | None = None
    """The writer of mails; None outside of the service's own process."""

    limits: RateLimitSettings | None = None
    """The limits of accounts; None for the owner of the host, who has none."""
    url: str = ""
    """The address of the service, without a trailing slash; where it is not known, links are paths."""

    creation: BuildCreation | None = None
    """The creation of builds; None in a command that creates none."""

    connecting: Connecting | None = None
    """The way to the hosts of repositories; None in a command that asks none."""

    serving: Serving | None = None
    """The parts that only the service itself has; None in a command."""

    later: LaterParts | None = None
    """The parts of resources that are imported later; None in a command."""

    coverage: KeptCoverage | None = None
    """The coverage of builds that was read last; None in a command, which keeps none."""

    reports: KeptReports | None = None
    """The test reports that were read last; None in a command, which keeps none."""

    box: Box | None = None
    """The host, for its owner; None at every other door."""


class WithService:
    """The parts of the service that operations and pages use, by their own names."""

    __slots__ = ()
    service: Service

    @property
    def creation(self) -> BuildCreation:
        """The creation of builds. Raises TypeError if this door creates none."""
        return _present(self.service.creation, "this door creates no builds")

    @property
    def serving(self) -> Serving:
        """The parts that only the service itself has. Raises TypeError in a command."""
        return _present(self.service.serving, _ONLY_THE_SERVICE)

    @property
    def later(self) -> LaterParts:
        """The parts of resources that are imported later. Raises TypeError in a command."""
        return _present(self.service.later, _ONLY_THE_SERVICE)

    @property
    def build_coverage(self) -> KeptCoverage:
        """The coverage of builds."""
        from api.builds.coverage import KeptCoverage  # noqa: PLC0415 - few calls read reports

        return self.service.coverage or KeptCoverage(self.storage)

    @property
    def test_reports(self) -> KeptReports:
        """The test reports of builds."""
        from api.builds.test_reports import KeptReports  # noqa: PLC0415 - few calls read reports

        return self.service.reports or KeptReports(self.storage)

    @property
    def box(self) -> Box:
        """The host, for its owner. Raises TypeError at every other door."""
        return _present(self.service.box, "only the owner of the host does this")

    @property
    def storage(self) -> Storage:
        """The storage of the service."""
        return self.service.storage

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self.service.clock

    @property
    def engine(self) -> EngineInterface:
        """The running builds."""
        return self.service.engine


def _present(part: R | None, why_not: str) -> R:
    if part is None:
        raise TypeError(why_not)
    return part
