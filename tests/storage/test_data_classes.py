from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from storage import immutable
from storage.data_classes import field_types

if TYPE_CHECKING:
    from collections.abc import Callable


@immutable
class Made:
    """A class with fields of all kinds."""

    name: str
    numbers: tuple[int, ...] = ()
    found: dict[str, int] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    noted: int = field(default=0, compare=False, metadata={"unit": "s"})

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")

    @property
    def upper(self) -> str:
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class Expected:
    """The same class, as the standard library makes it."""

    name: str
    numbers: tuple[int, ...] = ()
    found: dict[str, int] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    noted: int = field(default=0, compare=False, metadata={"unit": "s"})

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")

    @property
    def upper(self) -> str:
        return self.name.upper()


@immutable
class Below(Made):
    """A class with the fields of another, and one more."""

    more: int = 1


@immutable
class Empty:
    """A class without fields."""


@immutable
class Single:
    """A class with one field, whose name the compiled code could use."""

    put: object


@pytest.mark.parametrize(
    "use",
    [
        lambda made: repr(made("a", (1,), {"b": 2}, "hidden", 3)).partition("(")[2],
        lambda made: asdict(made("a", (1,))),
        lambda made: [(each.name, each.default, each.repr, each.compare, each.metadata) for each in fields(made)],
        lambda made: made.__match_args__,
        lambda made: made.__slots__,
        lambda made: made.__doc__ is None,
        lambda made: made("a") == made("a"),
        lambda made: made("a", noted=1) == made("a", noted=2),
        lambda made: made("a", secret="b") == made("a", secret="c"),
        lambda made: made("a") == "a",
        lambda made: asdict(replace(made("a", (1,)), name="b")),
        lambda made: made("a").upper,
        lambda made: made("a").found is made("a").found,
        lambda made: hasattr(made("a"), "__dict__"),
        lambda made: asdict(copy.deepcopy(made("a", (1,), {"b": 2}))),
        lambda made: asdict(pickle.loads(pickle.dumps(made("a", secret="b")))),
    ],
)
def test_a_class_does_as_a_frozen_data_class(use: Callable[[Any], object]):
    assert use(Made) == use(Expected)


@pytest.mark.parametrize(
    "use",
    [
        lambda made: made(),
        lambda made: made("a", other=1),
        lambda made: made("a", (), {}, "", 0, 1),
        lambda made: made("a", name="b"),
        lambda made: made(""),
        lambda made: hash(made("a")),
        lambda made: setattr(made("a"), "name", "b"),
        lambda made: delattr(made("a"), "name"),
    ],
)
def test_a_class_refuses_what_a_frozen_data_class_does(use: Callable[[Any], object]):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - which one is the question
        use(Expected)
    with pytest.raises(expected.type):
        use(Made)


def test_an_attribute_that_is_no_field_cannot_be_set():
    with pytest.raises(FrozenInstanceError, match="other"):
        Made("a").other = 1  # type: ignore[attr-defined]


def test_wrong_arguments_are_named_with_the_class():
    with pytest.raises(TypeError, match=r"Made\.__init__\(\) missing 1 required positional argument: 'name'"):
        Made()  # type: ignore[call-arg]


def test_equal_instances_have_one_hash():
    assert len({Single(1), Single(1), Single(2), Empty(), Empty()}) == 3


def test_a_failed_first_instance_does_not_harm_the_next():
    @immutable
    class Tried:
        """Made in vain first."""

        value: int

    with pytest.raises(TypeError):
        Tried()  # type: ignore[call-arg]
    assert Tried(1).value == 1


def test_a_subclass_has_the_fields_of_both():
    below = Below("a", more=2)
    assert (below.name, below.more) == ("a", 2)
    assert below != Made("a")
    with pytest.raises(ValueError, match="no name"):
        Below("")
    with pytest.raises(FrozenInstanceError):
        below.name = "b"  # type: ignore[misc]


def test_a_field_may_have_any_name():
    assert Single(put=1).put == 1


def test_a_method_of_the_class_itself_stays():
    @immutable
    class Said:
        """A class with a text of its own."""

        name: str

        def __repr__(self) -> str:
            return "its own"

    assert repr(Said("a")) == "its own"


def test_a_class_that_has_one_instance_compiles_nothing():
    @immutable
    class Once:
        """A class with a default, one that is made, and a check."""

        value: int
        more: int = 2
        found: list[int] = field(default_factory=list)
        seen: bool = field(default=True, repr=False)

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("too little")

    own = Once.__init__
    assert repr(Once(1, seen=False)).endswith("Once(value=1, more=2, found=[])")
    assert Once.__init__ is own
    assert Once(3, 4).found is not Once(3, 4).found
    compiled = Once.__init__
    assert compiled is not own
    with pytest.raises(ValueError, match="too little"):
        Once(-1)
    assert Once.__init__ is compiled


@pytest.mark.parametrize("use", [lambda made: made(), lambda made: made(1, 2, 3), lambda made: made(1, value=1)])
@pytest.mark.parametrize("wrong", [lambda made: made(1, other=1), lambda made: made(more=1, other=1)])
def test_the_first_instance_takes_no_wrong_arguments(use: Callable[[Any], object], wrong: Callable[[Any], object]):
    for each in (use, wrong):

        @immutable
        class Tried:
            """Made in vain."""

            value: int
            more: int = 2

        with pytest.raises(TypeError, match=r"Tried\.__init__\(\)"):
            each(Tried)


def test_a_field_without_a_default_replaces_one_with_it():
    @immutable
    class Strict(Single):
        """A class that declares a field again."""

        put: int
        more: int = 1

    @immutable
    class Stricter(Strict):
        """One more, without the default."""

        more: int

    assert [each.name for each in fields(Stricter)] == ["put", "more"]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="more"):
        Stricter(1)  # type: ignore[call-arg]
    assert field_types(Stricter) == {"put": "int", "more": "int"}


def test_fields_are_found_out_when_they_are_asked_for():
    @immutable
    class Unasked:
        """A class that nobody asks."""

        value: int = 1

    assert not isinstance(vars(Unasked)["__dataclass_fields__"], dict)
    assert [each.default for each in fields(Unasked)] == [1]  # type: ignore[arg-type]
    assert isinstance(vars(Unasked)["__dataclass_fields__"], dict)


def test_a_variable_of_the_class_is_refused():
    @immutable
    class Shared:
        """A class whose fields are not all of its instances."""

        limit: ClassVar[int] = 1

    with pytest.raises(TypeError, match="Shared has an annotation that is no field"):
        fields(Shared)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"init": False, "default": 1}, {"hash": False}, {"kw_only": True}])
def test_an_option_that_it_lacks_is_refused(option: dict[str, Any]):
    with pytest.raises(TypeError, match="has a field with init, hash or kw_only"):

        @immutable
        class Wrong:
            """A class that is not made."""

            value: int = field(**option)
