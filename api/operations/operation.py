"""Operations: plain functions, each declared once with its path, role, errors, body and answer.

    @operation("createSchedule", POST, f"{PIPELINE}/schedules", created("The schedule."), role=Role.ADMIN)
    def create_schedule(call: Call, pipeline: ThisPipeline, body: CreateScheduleRequest) -> Schedule:

The docstring is the operation's summary and description. A parameter is found by its type: the call; the part of a
list that is asked for; a name in the path; or a thing that the path names, by the function that finds it
(`api.operations.things`). ``body`` is checked before the call, the body of a ``submission`` by the function. A list
that has no pages is annotated with its description, or as `Whole`.

A body is a data class whose types are declared in `api.fields`. That is imported only when a body is checked or
described, so that a command which sends none does without pydantic.
"""

from __future__ import annotations

from functools import cache, cached_property
from http import HTTPMethod
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from api.body import OwnEntry, Submission
from api.errors.catalog import ApiError
from api.operations.service import Service, WithService
from storage import Build, Caller, Organization, Page, Pipeline, Role, Scope, User, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from api.http.files import ByteSource
    from api.openapi.operations import Parameter
    from api.sign_in.visitor import Visitor
    from storage import TokenLimits

GET, POST, PUT, PATCH, DELETE = (
    HTTPMethod.GET,
    HTTPMethod.POST,
    HTTPMethod.PUT,
    HTTPMethod.PATCH,
    HTTPMethod.DELETE,
)

B = TypeVar("B")
R = TypeVar("R")

KEY_ERRORS = ("invalid_idempotency_key", "idempotency_conflict")
"""The errors of the idempotency key of a submission; an operation may say where they stand."""

Security = Literal["bearer", "optional", "own token", "public"]


def never() -> bool:
    """Return False."""
    return False


@immutable
class Download:
    """An answer of bytes, or of a range of them: a file of a size to save under a name, and its SHA-256."""

    file: ByteSource
    size: int
    name: str
    sha256: str


@immutable
class HostOwner:
    """The owner of the host, who may do everything; ``name`` is the account there, as the audit has it."""

    name: str


class Refused(Exception):
    """The owner of the host cannot do this now; the message is a sentence that says what to do instead."""


@immutable
class Call(WithService):
    """One call of an operation; ``caller`` is None if nobody said who calls."""

    service: Service
    caller: Caller | HostOwner | None
    client_gone: Callable[[], bool] = never
    """Tells whether nobody waits for the answer any more."""

    sender: Visitor | None = None
    """The browser or program that a person may sign in from; None in a command."""

    entry: OwnEntry | None = None
    """The audit's entry of its request; None in a command, which writes it itself."""

    @property
    def visitor(self) -> Visitor:
        """The browser or program that a person signs in from. Raises TypeError in a command."""
        if self.sender is None:
            raise TypeError("nobody signs in by this door")
        return self.sender

    @property
    def user(self) -> User | None:
        """The user who calls, None if it is no user."""
        return self.caller.user if isinstance(self.caller, Caller) else None

    @property
    def budget_id(self) -> int | None:
        """The API key whose budget pays for what is asked for; None if it has none."""
        if isinstance(self.caller, Caller) and self.caller.limits.budget_cents is not None:
            return self.caller.token_id
        return None

    @property
    def actor(self) -> str:
        """The name of the caller in records: an e-mail address, or the account of the owner of the host."""
        if self.user is not None:
            return self.user.email
        return self.caller.name if isinstance(self.caller, HostOwner) else "nobody"


@immutable
class Membership:
    """The caller as a member of the organization in the path; the owner of the host is an owner of each."""

    organization: Organization
    role: Role

    def require(self, role: Role) -> None:
        """Raise ApiError ``insufficient_org_role`` unless the caller has at least this role."""
        if not self.role.covers(role):
            raise ApiError(
                "insufficient_org_role",
                f"this needs the role {role} in {self.organization.slug}; your role is {self.role}",
            )


@immutable
class Span:
    """The part of a list that is asked for: at most ``limit`` rows past the key ``after``."""

    limit: int
    after: int | None = None


@immutable
class Query:
    """The query parameters of a call, as they were given, by their names."""

    given: Mapping[str, str]


@immutable
class Whole:
    """A list that has no pages: an object with its rows under ``key``. ``name`` is that of its schema."""

    description: str
    name: str | None = None
    key: str = "data"


@immutable
class Found:
    """A way to find a thing that a path names.

    ``find`` takes the call, things before it, and names of the path as ``str``.

    ``errors`` are the codes that it may raise.
    """

    find: Callable[..., Any]
    errors: tuple[str, ...]


