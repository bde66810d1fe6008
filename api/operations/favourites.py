"""The pipelines that the caller has first in lists."""

from __future__ import annotations

from typing import Annotated

from api.operations.operation import DELETE, GET, PUT, Call, Whole, done, operation
from api.operations.things import PIPELINE, USER, ThisPipeline, ThisUser
from storage import Favourite

_FAVOURITE = f"{PIPELINE}/favourite"

FavouriteList = Annotated[
    list[Favourite], Whole("The caller's favourites, the oldest pipeline first.", "FavouriteListResponse", "favourites")
]


@operation("listFavourites", GET, f"{USER}/favourites", "The favourites.")
def list_favourites(call: Call, user: ThisUser) -> FavouriteList:
    """List the pipelines that the caller has first in lists."""
    return call.storage.standings.favourites(user.id)


@operation("addFavourite", PUT, _FAVOURITE, done("It is a favourite."))
def add_favourite(call: Call, user: ThisUser, pipeline: ThisPipeline) -> None:
    """Make a pipeline a favourite, which is first in the caller's lists."""
    call.storage.standings.favour(user.id, pipeline.id, yes=True)


@operation("removeFavourite", DELETE, _FAVOURITE, done("It is no favourite."))
def remove_favourite(call: Call, user: ThisUser, pipeline: ThisPipeline) -> None:
    """Make a pipeline no favourite."""
    call.storage.standings.favour(user.id, pipeline.id, yes=False)
