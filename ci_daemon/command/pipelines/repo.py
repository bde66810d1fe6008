"""`ci-daemon repo`: connect repositories, whose pushes are built, on the box or of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from api.operations import hosted_repositories, organizations, repositories
from ci_daemon.command.support.body_options import body_option, body_options, given
from ci_daemon.command.support.command_classes import Command, Group, SharedCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import GitCredential, document_of, shown_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from api.doors import Door

_COLUMNS = ("org", "url", "provider", "repo_name", "poll_seconds", "checked_at", "last_error")
_PUSH_COLUMNS = ("recorded_at", "name", "commit", "outcome")

_MAX_TOKEN = 4096
_MAX_PASSWORD = 64 * 1024
_HOOK_ADVICE = "to have pushes reported at once, run this as its owner in the folder of the bare repository:"
_BOX_ALONE = (
    "with a server, repositories at Forgejo, Gitea and GitLab are connected, by --token-file FILE without --user;"
    " one on a plain git server is connected by the owner of the service's host, who runs `ci-daemon repo connect`"
    " there"
)
_EXAMPLES = """\b
A repository at a Forgejo, Gitea or GitLab, by a token:
  ci-daemon repo connect https://codeberg.org/acme/web \\
    --org acme --token-file token
One at a plain server, by a password:
  ci-daemon repo connect https://git.example.org/acme/web.git \\
    --org acme --user ci --token-file token
One at a plain server, by a deploy key:
  ci-daemon repo connect git@git.example.org:acme/web.git \\
    --org acme --submodules
One on this host:
  ci-daemon repo connect /srv/git/acme/web.git --org acme --poll 3600
