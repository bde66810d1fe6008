"""Users, organizations, memberships, tokens, passkeys and identities."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from storage.data_classes import hidden, immutable
from storage.records.pipelines import CancelSuperseded  # noqa: TC001 - a model reads the annotations

if TYPE_CHECKING:
    from datetime import datetime


class Role(StrEnum):
    """A member's role in an organization, strongest first."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"

    def covers(self, other: Role) -> bool:
        """Tell whether this role has all rights of another one."""
        ranks = list(Role)
        return ranks.index(self) <= ranks.index(other)


@immutable
class Member:
    """A user in an organization; ``uuid`` is the user's."""

    user_id: int
    uuid: str
    email: str
    name: str
    role: Role


@immutable
class Invite:
    """An invite to an organization for one e-mail address, without its token."""

    id: int
    uuid: str
    organization_id: int
    email: str
    role: Role
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    revoked_at: datetime | None


@immutable
class InviteDraft:
    """An invite that is not stored yet, with its token; the storage keeps only the token's hash."""

    email: str
    role: Role
    token: str
    expires_at: datetime


MACHINE_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


@immutable
class MachineAccount:
    """An account without a person, of one organization; ``address`` is like ``acme/deploy-bot``."""

    id: int
    uuid: str
    address: str
    role: Role
    created_at: datetime

    @property
    def name(self) -> str:
        """Its name in the organization."""
        return self.address.partition("/")[2]


@immutable
class User:
    """A person with an account, or a `MachineAccount`, whose ``email`` is its address."""

    id: int
    uuid: str
    email: str
    name: str
    personal_org_slug: str
    created_at: datetime
    machine: bool = hidden()


class TokenKind(StrEnum):
    """The kinds of tokens: a personal API key, or a session from signing in."""

    API_KEY = "api_key"
    SESSION = "session"


class CliLoginKind(StrEnum):
    """The kinds of secrets with which a command line takes a session."""

    NONCE = "nonce"
    CODE = "code"


class SignInLinkKind(StrEnum):
    """The kinds of sign-in links: for a new address, for an account, for the owner's first sign-up."""

    VERIFICATION = "verification"
    MAGIC_LINK = "magic_link"
    OWNER = "owner"


@immutable
class SignInLink:
    """A sign-in link, without its token.

    ``email`` and ``name`` are the person's, None and empty in an owner's link; ``user_id`` is that of a magic link.
    """

    id: int
    kind: SignInLinkKind
    email: str | None
    name: str
    user_id: int | None
    expires_at: datetime


class SignUpMode(StrEnum):
    """People who may make an account: anybody, those with a pending invite, or nobody."""

    OPEN = "open"
    INVITED = "invited"
    CLOSED = "closed"


@immutable
class SignUpPolicy:
    """Rules for sign-ups: who, and at which domains of e-mail addresses; any domain if there are none."""

    mode: SignUpMode = SignUpMode.INVITED
    domains: frozenset[str] = frozenset()


@immutable
class SessionOrigin:
    """The client's address, and the name of its program, when a session began."""

    address: str
    agent: str


class Scope(StrEnum):
    """The rights of a token: to read, to begin builds, to run commands on forks, or all that its user has."""

    READ = "read"
    START = "start"
    FORK = "fork"
    ADMIN = "admin"


@immutable
class TokenLimits:
    """The bounds of a token below what its user may do.

    Without ``scopes`` it has all. With an ``organization_id`` or ``pipeline_id`` it is for that alone. What it starts
    costs at most ``budget_cents`` in all.
    """

    scopes: tuple[str, ...] | None = None
    organization_id: int | None = None
    pipeline_id: int | None = None
    budget_cents: int | None = None

    def permit(self, scope: Scope) -> bool:
        """Tell whether the scopes have this one: all let read, and ``admin`` has all."""
        return self.scopes is None or scope is Scope.READ or scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def of_one(self) -> bool:
        """True if the token is for one pipeline or organization."""
        return self.organization_id is not None or self.pipeline_id is not None

    def within(self, organization_id: int, pipeline_id: int | None = None) -> bool:
        """Tell whether the token is for an organization, or for a pipeline of it."""
        return self.organization_id in {None, organization_id} and self.pipeline_id in {None, pipeline_id}


