"""The user that a token belongs to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from api.errors.catalog import ApiError
from api.operations.operation import ACCOUNT, DELETE, GET, PATCH, Call, Callers, done, operation
from api.operations.things import USER, ThisUser
from storage import SoleOwner, User, immutable, shown_as

if TYPE_CHECKING:
    from api.fields import RequiredText


@immutable
class CurrentUserResponse:
    """The caller's user record."""

    uuid: str = shown_as("uuid")
    email: str
    name: str
    personal_org_slug: str

    @classmethod
    def of(cls, user: User) -> Self:
        """Return the record of a stored user."""
        return cls(user.uuid, user.email, user.name, user.personal_org_slug)


@immutable
class UserUpdateRequest:
    """The body of ``PATCH /api/v0/user``."""

    name: RequiredText


@operation("getCurrentUser", GET, USER, "The caller.", callers=Callers(about_caller=True))
def get_current_user(user: ThisUser) -> CurrentUserResponse:
    """Get the user that the token belongs to."""
    return CurrentUserResponse.of(user)


@operation("updateCurrentUser", PATCH, USER, "The caller.")
def update_current_user(call: Call, user: ThisUser, body: UserUpdateRequest) -> CurrentUserResponse:
    """Change the caller's name."""
    return CurrentUserResponse.of(call.storage.users.rename(user.id, body.name))


@operation(
    "deleteCurrentUser",
    DELETE,
    USER,
    done("The account is deleted and its tokens are revoked."),
    errors=("sole_owner",),
    callers=ACCOUNT,
)
def delete_current_user(call: Call, user: ThisUser) -> None:
    """Delete the caller's account.

    Organizations without other members are deleted too, and their builds canceled. Refused while the caller is the
    only owner of an organization that has other members.
    """
    from actors import EngineBusy  # noqa: PLC0415 - a command that shows the caller needs no actor

    try:
        canceled = call.storage.accounts.close(user.id)
    except SoleOwner as error:
        raise ApiError("sole_owner", str(error)) from None
    for build_id in canceled:
        with suppress(EngineBusy):  # the storage has recorded the cancel, so it is still carried out
            call.engine.cancel(build_id)
