"""Deliveries of hosts: their headers, signatures and types of fields."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, RootModel, StringConstraints, ValidationError

from actors.source_hosts.host import DeliveryInvalid, DeliveryUnsigned, Received
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from storage import Repository, Storage


_VALUE = re.compile(r"[ -~]{1,100}", re.ASCII)
Model = TypeVar("Model", bound=BaseModel)

Commit = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
"""The name of a commit or other object; all zeros for none."""

AbbreviatedCommit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12,64}$")]
"""The name of a commit, of which the end may be left out."""

FullName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_.][\w.-]*$", max_length=255)]
"""The owner and name of a repository."""

Token = Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=16_384)]
"""A token that fits into a header."""

HeadRef = Annotated[str, StringConstraints(pattern=r"^refs/(?:heads|tags)/[^\s\x00-\x1f]+$", max_length=255)]
"""The full name of a branch or tag."""

Login = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The name of an account at its host."""

Title = Annotated[str, AfterValidator(lambda title: title[:255])]
"""A title, of which 255 characters are kept."""


def required(headers: Mapping[str, str], *names: str) -> str:
    """Return the first of these headers that is there. Raises DeliveryInvalid if none is."""
    for name in names:
        value = headers.get(name.upper())
        if value is not None and _VALUE.fullmatch(value):
            return value
    raise DeliveryInvalid("delivery_event_missing", f"{names[0]}: expected this header, of at most 100 characters")


class AnyObject(RootModel[dict[str, object]]):
    """An object of a list, which is read on its own: an unreadable one hides no other."""


def if_open(found: AnyObject | None, state: str) -> list[AnyObject]:
    """Return what a host has of a pull request, if it is there and in the host's state for open ones."""
    return [] if found is None or found.root.get("state") != state else [found]


def moved(before: str, after: str) -> tuple[str | None, str | None]:
    """Return the old and new object of a head; None for one that is not there."""
    return (before if before.strip("0") else None, after if after.strip("0") else None)


def readable(model: type[Model], found: Iterable[object]) -> Iterator[Model]:
    """Yield those of a list that are of a model."""
    for each in found:
        try:
            yield model.model_validate(each)
        except ValidationError:
            continue


def label_names(found: object) -> tuple[str, ...]:
    """Return the names of labels, which hosts give as objects or as names; none of anything else."""
    listed = found if isinstance(found, list) else []
    names = [each.get("name") if isinstance(each, dict) else each for each in listed]
    return tuple(each for each in names if isinstance(each, str))


@immutable
class Claim:
    """The claim of a delivery, which is not proven yet; ``remote_id`` is the host's id of a repository."""

    event: str
    delivery_id: str
    remote_id: str | None


class WebhookSecrets:
    """The secrets that hosts sign the deliveries of repositories with. Safe in any thread.

    The secret of one repository says nothing of that of another. A repository that is connected anew has a new one.
    """

    def __init__(self, storage: Storage) -> None:
        self._key = storage.vault.derive(b"webhooks of repositories")

    def of(self, repository: Repository) -> str:
        """Return the secret of a repository."""
        return hmac.new(self._key, repository.uuid.encode(), hashlib.sha256).hexdigest()

    def received(self, claim: Claim, candidates: Iterable[Repository], proves: Callable[[str], bool]) -> Received:
        """Return a delivery with the one of the candidates whose secret it proves. Raises DeliveryUnsigned.

        Its id contains the repository's, so that no other repository can use the id up.
        """
        for each in candidates:
            if proves(self.of(each)):
                return Received(claim.event, f"{each.uuid}/{claim.delivery_id}", each)
        raise DeliveryUnsigned("this is not signed with the secret of a connected repository: connect it again")


def is_signed(signature: str, secret: str, body: bytes) -> bool:
    """Tell whether a header ``sha256=HEX`` is the signature of a body; compares in constant time."""
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode())
