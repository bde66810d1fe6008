"""Types of fields in the deliveries of hosts, whose content is a stranger's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, RootModel, StringConstraints, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


class AnyObject(RootModel[dict[str, object]]):
    """An object of a list, which is read on its own: one that cannot be read hides no other."""


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