"""

_url_argument = click.argument("url", metavar="URL|PATH")
_org_option = click.option("--org", required=True, help="The organization that it is connected to.")
_user_option = click.option("--user", metavar="NAME", help="The user to fetch as from a plain https server.")
_token_file_option = click.option(
    "--token-file",
    type=click.File(),
    help="The file with that user's password, or with a token of a host; - for standard input.",
)


@click.group(cls=Group)
def repo() -> None:
    """Repositories whose pushes are built."""


@repo.command(cls=SharedCommand, epilog=_EXAMPLES)
@_url_argument
@click.option("--org", required=True, help="The organization that the builds belong to.")
@click.option("--name", metavar="OWNER/REPO", help="Its name for pipelines; by default the end of the URL or path.")
@body_option(hosted_repositories.ConnectPlainRepoRequest, "poll_seconds", "--poll")
@body_options(hosted_repositories.ConnectPlainRepoRequest, "submodules", "lfs")
@body_option(hosted_repositories.ConnectPlainRepoRequest, "organization_key", "--org-key")
@_user_option
@_token_file_option
@click.option(
    "--provider",
    type=click.Choice(["forgejo", "gitea", "gitlab"]),
    help="The kind of the host that the token is for; by default it is asked.",
)
@pass_session
def connect(
    session: Session,
    /,
    *,
    url: str,
    org: str,
    name: str | None,
    user: str | None,
    token_file: TextIO | None,
    provider: str | None,
    **terms: Any,  # noqa: ANN401 - fields of the body
) -> None:
    """Build what is pushed from now on to a git repository: an https or ssh URL, or a path on this host.

    Each pushed branch or tag is built by the pipelines that its own commit declares, if their triggers want it.

    With --token-file and no --user the repository is one at Forgejo, Gitea or GitLab: the webhook is made there, and
    commits and pull requests show the states of their builds. Connecting again replaces the token.

    Repositories on plain git servers are connected on the box alone. For ssh a deploy key is made and printed, to be
    added to the repository on its server; with --org-key it is that of the organization. The server's key is trusted
    from then on. The service's user must be able to read a path. There a post-receive hook is installed, if there is
    none and that user may write it, so that pushes are reported at once; otherwise the hook is printed.
    """
    if token_file is not None and user is None:
        if name is not None or {"poll_seconds", "organization_key"} & given(terms).keys():
            raise click.UsageError(
                "--name, --poll and --org-key are for plain git servers: leave them out with a host's token"
            )
        token = token_file.read(_MAX_TOKEN).strip()
        if not token:
            raise Failure(f"{token_file.name} is empty: write a token of the host's into it")
        host = {} if provider is None else {"provider": provider}
        _connect_at_host(session, org, {"url": url, "token": token, **host, **given(terms)})
        return
    if session.server() is not None:
        raise Failure(_BOX_ALONE)
    password = _given_password(user, token_file)
    body = hosted_repositories.ConnectPlainRepoRequest(url, name, password=password, **given(terms))
    with session.owners_repositories_door() as door:
        made = door.perform(hosted_repositories.connect_plain_repo, {"org": org}, body)
    how = "its hook reports them at once" if made.hook else f"the service looks every {body.poll_seconds} s"
    lines = [f"pushes to {made.url} are built for {org}: {how}"]
    if made.unread is not None:
        lines.append(made.unread)
    if made.hook_script is not None:
        lines += ["", _HOOK_ADVICE, made.hook_script]
    if made.deploy_key is not None:
        lines += ["", *_key_lines(made.deploy_key, made.host_key_fingerprint)]
    document = document_of(made)
    for each in ("hook_script", "deploy_key", "host_key_fingerprint", "unread"):
        if document[each] is None or each == "unread":
            del document[each]
    session.answer(document, "\n".join(lines))


def _connect_at_host(session: Session, org: str, body: Mapping[str, object]) -> None:
    with session.repositories_door() as door:
        made = door.perform(repositories.connect_repo, {"org": org}, body)
        document = _details(door, org, made.uuid)
    how = f"{made.provider} reports them, and shows the states of their builds"
    session.answer(document, f"pushes to {made.clone_url} are built for {org}: {how}")


@repo.command(cls=Command)
@_url_argument
@_org_option
@pass_session
def rotate_key(session: Session, *, url: str, org: str) -> None:
    """Make a new deploy key for an ssh repository, and show it; the former is forgotten."""
    with session.owners_door() as door:
        made = door.perform(hosted_repositories.rotate_repo_key, _find(door, org, url))
    document = document_of(made)
    del document["was"]
    session.answer(document, "\n".join(_key_lines(made.deploy_key, made.host_key_fingerprint)))


@repo.command(cls=Command)
@_url_argument
@_org_option
@pass_session
def trust(session: Session, *, url: str, org: str) -> None:
    """Trust the key that the server of an ssh repository has now, in place of the one that was trusted."""
    with session.owners_door() as door:
        key = door.perform(hosted_repositories.trust_repo_server, _find(door, org, url))
    now = key.host_key_fingerprint
    same = key.was == now
    text = f"the server's key is {now}, as before" if same else f"the server's key is {now} now; it was {key.was}"
    session.answer(document_of(key), text)


@repo.command(name="list", cls=SharedCommand, reads=True)
@click.option("--org", help="Only those that are connected to this organization.")
@pass_session
def list_repositories(session: Session, *, org: str | None) -> None:
    """List the connected repositories, and why the last look at one or report to its host failed."""
    with session.door() as door:
        documents = _listed(door, org)
    columns = [each for each in _COLUMNS if documents and each in documents[0]]
    session.table(documents, columns, "no repository is connected: `ci-daemon repo connect` connects one")


@repo.command(cls=SharedCommand, reads=True)
@click.argument("repository", metavar="URL|NAME")
@click.option("--org", help="The organization that it is connected to, if several are.")
@pass_session
def show(session: Session, *, repository: str, org: str | None) -> None:
    """Show a repository: when it was looked at, why that failed, and what came of its last pushes."""
    with session.door() as door:
        found = _named(_listed(door, org), repository)
        shown = door.perform(repositories.get_repo, {"org": found["org"], "id": found["id"]})
    document = found if door.owners else _document(found["org"], shown)
    pushes = [document_of(each) for each in shown.pushes]
    documents = [
        {name: each[name] for name in ("name", "commit", "outcome", "builds", "recorded_at")} for each in pushes
    ]
    if session.json:
        session.answer({**document, "pushes": documents}, "")
        return
    session.properties(document)
    session.table(documents, _PUSH_COLUMNS, "nothing was pushed to it in the last seven days")


@repo.command(cls=SharedCommand)
@_url_argument
@_org_option
@body_option(hosted_repositories.ConfigureRepoRequest, "poll_seconds", "--poll")
@body_options(hosted_repositories.ConfigureRepoRequest, "submodules", "lfs", "pull_requests", "merge_again")
@_user_option
@_token_file_option
@pass_session
def edit(
    session: Session,
    /,
    *,
    url: str,
    org: str,
    user: str | None,
    token_file: TextIO | None,
    **terms: Any,  # noqa: ANN401 - fields of the body
) -> None:
    """Change how a repository is fetched, packed and built; what is not given stays.

    It is looked at at once.

    The hook that an earlier release installed in a folder of this host is replaced by that of this one.
    """
    password = _given_password(user, token_file)
    changes = given(terms if password is None else {**terms, "password": password})
    with session.repositories_door() as door:
        names = _find(door, org, url)
        if door.owners:
            body = hosted_repositories.ConfigureRepoRequest(**changes)
            document = document_of(door.perform(hosted_repositories.configure_repo, names, body))
        elif changes.keys() & {"poll_seconds", "password"}:
            raise Failure(
                "with a server only --submodules, --lfs, --pull-requests and --merge-again can be changed: the owner of"
                " its host runs `ci-daemon repo edit` there with --poll, or with --user and --token-file"
            )
        else:
            document = _document(org, door.perform(repositories.update_repo, names, changes))
    session.answer(document, f"{document['url']} is changed, and looked at at once")


@repo.command(cls=SharedCommand)
@_url_argument
@_org_option
@pass_session
def remove(session: Session, *, url: str, org: str) -> None:
    """Build no more pushes to a repository. Its pipelines and builds stay.

    The webhook of one at Forgejo, Gitea or GitLab is removed, too.
    """
    with session.repositories_door() as door:
        names = _find(door, org, url)
        if door.owners:
            document = document_of(door.perform(hosted_repositories.remove_repo, names))
            if (left := document.pop("webhook_left")) is not None:
                click.echo(f"its webhook may still be there: {left}", err=True)
        else:
            document = next(each for each in _listed(door, org) if each["id"] == names["id"])
            door.perform(repositories.disconnect_repo, names)
    session.answer(document, f"pushes to {document['url']} are no longer built for {org}")


@repo.command(cls=SharedCommand, reads=True)
@_url_argument
@_org_option
@pass_session
def key(session: Session, *, url: str, org: str) -> None:
    """Show the deploy key of an ssh repository, to be added to it on its server."""
    with session.door() as door:
        found = door.perform(repositories.get_repo, _find(door, org, url))
    if found.deploy_key is None:
        raise Failure(f"{url} has no deploy key: only repositories with an ssh URL have one")
    document = document_of(found)
    session.answer(
        {name: document[name] for name in ("id", "deploy_key", "host_key_fingerprint")},
        "\n".join(_key_lines(found.deploy_key, found.host_key_fingerprint)),
    )


@repo.command(cls=SharedCommand)
@_url_argument
@_org_option
@pass_session
def hook(session: Session, *, url: str, org: str) -> None:
    """Print a hook that reports pushes at once, for the repository on its server.

    An earlier hook reports no more.
    """
    with session.repositories_door() as door:
        names = _find(door, org, url)
        script = door.perform(repositories.make_repo_hook, names).script
    session.answer({"id": names["id"], "hook_script": script}, f"{_HOOK_ADVICE}\n{script}")


def _listed(door: Door, org: str | None) -> list[dict[str, Any]]:
    """Return the repositories of an organization, or all that the caller may see."""
    if door.owners:
        if org is not None:
            door.perform(organizations.get_organization, {"org": org})
        found = map(document_of, door.rows(hosted_repositories.list_hosted_repos, {}))
        return [each for each in found if org in {None, each["org"]}]
    orgs = [org] if org else [each.slug for each in door.rows(organizations.list_organizations, {})]
    return [_summary(slug, each) for slug in orgs for each in door.rows(repositories.list_org_repos, {"org": slug})]


def _named(connected: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the repository of a URL, path or name. Raises Failure."""
    at = name if "://" in name else str(Path(name).resolve())
    found = [each for each in connected if name in {each["url"], each["repo_name"]} or each["url"] == at]
    if not found:
        raise Failure(f"{name} is not connected: `ci-daemon repo list` shows what is")
    if len({each["org"] for each in found}) > 1:
        raise Failure(f"{name} is connected to {', '.join(sorted(each['org'] for each in found))}: give --org")
    if len(found) > 1:
        raise Failure(f"{name} names {', '.join(sorted(each['url'] for each in found))}: give the URL")
    return found[0]