@immutable
class Callers:
    """The callers of an operation, whatever role it needs.

    With the security ``optional`` nobody need say who calls, and the things of the path decide what that caller may
    read; with ``public`` nobody is asked, and with ``own token`` the operation itself checks the token. With
    ``session`` an API key is not enough. ``scope`` is the one that a token needs, by default that of a member's
    reading, else ``admin``. A token for one pipeline or organization needs a path within it, unless the operation is
    ``about_caller``. If they are ``limited``, their calls count for their address and their account. ``owners`` are
    the owner of the host alone, without HTTP.
    """

    security: Security = "bearer"
    session: bool = False
    scope: Scope | None = None
    about_caller: bool = False
    limited: bool = False
    owners: bool = False


MEMBERS = Callers()
"""Everybody with a token."""

ACCOUNT = Callers(limited=True)
"""Everybody with a token, for what is worth guessing or repeating."""

SIGNED_IN = Callers(session=True, limited=True)
"""People with a session."""

STARTERS = Callers(scope=Scope.START)
"""Everybody with a token that may start builds."""

READERS = Callers("optional")
"""Everybody, for what the things of the path let them read."""

ANYBODY = Callers("public")
"""Everybody."""

VISITORS = Callers("public", limited=True)
"""People who are about to sign in."""

_OWNER = Callers(owners=True)


@immutable
class Success:
    """The answer of an operation that succeeds: a sentence about it, and its status.

    One that is shown ``once`` has a secret, and nobody keeps it.
    """

    about: str
    status: int = 200
    once: bool = False


def created(about: str) -> Success:
    """Return the answer of an operation that makes something."""
    return Success(about, 201)


def done(about: str) -> Success:
    """Return the answer of an operation that has nothing to say."""
    return Success(about, 204)


def shown_once(about: str, status: int = 200) -> Success:
    """Return an answer with a secret."""
    return Success(about, status, once=True)


class Operation(Generic[R]):
    """A function with all that its doors need to know of it.

    ``success`` is its answer. ``role`` is the least that ``callers`` need in the organization of the path, ``scope``
    the one that their tokens need. Without a body that is not ``body_required`` there are none of its fields.
    ``parameters`` are those of the query. If it ``changes`` something, the audit has it. ``tag`` is its part of the
    document, by default its module.
    """

    def __init__(
        self,
        function: Callable[..., R],
        id: str,
        method: HTTPMethod,
        path: str,
        success: Success,
        *,
        role: Role = Role.MEMBER,
        errors: tuple[str, ...] = (),
        callers: Callers = MEMBERS,
        body_required: bool = True,
        parameters: tuple[Parameter, ...] = (),
        changes: bool = True,
        tag: str = "",
    ) -> None:
        self.function = function
        self.id = id
        self.method = method
        self.path = path
        self.success = success
        self.role = role
        self.callers = callers
        self.scope = callers.scope or _usual_scope(method, role)
        self.body_required = body_required
        self.parameters = parameters
        self.changes = changes
        self.tag = tag
        self._own_errors = errors

    @cached_property
    def record(self) -> Any:  # noqa: ANN401 - mypy takes no class for hashable
        """The class of its answer, or of the rows of its answer; None if it answers nothing."""
        returned = get_type_hints(self.function)["return"]
        return get_args(returned)[0] if self.lists else None if returned is type(None) else returned

    @cached_property
    def whole(self) -> Whole | None:
        """The whole list that it answers; None if it answers a page, or no list."""
        returned = get_type_hints(self.function, include_extras=True)["return"]
        if get_origin(returned) is not Annotated:
            return None
        described = get_args(returned)[1]
        return described if isinstance(described, Whole) else Whole(described)

    @cached_property
    def lists(self) -> bool:
        """True if it answers a list, or a page of one."""
        return get_origin(get_type_hints(self.function)["return"]) in {Page, list}

    @cached_property
    def body(self) -> Any:  # noqa: ANN401 - mypy takes no class for hashable
        """The class of its body; None if it takes none."""
        parameters = _parameters(self.function)
        return get_args(parameters["submission"])[0] if self.submits else parameters.get("body")

    @cached_property
    def submits(self) -> bool:
        """True if it takes a submission: the same one is done once."""
        return "submission" in _parameters(self.function)

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """The codes of the errors that only some operations have: those of the path, of the role, and its own."""
        role = ("insufficient_org_role",) if self.role is not Role.MEMBER else ()
        session = ("session_required",) if self.callers.session else ()
        own = self._own_errors
        key = tuple(each for each in KEY_ERRORS if each not in own) if self.submits else ()
        return tuple(dict.fromkeys((*session, *_errors(self.function), *role, *key, *own)))

    def perform(
        self,
        call: Call,
        names: Mapping[str, str],
        document: Callable[[], object],
        span: Callable[[str], Span] | None = None,
        query: Query = Query({}),  # noqa: B008 - it is frozen
    ) -> R:
        """Find what the path names, check the role and then the body, and call the function.

        ``document`` returns the parsed body, a body of its class, which is not checked again, or the submission of one;
        ``span`` the part of a list, of the things whose ids it is given. Raises ApiError, as both may.
        """
        things: dict[Found, Any] = {}
        arguments: dict[str, object] = {}
        parameters = _parameters(self.function)
        for name, kind in parameters.items():
            if (found := _found(kind)) is not None:
                arguments[name] = _find(found, call, names, things)
        self.require_rights(call, things.values())
        of_call: dict[type, object] = {Call: call, Query: query}
        for name, kind in parameters.items():
            if kind is str:
                arguments[name] = names[name]
            elif kind is Span:
                arguments[name] = None if span is None else span(_ids(things.values()))
            elif isinstance(kind, type) and kind in of_call:
                arguments[name] = of_call[kind]
        if self.body is not None:
            taken = _submitted if self.submits else _checked
            arguments["submission" if self.submits else "body"] = taken(document(), self.body)
        return self.function(**arguments)

    def require_rights(self, call: Call, things: Iterable[Any]) -> None:
        """Raise ApiError unless the caller's token and role allow this with the things of the path."""
        if isinstance(call.caller, Caller):
            self._require_scope(call.caller.limits, things)
        for each in things:
            if isinstance(each, Membership):
                each.require(self.role)

    def _require_scope(self, limits: TokenLimits, things: Iterable[Any]) -> None:
        if not limits.permit(self.scope):
            raise ApiError("token_scope", f"this needs a token of the scope {self.scope}")
        if limits.of_one and not self.callers.about_caller and not any(_within(limits, each) for each in things):
            raise ApiError("token_scope", "the token is for one pipeline or organization alone, and this is not in it")


