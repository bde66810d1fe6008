"""The resource of each path, found in a tree of paths that is compiled once in a process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from falcon.routing import CompiledRouter, map_http_methods, set_default_responders

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon
    from falcon._typing import MethodDict


@dataclass(frozen=True)
class _Route:
    """A resource and its responders, which are looked up at the first request."""

    resource: object
    suffix: str | None

    @cached_property
    def responders(self) -> MethodDict:
        """The responder to each method; to those that the resource lacks, a refusal."""
        responders = map_http_methods(self.resource, suffix=self.suffix)
        set_default_responders(responders)
        return responders


class Router(CompiledRouter):
    """The routes of one app.

    Falcon's router compiles them anew for each app, which takes longer than everything else in making one. A path
    without fields is found without the tree: a service that has just started answers sooner that it is well.

    ``pages`` makes a router of paths that are looked up after the others, when the first of them is asked for. Only
    requests for them wait for it.
    """

    def __init__(self, pages: Callable[[], Router] | None = None) -> None:
        super().__init__()
        self._make_pages = pages
        self._pages: Router | None = None
        self._making_pages = threading.Lock()
        self._routes: dict[str, _Route] = {}
        self._without_fields: dict[str, _Route] = {}

    def add_route(self, uri_template: str, resource: object, **options: str) -> None:
        """Route a path to a resource: to its responders that end in ``suffix``, if one is given."""
        route = _Route(resource, options.get("suffix"))
        self._routes[uri_template] = route
        if "{" not in uri_template:
            self._without_fields[uri_template] = route
        self.__dict__.pop("_tree", None)

    @cached_property
    def _tree(self) -> CompiledRouter:
        return _compiled(tuple(self._routes))

    def find(
        self, uri: str, req: falcon.Request | None = None
    ) -> tuple[object, MethodDict, dict[str, Any], str | None] | None:
        """Return the resource of a path, its responders, and the values and the template of the path."""
        if (known := self._without_fields.get(uri)) is not None:
            return known.resource, known.responders, {}, uri
        match self._tree.find(uri, req):
            case _, _, values, str(template):
                route = self._routes[template]
                return route.resource, route.responders, values, template
            case _:
                pages = self._router_of_pages()
                return None if pages is None else pages.find(uri, req)

    def _router_of_pages(self) -> Router | None:
        with self._making_pages:
            if self._pages is None and self._make_pages is not None:
                self._pages = self._make_pages()
            return self._pages


@lru_cache(maxsize=4)
def _compiled(templates: tuple[str, ...]) -> CompiledRouter:
    """Return a tree that finds templates; those of all apps are the same."""
    tree = CompiledRouter()
    for template in templates:
        tree.add_route(template, template)
    return tree
