"""Machine accounts of an organization and their API keys (wire-decisions.md, "Machine accounts")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.api_tokens import (
    ApiToken,
    ApiTokenCreateRequest,
    ApiTokenCreateResponse,
    limits_of,
    new_key,
)
from api.operations.members import parse_role
from api.operations.operation import (
    DELETE,
    GET,
    POST,
    Call,
    Callers,
    Found,
    Whole,
    created,
    done,
    operation,
    shown_once,
)
from api.operations.things import ORGANIZATION, ThisMembership
from storage import MachineAccount as StoredMachineAccount
from storage import MachineAccountExists, Role, TooManyMachineAccounts, User, described, example, immutable

if TYPE_CHECKING:
    from datetime import datetime

    from api.fields import InvitedRole, MachineName

_ACCOUNTS = f"{ORGANIZATION}/machine-accounts"
_ACCOUNT = f"{_ACCOUNTS}/{{machine}}"
ROLES = (Role.ADMIN, Role.MEMBER)


@immutable
class MachineAccount:
    """An account without a person; ``address`` is its name on builds and in the audit."""

    name: str = example("deploy-bot")
    address: str = example("acme/deploy-bot")
    role: Role
    created_at: datetime

    @classmethod
    def of(cls, machine: StoredMachineAccount) -> Self:
        """Return the record of a stored machine account."""
        return cls(machine.name, machine.address, machine.role, machine.created_at)


@immutable
class CreateMachineAccountRequest:
    """The body of ``POST …/machine-accounts``."""

    name: MachineName = described("Lower-case letters, digits and dashes.", word="NAME")
    role: InvitedRole = described("Members build, admins also manage members and settings.", choices=ROLES)


def _machine(call: Call, membership: ThisMembership, machine: str) -> User:
    found = call.storage.machine_accounts.named(membership.organization, machine)
    if found is None:
        raise ApiError.not_found("machine_account", machine)
    return found


ThisMachineAccount = Annotated[User, Found(_machine, ("machine_account_not_found",))]
"""The machine account ``{machine}`` of the organization ``{org}``, of which the caller is a member."""

MachineAccountList = Annotated[list[MachineAccount], Whole("All machine accounts, by name.")]
MachineAccountKeys = Annotated[list[ApiToken], Whole("The keys of the machine account, newest first.")]


@operation("listMachineAccounts", GET, _ACCOUNTS, "The machine accounts.")
def list_machine_accounts(call: Call, membership: ThisMembership) -> MachineAccountList:
    """List the organization's machine accounts by name."""
    return [MachineAccount.of(each) for each in call.storage.machine_accounts.all(membership.organization.id)]


@operation(
    "createMachineAccount",
    POST,
    _ACCOUNTS,
    created("The machine account."),
    role=Role.ADMIN,
    errors=("machine_account_exists", "too_many_machine_accounts", "invalid_role"),
)
def create_machine_account(call: Call, membership: ThisMembership, body: CreateMachineAccountRequest) -> MachineAccount:
    """Make an account for a program, which has a role in this organization alone and cannot sign in."""
    role = parse_role(body.role, *ROLES)
    try:
        return MachineAccount.of(call.storage.machine_accounts.create(membership.organization, body.name, role))
    except MachineAccountExists as error:
        raise ApiError("machine_account_exists", str(error)) from None
    except TooManyMachineAccounts as error:
        raise ApiError("too_many_machine_accounts", str(error)) from None


@operation("deleteMachineAccount", DELETE, _ACCOUNT, done("It is deleted, its keys end."), role=Role.ADMIN)
def delete_machine_account(call: Call, machine: ThisMachineAccount) -> None:
    """Delete a machine account; its keys end at once, and its builds keep its name."""
    call.storage.machine_accounts.remove(machine.id)


@operation("listMachineAccountKeys", GET, f"{_ACCOUNT}/api-tokens", "The API keys.", role=Role.ADMIN)
def list_machine_keys(call: Call, machine: ThisMachineAccount) -> MachineAccountKeys:
    """List the API keys of a machine account that are not revoked, newest first."""
    return [ApiToken.of(call.storage, each) for each in call.storage.tokens.api_keys(machine.id)]


@operation(
    "createMachineAccountKey",
    POST,
    f"{_ACCOUNT}/api-tokens",
    shown_once("The API key, shown only now, and its record.", status=201),
    role=Role.ADMIN,
    errors=("pipeline_not_found",),
    callers=Callers(session=True, limited=True),
)
def create_machine_key(
    call: Call, membership: ThisMembership, machine: ThisMachineAccount, body: ApiTokenCreateRequest
) -> ApiTokenCreateResponse:
    """Create an API key of a machine account, for its organization or a pipeline of it.

    Needs a session token.
    """
    organization = membership.organization
    limits = limits_of(call, body)
    if limits.organization_id not in {None, organization.id}:
        raise ApiError("invalid_body", f"only: expected {organization.slug} or one of its pipelines")
    return new_key(call, machine, body, replace(limits, organization_id=organization.id))


@operation(
    "revokeMachineAccountKey",
    DELETE,
    f"{_ACCOUNT}/api-tokens/{{id}}",
    done("The API key is revoked."),
    role=Role.ADMIN,
    errors=("api_token_not_found",),
)
def revoke_machine_key(call: Call, machine: ThisMachineAccount, id: str) -> None:
    """Revoke an API key of a machine account."""
    if not call.storage.tokens.revoke_api_key(machine.id, id):
        raise ApiError("api_token_not_found", "the machine account has no API key with this ID")
