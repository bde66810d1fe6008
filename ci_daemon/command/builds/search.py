"""`ci-daemon search`: find pipelines, builds and people, of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from api.operations import search as operations
from ci_daemon.command.support.command_classes import ServerCommand
from ci_daemon.command.support.session import Session, pass_session
from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COLUMNS = ("found", "name", "state", "text")


@click.command(cls=ServerCommand)
@click.argument("words", nargs=-1, required=True)
@pass_session
def search(session: Session, *, words: tuple[str, ...]) -> None:
    """Find the pipelines, builds and people of your organizations that have all WORDS.

    A word is in the name of a pipeline; in the message, the branch or the people of a build; or in the name or address
    of a member. It may be the number of a build, such as 41, and one alone the beginning of a commit. The last word may
    be the beginning of one.
    """
    with session.connection() as connection:
        document = document_of(connection.perform(operations.search, {}, query={"q": " ".join(words)}))
    if session.json:
        session.answer(document, "")
    else:
        session.table(list(_rows(document)), _COLUMNS, "nothing has all of these words")


def _rows(document: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Yield a row for each thing that was found."""
    for each in document["pipelines"]:
        yield {
            "found": "pipeline",
            "name": f"{each['org']}/{each['pipeline_slug']}",
            "state": None,
            "text": each["name"],
        }
    for each in document["builds"]:
        name = f"{each['org']}/{each['pipeline_slug']}/{each['number']}"
        title = str(each["message"] or each["commit"] or "").partition("\n")[0]
        yield {"found": "build", "name": name, "state": each["state"], "text": title}
    for each in document["people"]:
        yield {
            "found": "person",
            "name": each["email"],
            "state": None,
            "text": f"{each['name']} ({each['org']})".lstrip(),
        }
