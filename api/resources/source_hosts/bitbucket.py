"""Workspaces of Bitbucket (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from actors.source_hosts import ConnectRefused, HostError, HostNotConfigured
from api.bodies import answer, read_body
from api.errors.catalog import ApiError
from api.fields import RequestBody, RequiredLongText
from api.openapi.operations import Answer, operation
from storage import HostConnectedElsewhere, JsonModel, Role

if TYPE_CHECKING:
    import falcon

    from actors.source_hosts import Workspaces
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.signing import Signer
    from storage import Clock, HostConnection, Repository

_PURPOSE = "connect workspaces of Bitbucket"
_LIFETIME = timedelta(seconds=600)
_INVALID = "begin again: the state is not of this user, or older than 600 seconds"
_OF_ORGANIZATION = ("organization_not_found",)
_CONNECT_ERRORS = (
    "bitbucket_not_configured",
    "bitbucket_invalid_state",
    "bitbucket_installation_bound_elsewhere",
    "bitbucket_connect_failed",
)


class BitbucketOAuthUrlResponse(JsonModel):
    """The page of Bitbucket that asks a person to let the service in."""

    url: str


class BitbucketWorkspaceRecord(JsonModel):
    """A connected workspace."""

    slug: str
    name: str

    @classmethod
    def of(cls, connection: HostConnection) -> BitbucketWorkspaceRecord:
        """Return the record of a connection."""
        return cls(slug=connection.account, name=connection.name)


class BitbucketWorkspaceList(JsonModel):
    """The connected workspaces of an organization."""

    workspaces: list[BitbucketWorkspaceRecord]


class ConnectBitbucketRequest(RequestBody):
    """The body of ``POST …/integrations/bitbucket/connect``: the parameters that Bitbucket sends back."""

    code: RequiredLongText
    state: RequiredLongText


class ConnectBitbucketResponse(JsonModel):
    """The workspaces that are connected now, and the slug of their organization."""

    workspaces: list[BitbucketWorkspaceRecord]
    org: str


class BitbucketRepoRecord(JsonModel):
    """A repository of a workspace."""

    full_name: str
    name: str
    clone_url: str | None
    default_branch: str | None
    private: bool

    @classmethod
    def of(cls, repository: Repository) -> BitbucketRepoRecord:
        """Return the record of a repository."""
        return cls(
            full_name=repository.repo_name,
            name=repository.repo_name.rpartition("/")[2],
            clone_url=repository.url,
            default_branch=repository.default_branch,
            private=repository.private,
        )


class BitbucketRepoList(JsonModel):
    """The repositories of a workspace."""

    repos: list[BitbucketRepoRecord]


class BitbucketResource:
    """``/api/v0/organizations/{org}/bitbucket/…`` and ``/api/v0/integrations/bitbucket/connect``."""

    def __init__(
        self, access: Access, engine: EngineInterface, workspaces: Workspaces, signer: Signer, clock: Clock
    ) -> None:
        self._access = access
        self._engine = engine
        self._workspaces = workspaces
        self._signer = signer
        self._clock = clock

    @operation(
        "bitbucketOAuthUrl",
        Answer(200, "The page to send the person to.", BitbucketOAuthUrlResponse),
        errors=(*_OF_ORGANIZATION, "insufficient_org_role", "bitbucket_not_configured"),
    )
    def on_get_oauth_url(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Begin to connect workspaces of Bitbucket; needs the role admin.

        Bitbucket sends the person back to the callback URL of its OAuth consumer with `code` and `state`, within 600
        seconds.
        """
        answer(resp, BitbucketOAuthUrlResponse(url=self.authorize_url(req, org)))

    @operation(
        "connectBitbucket",
        Answer(201, "The workspaces are connected.", ConnectBitbucketResponse),
        errors=(*_OF_ORGANIZATION, "insufficient_org_role", *_CONNECT_ERRORS),
        body=ConnectBitbucketRequest,
    )
    def on_post_connect(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Connect the workspaces that the person administrates, for the user and organization that began it.

        Each repository there gets a webhook, soon. Workspaces that belong to another organization stay there.
        """
        self._access.caller(req)  # who is not signed in learns nothing of the body
        body = read_body(req, ConnectBitbucketRequest)
        answer(resp, self.connect(req, body.code, body.state), status=201)

    @operation(
        "listBitbucketWorkspaces", Answer(200, "The workspaces.", BitbucketWorkspaceList), errors=_OF_ORGANIZATION
    )
    def on_get_workspaces(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the connected workspaces."""
        found = self._workspaces.of_organization(self._access.member(req, org).organization.id)
        answer(resp, BitbucketWorkspaceList(workspaces=[BitbucketWorkspaceRecord.of(each) for each in found]))

    @operation(
        "listBitbucketRepos",
        Answer(200, "The repositories.", BitbucketRepoList),
        errors=(*_OF_ORGANIZATION, "bitbucket_workspace_not_found"),
    )
    def on_get_repos(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """List the repositories of a workspace, as they were last seen at Bitbucket.

        If that is an hour ago, Bitbucket is asked again soon, and new repositories get their webhook.
        """
        connection = self._found(self._access.member(req, org).organization.id, id)
        repos = [BitbucketRepoRecord.of(each) for each in self._workspaces.repositories(connection)]
        self._engine.deliveries_added()
        answer(resp, BitbucketRepoList(repos=sorted(repos, key=lambda each: each.full_name)))

    @operation(
        "disconnectBitbucket",
        Answer(204, "The workspace is disconnected."),
        errors=(*_OF_ORGANIZATION, "insufficient_org_role", "bitbucket_workspace_not_found"),
    )
    def on_delete_workspace(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Disconnect a workspace; needs the role admin.

        Its webhooks are removed soon. Its pipelines and builds stay.
        """
        member = self._access.member(req, org)
        connection = self._found(member.organization.id, id)
        member.require(Role.ADMIN)
        self._workspaces.disconnect(connection)
        self._engine.deliveries_added()
        resp.status = 204

    def authorize_url(self, req: falcon.Request, org: str) -> str:
        """Return the page of Bitbucket for the caller and an organization. Raises ApiError."""
        member = self._access.member(req, org, Role.ADMIN)
        until = (self._clock.now() + _LIFETIME).isoformat()
        state = self._signer.sign(_PURPOSE, [member.caller.user.uuid, member.organization.slug, until])
        try:
            return self._workspaces.authorize_url(state)
        except HostNotConfigured as error:
            raise ApiError("bitbucket_not_configured", str(error)) from None

    def connect(self, req: falcon.Request, code: str, state: str) -> ConnectBitbucketResponse:
        """Connect the workspaces of a code for the caller. Raises ApiError."""
        caller = self._access.caller(req)
        opened = self._signer.open(_PURPOSE, state)
        if opened is None:
            raise ApiError("bitbucket_invalid_state", _INVALID)
        user, org, until = opened
        if user != caller.user.uuid or datetime.fromisoformat(until) <= self._clock.now():
            raise ApiError("bitbucket_invalid_state", _INVALID)
        member = self._access.member(req, org, Role.ADMIN)
        try:
            connected = self._workspaces.connect(member.organization.id, code)
        except HostNotConfigured as error:
            raise ApiError("bitbucket_not_configured", str(error)) from None
        except HostConnectedElsewhere as error:
            raise ApiError("bitbucket_installation_bound_elsewhere", str(error)) from None
        except (HostError, ConnectRefused) as error:
            raise ApiError("bitbucket_connect_failed", str(error)) from None
        self._engine.deliveries_added()
        records = [BitbucketWorkspaceRecord.of(each) for each in connected]
        return ConnectBitbucketResponse(workspaces=records, org=org)

    def _found(self, organization_id: int, slug: str) -> HostConnection:
        found = self._workspaces.of_organization(organization_id)
        connection = next((each for each in found if each.account == slug), None)
        if connection is None:
            raise ApiError("bitbucket_workspace_not_found", f'there is no connected workspace "{slug[:50]}"')
        return connection
