"""Immutable data classes that cost an import little.

`dataclass` compiles six methods for each class as it is made. For a few hundred classes that is a third of the time of
an import, and imports are most of the time from a command to its first line.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import Field

T = TypeVar("T")

_HIDDEN = {"hidden": True}


def hidden() -> Any:  # noqa: ANN401 - as `field`
    """Declare a field that stays inside the service (`storage.documents`)."""
    return field(metadata=_HIDDEN)


def shown_as(name: str) -> Any:  # noqa: ANN401 - as `field`
    """Declare a field that is shown by another name (`storage.documents`)."""
    return field(metadata={"shown_as": name})


def example(value: object, about: str | None = None) -> Any:  # noqa: ANN401 - as `field`
    """Declare an example of a field for the document of the API, and a sentence ``about`` it."""
    return field(metadata={"example": value, "about": about})


@dataclass_transform(frozen_default=True, field_specifiers=(field, hidden, shown_as, example))
def immutable(cls: type[T]) -> type[T]:
    """Make of a class what ``dataclass(frozen=True, slots=True)`` makes of it, in a tenth of the time.

    Only `__init__` is compiled, and that for the first instance. Raises TypeError if a field's ``init``, ``hash`` or
    ``kw_only`` is set.
    """
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name, method in _methods(made).items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _methods(cls: type) -> dict[str, Callable[..., object]]:
    """Return the methods of a class whose fields are declared, by their names."""
    declared = fields(cls)
    if any(not each.init or each.hash is not None or each.kw_only for each in declared):
        raise TypeError(f"{cls.__qualname__} has a field with init, hash or kw_only: make it by `dataclass`")
    values = _getter([each.name for each in declared])
    compared = _getter([each.name for each in declared if each.compare])
    shown = [each.name for each in declared if each.repr]

    def init(instance: object, *args: object, **kwargs: object) -> None:
        compiled = _compiled_init(declared, post_init=hasattr(cls, "__post_init__"))
        compiled.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = compiled  # type: ignore[misc]  # the next instance does not come here
        compiled(instance, *args, **kwargs)

    def equals(instance: object, other: object) -> bool:
        return compared(instance) == compared(other) if instance.__class__ is other.__class__ else NotImplemented

    def represent(instance: object) -> str:
        return (
            f"{instance.__class__.__qualname__}({', '.join(f'{name}={getattr(instance, name)!r}' for name in shown)})"
        )

    return {
        "__init__": init,
        "__eq__": equals,
        "__hash__": lambda instance: hash(compared(instance)),
        "__repr__": represent,
        "__reduce__": lambda instance: (instance.__class__, values(instance)),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
    }


def _getter(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that returns these attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _refuse(_instance: object, name: str, *_value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _compiled_init(declared: Sequence[Field[Any]], *, post_init: bool) -> Callable[..., None]:
    """Return the `__init__` of a class; the names that it uses are none that a field has."""
    names: dict[str, Any] = {"__put": object.__setattr__, "__missing": MISSING}
    parameters, lines = ["__self"], []
    for number, each in enumerate(declared):
        parameter, value, default = each.name, each.name, f"__default{number}"
        if each.default is not MISSING:
            names[default] = each.default
            parameter += f"={default}"
        elif each.default_factory is not MISSING:
            names[default] = each.default_factory
            parameter += "=__missing"
            value = f"{default}() if {value} is __missing else {value}"
        parameters.append(parameter)
        lines.append(f"    __put(__self, {each.name!r}, {value})")
    lines.append("    __self.__post_init__()" if post_init else "    return")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), names)  # noqa: S102 - as `dataclass` does
    init: Callable[..., None] = names["__init__"]
    return init
