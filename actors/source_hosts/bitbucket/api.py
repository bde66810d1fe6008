"""The API of Bitbucket Cloud (https://developer.atlassian.com/cloud/bitbucket/rest/)."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote, urlencode

from pydantic import Field

from actors.source_hosts.host import MOST_OPEN, HostNotConfigured, ReportState
from actors.source_hosts.payloads import AnyObject, FullName, Login, Token, if_open
from storage import JsonModel, RemoteRepository, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.source_hosts.api_client import HostApi, HostNetwork
    from actors.source_hosts.forge_host import CommitStatus
    from actors.source_hosts.settings import BitbucketSettings
    from actors.timed_http import Deadline

_EVENTS = [
    "repo:push",
    "pullrequest:created",
    "pullrequest:updated",
    "pullrequest:fulfilled",
    "pullrequest:rejected",
]
_STATES = {
    ReportState.WAITING: "INPROGRESS",
    ReportState.RUNNING: "INPROGRESS",
    ReportState.PASSED: "SUCCESSFUL",
    ReportState.FAILED: "FAILED",
    ReportState.CANCELED: "STOPPED",
}
_USER = re.compile(r"\{[0-9a-fA-F-]{36}\}", re.ASCII)
_MAY_PUSH = {"write", "admin"}
_LONGEST_KEY = 40
_PAGE = 100
_MOST_PAGES = 100

Item = TypeVar("Item")


class Grant(JsonModel):
    """The tokens of a connection; the access token lives for ``expires_in`` seconds."""

    access_token: Token
    refresh_token: Token
    expires_in: int = Field(gt=0, le=10**7)


class Workspace(JsonModel):
    """A workspace, by its unchanging id and its name in URLs."""

    uuid: Login
    slug: Login
    name: Login | None = None


class _Access(JsonModel):
    administrator: bool
    workspace: Workspace


class _Branch(JsonModel):
    name: str


class _Repository(JsonModel):
    uuid: Login
    full_name: FullName
    is_private: bool
    mainbranch: _Branch | None = None


class _Hook(JsonModel):
    uuid: Login
    url: str = ""


class _Permission(JsonModel):
    permission: str


class _Page(JsonModel, Generic[Item]):
    values: list[Item]
    next: str | None = None


@immutable
class BitbucketApi:
    """Requests to Bitbucket. Each blocks and raises HostError. Safe in any thread."""

    settings: BitbucketSettings
    network: HostNetwork

    def authorize_url(self, state: str) -> str:
        """Return the page that asks a person to let the service in. Raises HostNotConfigured."""
        asked = {"client_id": self._client_id, "response_type": "code", "state": state}
        return f"{self.settings.url}/site/oauth2/authorize?{urlencode(asked)}"

    def exchange(self, code: str, deadline: Deadline) -> Grant:
        """Return the tokens for a code, which is valid once."""
        return self._grant({"grant_type": "authorization_code", "code": code}, deadline)

    def refresh(self, refresh_token: str) -> Grant:
        """Return new tokens."""
        return self._grant({"grant_type": "refresh_token", "refresh_token": refresh_token}, None)

    def workspaces(self, token: str, deadline: Deadline) -> list[Workspace]:
        """Return the workspaces that the person of a token administrates."""
        found = self._pages(self._api(token, deadline), "/user/workspaces", _Page[_Access])
        return [each.workspace for each in found if each.administrator]

    def repositories(self, token: str, workspace: str) -> list[RemoteRepository]:
        """Return the repositories of a workspace that the person of a token administrates."""
        path = f"/repositories/{quote(workspace, safe='')}"
        return [
            RemoteRepository(
                each.uuid,
                f"{self.settings.url}/{each.full_name}.git",
                each.full_name,
                each.mainbranch.name if each.mainbranch else None,
                each.is_private,
            )
            for each in self._pages(self._api(token), path, _Page[_Repository], role="admin")
        ]

    def has_webhook(self, token: str, full_name: str, url: str) -> bool:
        """Tell whether a repository reports to a URL."""
        return any(each.url == url for each in self._pages(self._api(token), _hooks(full_name), _Page[_Hook]))

    def add_webhook(self, token: str, full_name: str, url: str, secret: str) -> None:
        """Let a repository report to a URL."""
        hook = {"description": "ci-daemon", "url": url, "active": True, "secret": secret, "events": _EVENTS}
        self._api(token).post(_hooks(full_name), hook)

    def remove_webhook(self, token: str, full_name: str, url: str) -> None:
        """Remove the webhooks of a repository with this URL."""
        api = self._api(token)
        for each in list(self._pages(api, _hooks(full_name), _Page[_Hook])):
            if each.url == url:
                api.delete(f"{_hooks(full_name)}/{quote(each.uuid, safe='')}")

    def trusts(self, token: str, full_name: str, user: str) -> bool:
        """Tell whether somebody, by Bitbucket's id, may push to a repository."""
        if not _USER.fullmatch(user):
            return False
        workspace, _, name = full_name.partition("/")
        path = f"/workspaces/{quote(workspace)}/permissions/repositories/{quote(name)}"
        found = self._pages(self._api(token), path, _Page[_Permission], q=f'user.uuid="{user}"')
        return any(each.permission in _MAY_PUSH for each in found)

    def open_pull_requests(self, token: str, full_name: str) -> list[AnyObject]:
        """Return the open pull requests of a repository that changed last."""
        path, order = f"/repositories/{quote(full_name)}/pullrequests", {"state": "OPEN", "sort": "-updated_on"}
        return self._api(token).get(path, _Page[AnyObject], **order, pagelen=MOST_OPEN).values

    def open_pull_request(self, token: str, full_name: str, number: int) -> list[AnyObject]:
        """Return a pull request of a repository, if it is open."""
        path = f"/repositories/{quote(full_name)}/pullrequests/{number}"
        return if_open(self._api(token).find(path, AnyObject), "OPEN")

    def set_status(self, token: str, full_name: str, status: CommitStatus) -> None:
        """Show a status at a commit."""
        self._api(token).post(
            f"/repositories/{quote(full_name)}/commit/{status.commit}/statuses/build",
            {
                "key": _key(status.context),
                "name": status.context,
                "state": _STATES[status.state],
                "description": status.description,
                "url": status.url,
            },
        )

    @property
    def _client_id(self) -> str:
        if not self.settings.client_id:
            raise HostNotConfigured("set bitbucket.client_id and bitbucket.client_secret of an OAuth consumer")
        return self.settings.client_id

    def _grant(self, form: dict[str, str], deadline: Deadline | None) -> Grant:
        client = b64encode(f"{self._client_id}:{self.settings.client_secret}".encode()).decode()
        headers = {"Authorization": f"Basic {client}"}
        api = self.network.api(self.settings.url, headers, anywhere=True, deadline=deadline)
        return api.post_form("/site/oauth2/access_token", form, Grant)

    def _api(self, token: str, deadline: Deadline | None = None) -> HostApi:
        headers = {"Authorization": f"Bearer {token}"}
        return self.network.api(self.settings.api_url, headers, anywhere=True, deadline=deadline)

    def _pages(self, api: HostApi, path: str, model: type[_Page[Item]], **query: str) -> Iterator[Item]:
        """Yield the items of all pages.

        The address of the next page that is answered is not called: the token would go there.
        """
        for number in range(1, _MOST_PAGES + 1):
            page = api.get(path, model, **query, pagelen=_PAGE, page=number)
            yield from page.values
            if page.next is None:
                return


def _hooks(full_name: str) -> str:
    return f"/repositories/{quote(full_name)}/hooks"


def _key(context: str) -> str:
    """Return the key of a status, which Bitbucket limits to 40 characters."""
    return context if len(context) <= _LONGEST_KEY else hashlib.sha256(context.encode()).hexdigest()[:_LONGEST_KEY]
