"""Workspaces of Bitbucket (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Self

from actors.source_hosts import ConnectRefused, HostError, HostNotConfigured
from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, Found, Membership, Whole, created, done, operation
from api.operations.things import ORGANIZATION, ThisMembership, ThisUser, member_organization
from storage import HostConnectedElsewhere, HostConnection, Role, immutable

if TYPE_CHECKING:
    from api.fields import OAuthCode
    from storage import Repository

_WORKSPACES = f"{ORGANIZATION}/bitbucket/workspaces"
_WORKSPACE = f"{_WORKSPACES}/{{id}}"
_PURPOSE = "connect workspaces of Bitbucket"
_LIFETIME = timedelta(seconds=600)
_INVALID = "begin again: the state is not of this user, or older than 600 seconds"


@immutable
class BitbucketOAuthUrlResponse:
    """The page of Bitbucket that asks a person to let the service in."""

    url: str


@immutable
class BitbucketWorkspaceRecord:
    """A connected workspace."""

    slug: str
    name: str

    @classmethod
    def of(cls, connection: HostConnection) -> Self:
        """Return the record of a connection."""
        return cls(connection.account, connection.name)


@immutable
class ConnectBitbucketRequest:
    """The body of ``POST …/integrations/bitbucket/connect``: the parameters that Bitbucket sends back."""

    code: OAuthCode
    state: OAuthCode


@immutable
class ConnectBitbucketResponse:
    """The workspaces that are connected now, and the slug of their organization."""

    workspaces: tuple[BitbucketWorkspaceRecord, ...]
    org: str


@immutable
class BitbucketRepoRecord:
    """A repository of a workspace."""

    full_name: str
    name: str
    clone_url: str | None
    default_branch: str | None
    private: bool

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """Return the record of a repository."""
        return cls(
            full_name=repository.repo_name,
            name=repository.repo_name.rpartition("/")[2],
            clone_url=repository.url,
            default_branch=repository.default_branch,
            private=repository.private,
        )


WorkspaceList = Annotated[
    list[BitbucketWorkspaceRecord],
    Whole("The connected workspaces of an organization.", "BitbucketWorkspaceList", "workspaces"),
]
RepoList = Annotated[list[BitbucketRepoRecord], Whole("The repositories of a workspace.", "BitbucketRepoList", "repos")]


def _workspace(call: Call, member: ThisMembership, id: str) -> HostConnection:
    found = call.later.workspaces.of_organization(member.organization.id)
    connection = next((each for each in found if each.account == id), None)
    if connection is None:
        raise ApiError("bitbucket_workspace_not_found", f'there is no connected workspace "{id[:50]}"')
    return connection


_ThisWorkspace = Annotated[HostConnection, Found(_workspace, ("bitbucket_workspace_not_found",))]


@operation(
    "bitbucketOAuthUrl",
    GET,
    f"{ORGANIZATION}/bitbucket/oauth-url",
    "The page to send the person to.",
    role=Role.ADMIN,
    errors=("bitbucket_not_configured",),
)
def get_oauth_url(call: Call, user: ThisUser, member: ThisMembership) -> BitbucketOAuthUrlResponse:
    """Begin to connect workspaces of Bitbucket; needs the role admin.

    Bitbucket sends the person back to the callback URL of its OAuth consumer with `code` and `state`, within 600
    seconds.
    """
    until = (call.clock.now() + _LIFETIME).isoformat()
    state = call.serving.signer.sign(_PURPOSE, [user.uuid, member.organization.slug, until])
    try:
        return BitbucketOAuthUrlResponse(call.later.workspaces.authorize_url(state))
    except HostNotConfigured as error:
        raise ApiError("bitbucket_not_configured", str(error)) from None


@operation(
    "connectBitbucket",
    POST,
    "/api/v0/integrations/bitbucket/connect",
    created("The workspaces are connected."),
    errors=(
        "organization_not_found",
        "insufficient_org_role",
        "bitbucket_not_configured",
        "bitbucket_invalid_state",
        "bitbucket_installation_bound_elsewhere",
        "bitbucket_connect_failed",
    ),
)
def connect_bitbucket(call: Call, user: ThisUser, body: ConnectBitbucketRequest) -> ConnectBitbucketResponse:
    """Connect the workspaces that the person administrates, for the user and organization that began it.

    Each repository there gets a webhook, soon. Workspaces that belong to another organization stay there.
    """
    opened = call.serving.signer.open(_PURPOSE, body.state)
    if opened is None:
        raise ApiError("bitbucket_invalid_state", _INVALID)
    who, org, until = opened
    if who != user.uuid or datetime.fromisoformat(until) <= call.clock.now():
        raise ApiError("bitbucket_invalid_state", _INVALID)
    member = Membership(*member_organization(call.storage, call.caller, org))
    member.require(Role.ADMIN)
    try:
        connected = call.later.workspaces.connect(member.organization.id, body.code)
    except HostNotConfigured as error:
        raise ApiError("bitbucket_not_configured", str(error)) from None
    except HostConnectedElsewhere as error:
        raise ApiError("bitbucket_installation_bound_elsewhere", str(error)) from None
    except (HostError, ConnectRefused) as error:
        raise ApiError("bitbucket_connect_failed", str(error)) from None
    call.engine.deliveries_added()
    return ConnectBitbucketResponse(tuple(map(BitbucketWorkspaceRecord.of, connected)), org)


@operation("listBitbucketWorkspaces", GET, _WORKSPACES, "The workspaces.")
def list_workspaces(call: Call, member: ThisMembership) -> WorkspaceList:
    """List the connected workspaces."""
    found = call.later.workspaces.of_organization(member.organization.id)
    return [BitbucketWorkspaceRecord.of(each) for each in found]


@operation("disconnectBitbucket", DELETE, _WORKSPACE, done("The workspace is disconnected."), role=Role.ADMIN)
def disconnect_workspace(call: Call, connection: _ThisWorkspace) -> None:
    """Disconnect a workspace; needs the role admin.

    Its webhooks are removed soon. Its pipelines and builds stay.
    """
    call.later.workspaces.disconnect(connection)
    call.engine.deliveries_added()


@operation("listBitbucketRepos", GET, f"{_WORKSPACE}/repos", "The repositories.")
def list_workspace_repos(call: Call, connection: _ThisWorkspace) -> RepoList:
    """List the repositories of a workspace, as they were last seen at Bitbucket.

    If that is an hour ago, Bitbucket is asked again soon, and new repositories get their webhook.
    """
    repos = [BitbucketRepoRecord.of(each) for each in call.later.workspaces.repositories(connection)]
    call.engine.deliveries_added()
    return sorted(repos, key=lambda each: each.full_name)
