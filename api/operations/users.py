"""Users of the service, for the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, owners_operation
from api.operations.things import NAMED_USER, NamedUser
from storage import SoleOwner, User, described, email_address, immutable, shown_as

if TYPE_CHECKING:
    from api.fields import RequiredText


@immutable
class CreateUserRequest:
    """The body of `create_user`."""

    name: RequiredText = described("The name to show.", word="NAME")


@immutable
class NewUser:
    """A new user, with an API key for the user and the personal organization, which is shown only once."""

    uuid: str = shown_as("uuid")
    email: str
    personal_org_slug: str
    token: str


@immutable
class NewLink:
    """The token of a link by which a person signs in once."""

    token: str


@immutable
class RemovedUser:
    """The number of builds that go with an account."""

    canceled_builds: int


@owners_operation("listUsers", GET, "/users")
def list_users(call: Call) -> Annotated[list[User], "All users."]:
    """List the users, oldest first."""
    return call.storage.users.all()


@owners_operation("createUser", POST, NAMED_USER)
def create_user(call: Call, email: str, body: CreateUserRequest) -> NewUser:
    """Add a user with a personal organization. Raises EmailTaken and EmailInvalid."""
    added = call.storage.users.create(email_address(email), body.name)
    _, token = call.storage.tokens.create_api_key(added.id, "made with the user")
    return NewUser(added.uuid, added.email, added.personal_org_slug, token)


@owners_operation("removeUser", DELETE, NAMED_USER)
def remove_user(call: Call, user: NamedUser) -> RemovedUser:
    """Close an account, and cancel the unfinished builds of organizations without other members."""
    try:
        return RemovedUser(len(call.storage.accounts.close(user.id)))
    except SoleOwner as error:
        owned = ", ".join(error.slugs)
        message = f"others belong to {owned}, which {user.email} alone owns: let one of them own it first"
        raise ApiError("sole_owner", message) from None


@owners_operation("createUserLink", POST, f"{NAMED_USER}/links")
def create_user_link(call: Call, user: NamedUser) -> NewLink:
    """Make a link by which a user signs in once, within 15 minutes."""
    return NewLink(call.storage.sign_in_links.magic_link(user))


@owners_operation("createOwnerLink", POST, "/links")
def create_owner_link(call: Call) -> NewLink:
    """Make a link that makes one account within a day, whatever the rules of sign-ups."""
    return NewLink(call.storage.sign_in_links.owner())
