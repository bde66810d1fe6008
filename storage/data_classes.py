"""Immutable data classes that cost an import little.

`dataclass` compiles six methods for each class as it is made, and looks at each field. For a few hundred classes that
is a third of the time of an import, and imports are most of the time from a command to its first line.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def described(
    about: str,
    *,
    default: Any = MISSING,  # noqa: ANN401 - of any field
    word: str | None = None,
    choices: Sequence[str] = (),
    bounds: tuple[int, int] | None = None,
) -> Any:  # noqa: ANN401 - as `field`
    """Declare a field of a body with a sentence ``about`` it, for the API's document and commands.

    ``word`` stands for its value in the help, ``choices`` are the only values, ``bounds`` the least and the greatest.
    """
    return field(default=default, metadata={"about": about, "word": word, "choices": choices, "bounds": bounds})


@dataclass_transform(frozen_default=True, field_specifiers=(field, hidden, shown_as, example, described))
def immutable(cls: type[T]) -> type[T]:
    """Make of a class what ``dataclass(frozen=True, slots=True)`` makes of it, in a twentieth of the time.

    Its fields are found out when something first asks for them, and `__init__` is compiled for the second instance.
    Raises TypeError if a field's ``init``, ``hash`` or ``kw_only`` is set.
    """
    own, body, inherited = cls.__annotations__, dict(cls.__dict__), _inherited(cls)
    defaults = {name: body.pop(name) for name in own if name in body}
    special = {name: each for name, each in defaults.items() if isinstance(each, Field)}
    if any(not each.init or each.hash is not None or each.kw_only is True for each in special.values()):
        raise TypeError(f"{cls.__qualname__} has a field with init, hash or kw_only: make it by `dataclass`")
    new = tuple(name for name in own if name not in inherited)
    names = (*inherited, *new)
    above = {name: each for name, each in inherited.items() if name not in own}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    kind: Any = type(cls)
    made: type[T] = kind(
        cls.__name__,
        cls.__bases__,
        {
            **_methods(names, {**above, **special}),
            **body,
            "__qualname__": cls.__qualname__,
            "__slots__": new,
            "__match_args__": names,
            "__dataclass_fields__": _Fields(defaults),
        },
    )
    if "__init__" not in body:
        made.__init__ = _first_init(made, names, {**above, **defaults})  # type: ignore[method-assign]
    return made


def field_types(cls: type) -> dict[str, str]:
    """Return the types of a data class's fields as they are written, in order; `fields` costs more."""
    found: dict[str, str] = {}
    for each in cls.__mro__[-2::-1]:
        found |= each.__annotations__
    return found


class _Fields:
    """The fields of a class, which `dataclass` finds out when something first asks for them."""

    def __init__(self, defaults: dict[str, object]) -> None:
        self._defaults = defaults

    def __set_name__(self, owner: type, _name: str) -> None:
        self._owner: Any = owner

    def __get__(self, _instance: object, _cls: type) -> dict[str, Field[Any]]:
        owner = self._owner
        own: Mapping[str, str] = owner.__annotations__
        body = {"__annotations__": own, "__module__": owner.__module__, **self._defaults}
        body["__doc__"] = owner.__doc__ or owner.__name__  # without one, `dataclass` writes one
        bare: Any = dataclass(init=False, repr=False, eq=False)(type(owner.__name__, (), body))
        if len(fields(bare)) != len(own):
            raise TypeError(f"{owner.__qualname__} has an annotation that is no field: make it by `dataclass`")
        owner.__dataclass_params__ = bare.__dataclass_params__
        found: dict[str, Field[Any]] = {**_inherited(owner), **bare.__dataclass_fields__}
        owner.__dataclass_fields__ = found
        return found


def _inherited(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of the classes above a class, by their names."""
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-2:0:-1]:
        found |= getattr(base, "__dataclass_fields__", {})
    return found


def _methods(names: Sequence[str], special: Mapping[str, Field[Any]]) -> dict[str, Callable[..., object]]:
    """Return the methods of a class with these fields; ``special`` are those that say more than a default."""
    values = compared = _getter(names)
    shown = names
    if special:
        compared = _getter([name for name in names if name not in special or special[name].compare])
        shown = [name for name in names if name not in special or special[name].repr]

    def equals(instance: object, other: object) -> bool:
        return compared(instance) == compared(other) if instance.__class__ is other.__class__ else NotImplemented

    def represent(instance: object) -> str:
        return (
            f"{instance.__class__.__qualname__}({', '.join(f'{name}={getattr(instance, name)!r}' for name in shown)})"
        )

    return {
        "__eq__": equals,
        "__hash__": lambda instance: hash(compared(instance)),
        "__repr__": represent,
        "__reduce__": lambda instance: (instance.__class__, values(instance)),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
    }


def _first_init(cls: Any, names: Sequence[str], declared: Mapping[str, object]) -> Callable[..., None]:  # noqa: ANN401 - any class
    """Return the `__init__` of a class that nobody uses yet.

    It makes one instance, for most classes have no other, and compiles the `__init__` of the second one. That is also
    for wrong arguments, which it names.
    """
    unused = True

    def init(instance: Any, *args: object, **kwargs: object) -> None:  # noqa: ANN401 - of this class
        nonlocal unused
        if unused:
            unused = False
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            values = {**{name: _default(each) for name, each in declared.items() if name not in given}, **given}
            distinct = len(given) == len(args) + len(kwargs)
            if distinct and values.keys() == set(names) and all(each is not MISSING for each in values.values()):
                for name in names:
                    object.__setattr__(instance, name, values[name])
                if hasattr(cls, "__post_init__"):
                    instance.__post_init__()
                return
        compiled = _compiled_init(fields(cls), post_init=hasattr(cls, "__post_init__"))
        compiled.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = compiled
        compiled(instance, *args, **kwargs)

    return init


def _default(declared: Any) -> object:  # noqa: ANN401 - what stands behind any field
    """Return the default that a field declares, MISSING if there is none."""
    if not isinstance(declared, Field):
        return declared
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


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
