"""`ci-daemon github`: make the GitHub app, and bind its installations, as the owner of the host."""

from __future__ import annotations

import click

from api.operations import github_installations
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session


@click.group(cls=Group)
def github() -> None:
    """The app by which pushes and pull requests at GitHub are built."""


@github.command()
@click.option("--owner", metavar="LOGIN", help="The organization at GitHub that owns the app; by default you do.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of the page on this host.")
@click.option("--code", help="The code in the address that GitHub led to, if your browser cannot reach this host.")
@pass_session
def setup(session: Session, *, owner: str | None, port: int, code: str | None) -> None:
    """Make the app at GitHub, and write it into the configuration.

    It prints the address of a page on this host that leads a browser to GitHub and back. From another computer, open
    the page through `ssh -L PORT:127.0.0.1:PORT`, with the --port that you choose. People can sign in by the app too,
    unless signing in with GitHub is configured.
    """
    from ci_daemon.config.loading import FILE_NAME, configuration_file  # noqa: PLC0415 - as below
    from ci_daemon.github_app import AppNotMade, Setup, convert, write_app  # noqa: PLC0415 - `bind` needs none of it

    config = session.config()
    if config.github.configured:
        raise Failure("the section [github] has an app already: remove the section to make another one")
    if config.http.base_url is None:
        raise Failure(
            "http.base_url is not set: GitHub must know an address to report to, such as https://ci.example.org"
        )
    file = configuration_file(session.state_dir) or session.state_dir / FILE_NAME
    try:
        if code is None:
            with Setup(config.http.url, config.github.web_url, owner).listen(port) as server:
                click.echo(f"open {server.url} in a browser on this host", err=True)
                code = server.wait()
        app = convert(config.github.api_url, code)
        key = write_app(app, file, signs_in=not config.identity.github.client_id)
    except AppNotMade as error:
        raise Failure(str(error)) from None
    session.answer(
        {"app_id": str(app.id), "url": app.html_url, "configuration": str(file), "private_key": str(key)},
        f"{app.html_url} is written into {file}: restart the service, then install the app on your repositories there",
    )


@github.command()
@click.argument("installation", type=click.IntRange(1, 2**53 - 1), metavar="ID")
@click.option("--org", required=True, help="The organization that builds its repositories.")
@pass_session
def bind(session: Session, *, installation: int, org: str) -> None:
    """Bind the installation ID of the app to an organization, without proof that it is yours.

    ID is the number at the end of the address of the installation's page at GitHub.
    """
    with session.owners_door() as door:
        names = {"org": org, "id": str(installation)}
        bound = door.perform(github_installations.bind_installation, names)
    session.answer(
        {
            "installation_id": installation,
            "account": bound.account,
            "org": org,
            "repositories": list(bound.repositories),
        },
        f"pushes to {len(bound.repositories)} repositories of {bound.account} are built for {org}",
    )