def repository_names(door: Door, org: str, name: str) -> dict[str, str]:
    """Return the names in the path of a repository, by its URL, path or name. Raises Failure."""
    found = _named(_listed(door, org), name)
    return {"org": org, "id": found["id"]}


def _find(door: Door, org: str, url: str) -> dict[str, str]:
    """Return the names in the path of a repository, by its URL or path. Raises Failure."""
    at = {url} if "://" in url else {url, str(Path(url).resolve())}
    for each in door.rows(repositories.list_org_repos, {"org": org}):
        if each.clone_url in at:
            return {"org": org, "id": each.uuid}
    raise Failure(f"{url} is not connected to {org}: `ci-daemon repo list` shows what is")


def _details(door: Door, org: str, uuid: str) -> dict[str, Any]:
    """Return the document of a repository, with all that this door shows of it."""
    if door.owners:
        return next(each for each in _listed(door, org) if each["id"] == uuid)
    return _document(org, door.perform(repositories.get_repo, {"org": org, "id": uuid}))


def _summary(org: str, each: repositories.RepoSummary) -> dict[str, Any]:
    shown = document_of(each)
    return {
        "id": each.uuid,
        "org": org,
        "url": each.clone_url,
        "provider": each.provider,
        "repo_name": each.full_name,
        "default_branch": each.default_branch,
        "checked_at": shown["last_synced_at"],
        "last_error": each.last_error,
    }


def _document(org: str, each: repositories.Repo) -> dict[str, Any]:
    """Return what a server shows of a repository, with the names that it has on the box."""
    shown = {**document_of(each), "org": org, "url": each.clone_url, "repo_name": each.full_name}
    names = [each.name for each in shown_fields(hosted_repositories.HostedRepo)]
    return {name: shown[name] for name in names if name in shown}


def _given_password(user: str | None, token_file: TextIO | None) -> GitCredential | None:
    """Return the user and password of the options, None without them. Raises Failure."""
    if user is None and token_file is None:
        return None
    if user is None or token_file is None:
        raise Failure("--user and --token-file belong together: give both")
    try:
        return GitCredential(user, token_file.read(_MAX_PASSWORD).strip())
    except ValueError as error:
        raise Failure(f"{error}: correct --user or the token's file") from None


def _key_lines(deploy_key: str, host_key_fingerprint: str | None) -> tuple[str, ...]:
    """Return what people are shown of a deploy key."""
    return (
        "add this deploy key to the repository on its server; it needs to read only:",
        deploy_key,
        f"the server's key, which is trusted from now on: {host_key_fingerprint}",
    )
