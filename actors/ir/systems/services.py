"""Services beside jobs of other systems as those of the language. Pure."""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.ir.systems.github_expressions import filled
from actors.ir.systems.github_image import IMAGE
from actors.ir.systems.jobs import NAME_IN_TEXT, label
from actors.ir.systems.omissions import LeftOut, UnknownExpression, only

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from actors.ir.systems.gitlab_variables import Variables
    from actors.ir.systems.located import Located
    from actors.ir.systems.model import Members
    from actors.ir.systems.omissions import Omissions
    from actors.ir.systems.substitution import Substitution

_HOST = re.compile(r"(?!(?:localhost|vm)$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PORTS = MappingProxyType(
    {"postgres": 5432, "postgis": 5432, "mysql": 3306, "mariadb": 3306, "redis": 6379, "valkey": 6379, "mongo": 27017}
    | {"rabbitmq": 5672, "memcached": 11211, "elasticsearch": 9200, "nginx": 80, "minio": 9000}
)
"""The ports of services by the names of their images, for which GitLab's runner waits."""

_OF_HEALTH = frozenset({"--health-interval", "--health-timeout", "--health-retries", "--health-start-period"})
_PORT = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})(?:/tcp)?")
_OF_GITHUB = frozenset({"image", "env", "ports", "options"})
_OF_GITLAB = frozenset({"name", "alias", "command", "variables", "pull_policy"})
_OF_STEPS = frozenset({"name", "image", "environment", "ports", "pull"})


def services_of_github(services: Located, key: str, cell: Mapping[str, str], of_job: Container[str]) -> Members:
    """Return the services of a job, whose variables ``of_job`` has. Raises LeftOut."""
    found = {}
    for name, given in services.mapping().items():
        place = f"{key}.services.{name}"
        only(given, _OF_GITHUB, place)
        texts = {each: value.number_or_text or "" for each, value in given.get("env").mapping().items()}
        secrets = [each for each, text in texts.items() if text.replace(" ", "") == f"${{{{secrets.{each}}}}}"]
        try:
            image = filled(given.get("image").text, cell)
            env = {each: filled(text, cell) for each, text in texts.items() if each not in secrets}
        except UnknownExpression as error:
            why = f"{error}: a service has plain values here, and secrets under their own names"
            raise LeftOut(given, place, why) from error
        _check_secrets(given, place, secrets, of_job)
        for each in given.get("ports").items():
            port = _PORT.fullmatch(each.scalar or "")
            if port is None or (port[1] is not None and port[1] != port[2]):
                why = "the job reaches a service at its own ports here: let both be the same"
                raise LeftOut(each, f"{place}.ports", why)
        ready = _health(given.get("options"), f"{place}.options")
        found[name] = _service(given, place, name, image, {"env": env, "secrets": secrets, "ready": ready})
    return found


def _check_secrets(given: Located, key: str, secrets: Sequence[str], of_job: Container[str]) -> None:
    """Raise LeftOut if the command, which has the secrets of services, too, has another value of one."""
    for each in secrets:
        if each in of_job:
            raise LeftOut(given, key, f"the job has another value of {each}, which is a secret of the service")


def _health(options: Located, key: str) -> str | None:
    """Return the command that passes when a service is ready; None without one. Raises LeftOut."""
    try:
        words = shlex.split(options.text or "")
    except ValueError as error:
        raise LeftOut(options, key, "its quotes do not end") from error
    ready = None
    ahead = iter(words)
    for each in ahead:
        name, sign, value = each.partition("=")
        value = value if sign else next(ahead, "")
        if name == "--health-cmd":
            ready = value
        elif name not in _OF_HEALTH:
            raise LeftOut(options, key, f"the option {label(name)} has no counterpart here")
    return ready


def services_of_gitlab(services: Located, key: str, variables: Variables, omissions: Omissions) -> Members:
    """Return the services of a job, which have its variables. Raises LeftOut."""
    found = {}
    for given in services.items():
        if given.mapping():
            only(given, _OF_GITLAB, f"{key}.services")
        name = given.get("name") if given.mapping() else given
        image = variables.image(name, f"{key}.services", name.text or "")
        if "dind" in image:
            why = "no service builds images here: a job with `containers: true` does, by `buildah` and `podman`"
            raise LeftOut(given, f"{key}.services", why)
        base = re.split(r"[:@]", image.partition("/")[2] if "." in image.partition("/")[0] else image)[0]
        host = given.get("alias").text or base.replace("/", "-")
        command = given.get("command").texts()
        if command is None:
            raise LeftOut(given, f"{key}.services", "its command is no list of texts")
        env = dict(variables.values)
        for each, value in given.get("variables").mapping().items():
            if value.scalar is None or "$" in value.scalar:
                raise LeftOut(value, f"{key}.services.{host}", "only plain values are known here")
            env[each] = value.scalar
        if variables.words:
            why = f"the service {label(host)} does not get {', '.join(variables.words)}, which only a build has"
            omissions.add(given, f"{key}.services", why)
        port = _port(image)
        found[host] = _service(
            given, f"{key}.services", host, image, {"env": env, "command": list(command), "ready": port}
        )
    return found


def services_of_steps(services: Located, key: str, texts: Substitution, of_job: Container[str]) -> Members:
    """Return the services of a step of Woodpecker or Drone. Raises LeftOut, and Unsayable."""
    pairs = services.mapping().items() or [(each.get("name").scalar or "", each) for each in services.items()]
    found = {}
    for name, given in pairs:
        place = f"{key}.{name}"
        only(given, _OF_STEPS, place)
        env, secrets = {}, []
        for each, value in given.get("environment").mapping().items():
            if value.get("from_secret").text == each:
                secrets.append(each)
            elif value.scalar is None:
                why = "a service has plain values here, and secrets under their own names"
                raise LeftOut(value, f"{place}.environment", why)
            else:
                env[each] = texts.plain(value.scalar)
        _check_secrets(given, place, secrets, of_job)
        if given.get("environment").value is not None and not given.get("environment").mapping():
            raise LeftOut(given, f"{place}.environment", "it is no mapping")
        image = texts.plain(given.get("image").text or "")
        members = {"env": env, "secrets": secrets, "ready": _port(image)}
        found[name] = _service(given, place, name, image, members)
    return found


def _port(image: str) -> int | None:
    return _PORTS.get(re.split(r"[:@]", image.rpartition("/")[2])[0])


def _service(given: Located, key: str, host: str, image: str, members: Mapping[str, Any]) -> dict[str, Any]:
    if not _HOST.fullmatch(host):
        raise LeftOut(given, key, f"{label(host) or 'no name'} is no name of a host: a-z, 0-9 and -")
    if not IMAGE.fullmatch(NAME_IN_TEXT.sub("x", image)):
        raise LeftOut(given, key, "it is not a plain name of an image")
    return {"image": image, **{name: value for name, value in members.items() if value}}
