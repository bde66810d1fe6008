"""The objects that an object holds, whatever their names, for tests of what is remembered."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType


def reached(root: object) -> Iterator[object]:
    """Yield an object and all that can be reached from it, but for code."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        one = waiting.pop()
        yield one
        for each in gc.get_referents(one):
            if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType | MethodType):
                seen.add(id(each))
                waiting.append(each)