def _usual_scope(method: HTTPMethod, role: Role) -> Scope:
    return Scope.READ if method is GET and role is Role.MEMBER else Scope.ADMIN


def _within(limits: TokenLimits, thing: object) -> bool:
    """Tell whether a thing shows that a path is within the limits of a token."""
    if isinstance(thing, Membership):
        return limits.within(thing.organization.id)
    if isinstance(thing, Pipeline):
        return limits.within(thing.organization_id, thing.id)
    return isinstance(thing, Build) and limits.within(thing.organization_id, thing.pipeline_id)


def _ids(things: Iterable[Any]) -> str:
    """Return the ids of what a path names: a thing that is made anew by the same name is another one."""
    named = (each.organization if isinstance(each, Membership) else each for each in things)
    return "/".join(str(getattr(each, "id", "")) for each in named)


def operation(
    id: str,
    method: HTTPMethod,
    path: str,
    answer: str | Success,
    *,
    role: Role = Role.MEMBER,
    errors: tuple[str, ...] = (),
    callers: Callers = MEMBERS,
    body_required: bool = True,
    parameters: tuple[Parameter, ...] = (),
    changes: bool = True,
    tag: str = "",
) -> Callable[[Callable[..., R]], Operation[R]]:
    """Make an operation of a function (`Operation`); an ``answer`` that is a sentence has the status 200."""
    return lambda function: Operation(
        function,
        id,
        method,
        path,
        Success(answer) if isinstance(answer, str) else answer,
        role=role,
        errors=errors,
        callers=callers,
        body_required=body_required,
        parameters=parameters,
        changes=changes,
        tag=tag,
    )


def owners_operation(id: str, method: HTTPMethod, path: str) -> Callable[[Callable[..., R]], Operation[R]]:
    """Make an operation of the owner of the host; ``path`` has the names of the things that it is about."""
    return lambda function: Operation(function, id, method, path, Success(""), callers=_OWNER)


def _submitted(document: object, body: type[B]) -> Submission[B]:
    """Return the submission of a call, whose body is checked later."""
    return document if isinstance(document, Submission) else Submission(document, body)


def _checked(document: object, body: type[R]) -> R:
    """Return the body of a call. Raises ApiError ``invalid_body``."""
    if isinstance(document, body):
        return document
    from api.models import body_of  # noqa: PLC0415 - pydantic, of which most calls on the box need nothing

    return body_of(document, body)


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    return {name: kind for name, kind in hints.items() if name != "return"}


@cache
def _found(kind: object) -> Found | None:
    if get_origin(kind) is not Annotated:
        return None
    return next((each for each in get_args(kind) if isinstance(each, Found)), None)


def _find(found: Found, call: Call, names: Mapping[str, str], things: dict[Found, Any]) -> Any:  # noqa: ANN401 - any thing
    """Return a thing of the path, after those that it belongs to."""
    if found not in things:
        arguments: dict[str, object] = {}
        for name, kind in _parameters(found.find).items():
            before = _found(kind)
            if before is not None:
                arguments[name] = _find(before, call, names, things)
            else:
                arguments[name] = call if kind is Call else names[name]
        things[found] = found.find(**arguments)
    return things[found]


def _errors(function: Callable[..., Any]) -> Iterator[str]:
    for kind in _parameters(function).values():
        if (found := _found(kind)) is not None:
            yield from _errors(found.find)
            yield from found.errors
