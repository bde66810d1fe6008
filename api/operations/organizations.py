"""Organizations of the caller; and all of them with their settings, for the owner of the host."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

from api.body import ABSENT, FAIL_FAST, FIND_CULPRITS, STRICT_SHELL, SUPERSEDED, given
from api.errors.catalog import ApiError
from api.operations.operation import GET, PATCH, POST, Call, Span, created, operation, owners_operation
from api.operations.things import NAMED_USER, ORGANIZATION, NamedUser, ThisMembership, ThisUser
from storage import (
    PROVIDERS,
    CancelSuperseded,
    ForkApproval,
    NameUnusable,
    Organization,
    Page,
    Storage,
    TooManyOrganizations,
    described,
    immutable,
)

if TYPE_CHECKING:
    from api.fields import RequiredText, Text

_ORGANIZATIONS = "/api/v0/organizations"


@immutable
class CreateOrganizationRequest:
    """The body of ``POST /api/v0/organizations``; the slug is made from the name."""

    name: RequiredText
    url: Text | None = described("Its web site, to show.", default=None, word="URL")


@immutable
class HostedOrganization:
    """An organization with its credit, and the settings that the owner of the host makes.

    Where one of these is None, the configuration of the host applies.
    """

    slug: str
    name: str
    url: str
    created_at: datetime
    uuid: str
    balance_cents: int
    weight: int
    fail_fast: bool
    cancel_superseded: CancelSuperseded | None
    fork_approval: ForkApproval | None
    fork_secrets: bool | None
    provider: str | None
    strict_shell: bool | None
    find_culprits: bool | None

    @classmethod
    def of(cls, storage: Storage, each: Organization) -> Self:
        """Return the record of a stored organization."""
        return cls(
            slug=each.slug,
            name=each.name,
            url=each.url,
            created_at=each.created_at,
            uuid=each.uuid,
            balance_cents=storage.ledger.balance(each.id),
            weight=each.weight,
            fail_fast=each.fail_fast,
            cancel_superseded=each.cancel_superseded,
            fork_approval=each.fork_approval,
            fork_secrets=each.fork_secrets,
            provider=each.provider,
            strict_shell=each.strict_shell,
            find_culprits=each.find_culprits,
        )


@immutable
class ConfigureOrganizationRequest:
    """The body of `configure_organization`. Absent fields stay as they are."""

    weight: int = described(
        "Its share of VM time while others wait, as a multiple of that of an organization of weight 1.",
        default=ABSENT,
        bounds=(1, 1_000_000),
    )
    fail_fast: bool = described(FAIL_FAST, default=ABSENT)
    cancel_superseded: CancelSuperseded | None = described(SUPERSEDED, default=ABSENT)
    fork_approval: ForkApproval | None = described(
        "The pull requests from forks whose builds wait for an approval; strangers are all who may not push.",
        default=ABSENT,
    )
    fork_secrets: bool | None = described(
        "Whether builds of pull requests from forks get the secrets and caches of other builds.", default=ABSENT
    )
    provider: str | None = described(
        "How its VMs are made from now on; `ci-daemon doctor` says what this host lacks for that.",
        default=ABSENT,
        choices=PROVIDERS,
    )
    strict_shell: bool | None = described(STRICT_SHELL, default=ABSENT)
    find_culprits: bool | None = described(FIND_CULPRITS, default=ABSENT)


@operation("listOrganizations", GET, _ORGANIZATIONS, "A page of organizations.")
def list_organizations(call: Call, user: ThisUser, span: Span) -> Page[Organization]:
    """List the caller's organizations, oldest first."""
    return call.storage.organizations.page(user.id, span.limit, span.after)


@operation(
    "createOrganization", POST, _ORGANIZATIONS, created("The organization."), errors=("organization_limit_reached",)
)
def create_organization(call: Call, user: ThisUser, body: CreateOrganizationRequest) -> Organization:
    """Create an organization, which the caller owns."""
    limits = call.service.limits
    most = None if limits is None else limits.organizations_per_account
    try:
        return _create(call, user.id, body, most)
    except TooManyOrganizations as error:
        raise ApiError("organization_limit_reached", str(error)) from None


@operation("getOrganization", GET, ORGANIZATION, "The organization.")
def get_organization(membership: ThisMembership) -> Organization:
    """Get an organization that the caller is a member of."""
    return membership.organization


@owners_operation("listHostedOrganizations", GET, "/organizations")
def list_hosted_organizations(call: Call) -> Annotated[list[HostedOrganization], "All organizations."]:
    """List all organizations, oldest first."""
    return [HostedOrganization.of(call.storage, each) for each in call.storage.organizations.all()]


@owners_operation("createUserOrganization", POST, f"{NAMED_USER}/organizations")
def create_user_organization(call: Call, user: NamedUser, body: CreateOrganizationRequest) -> HostedOrganization:
    """Create an organization, which a user owns."""
    return HostedOrganization.of(call.storage, _create(call, user.id, body))


@owners_operation("configureOrganization", PATCH, f"{ORGANIZATION}/settings")
def configure_organization(
    call: Call, membership: ThisMembership, body: ConfigureOrganizationRequest
) -> HostedOrganization:
    """Change settings of an organization, with immediate effect, also on running builds."""
    organizations, slug = call.storage.organizations, membership.organization.slug
    organizations.configure(membership.organization.id, **given(body))
    changed = organizations.by_slug(slug)
    if changed is None:
        raise ApiError.not_found("organization", slug)
    return HostedOrganization.of(call.storage, changed)


def _create(call: Call, owner_id: int, body: CreateOrganizationRequest, most: int | None = None) -> Organization:
    """Create an organization. Raises ApiError ``invalid_body``, and TooManyOrganizations."""
    try:
        return call.storage.organizations.create(body.name, body.url or "", owner_id, most)
    except NameUnusable:
        raise ApiError("invalid_body", "name: expected at least one letter a-z or digit") from None