@immutable
class Token:
    """A bearer token, without its secret; ``address`` and ``agent`` are those of a session's origin."""

    id: int
    uuid: str
    kind: TokenKind
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    address: str | None
    agent: str | None
    limits: TokenLimits
    spent_cents: int = 0


@immutable
class Caller:
    """The user that a bearer token belongs to, and the token."""

    user: User
    token_id: int
    kind: TokenKind
    limits: TokenLimits


class ForkApproval(StrEnum):
    """The pull requests from forks that need an approval: those of authors who may not push, all, or none."""

    STRANGERS = "strangers"
    ALWAYS = "always"
    NEVER = "never"


class OrganizationChanges(TypedDict, total=False):
    """Changes of an organization by the host's owner; absent fields stay as they are."""

    fail_fast: bool
    weight: int
    cancel_superseded: CancelSuperseded | None
    fork_approval: ForkApproval | None
    fork_secrets: bool | None
    provider: str | None
    strict_shell: bool | None
    find_culprits: bool | None


@immutable
class Organization:
    """An organization."""

    # It owns pipelines and a ledger. Where one of the settings is None, that of the host applies.
    id: int
    uuid: str = hidden()
    slug: str
    name: str
    url: str
    fail_fast: bool = hidden()
    weight: int = hidden()
    """Its share of the host, as a multiple of that of an organization of weight 1."""

    cancel_superseded: CancelSuperseded | None = hidden()
    fork_approval: ForkApproval | None = hidden()
    fork_secrets: bool | None = hidden()
    provider: str | None = hidden()
    """The way in which its VMs are made."""

    strict_shell: bool | None = hidden()
    find_culprits: bool | None = hidden()
    created_at: datetime


@immutable
class OwnerSession:
    """A session of the host's owner in the console, or the link to it, while ``opened_at`` is None.

    ``operator`` is the account on the host that asked for the link.
    """

    id: int
    uuid: str
    operator: str
    opened_at: datetime | None
    expires_at: datetime


@immutable
class NewPasskey:
    """A passkey as an authenticator made it; ``aaguid`` names the model of the authenticator."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    transports: tuple[str, ...]


@immutable
class Passkey:
    """A passkey of an account; ``handle`` is what the account is called in its passkeys."""

    id: int
    uuid: str
    user_id: int
    handle: bytes
    credential_id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    transports: tuple[str, ...]
    nickname: str
    created_at: datetime
    last_used_at: datetime | None


class PasskeyPurpose(StrEnum):
    """The purposes of a challenge; an answer to one for another purpose is refused."""

    SIGN_UP = "sign_up"
    SIGN_IN = "sign_in"
    REGISTRATION = "registration"
    RECOVERY = "recovery"


@immutable
class PasskeyChallenge:
    """A challenge to an authenticator; ``handle`` is that of the account which gets a passkey."""

    id: int
    uuid: str
    purpose: PasskeyPurpose
    challenge: bytes
    handle: bytes | None
    expires_at: datetime


@immutable
class ProvenIdentity:
    """A person who signed in at an identity provider, as the provider says.

    ``provider`` is the provider's own name, an issuer's URL; ``subject`` is its name for the person, which never goes
    to another one. ``email`` is empty if the provider tells none, and proves nothing unless it is ``verified``.
    """

    provider: str
    subject: str
    email: str
    verified: bool
    name: str


@immutable
class Identity:
    """A user's identity at a provider; ``email`` is the address that the provider told last."""

    id: int
    uuid: str
    user_id: int
    provider: str
    subject: str
    email: str
    created_at: datetime
    last_used_at: datetime
