"""The configuration section of images."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the configuration's reader evaluates the annotations
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path  # noqa: TC003 - the configuration's reader evaluates the annotations

from storage import immutable, setting


@immutable
class ImageSettings:
    """Section ``[images]``: the folder of images, the image of a step, and pulls on demand.

    A tag is pulled once; ``ci-daemon image pull`` pulls it again. Any pipeline can use the logins of the service's user
    (``skopeo login``).
    """

    dir: Path | None = setting(
        None,
        "The folder of images, which several state directories may share; if not set, `images` in the state directory.",
        example="/var/lib/ci-daemon/images",
    )
    default: str | None = setting(
        None,
        "The image of steps that name none; if not set, `ci-daemon image default` chooses it.",
        example="debian:12",
    )
    map: Mapping[str, str] = setting(
        {}, 'The image to use for each name that pipelines use; `"default"` stands for the default image.'
    )
    on_demand: bool = setting(default=True, description="Pull a missing image when the first job asks for it.")
    registries: tuple[str, ...] = setting(
        (
            "docker.io",
            "ghcr.io",
            "quay.io",
            "gcr.io",
            "public.ecr.aws",
            "mcr.microsoft.com",
            "registry.gitlab.com",
            "registry.k8s.io",
            "registry.fedoraproject.org",
            "registry.access.redhat.com",
        ),
        "The only registries to pull from on demand: host names, with a port if it is not the usual one; short names of"
        " images are in docker.io.",
    )
    networks: tuple[str, ...] = setting(
        (),
        'The networks of this host\'s surroundings to which registries may redirect pulls, as in `"10.1.0.0/16"`; all'
        " other addresses must be public, or the registry's own.",
    )
    max_gb: float = setting(10.0, "The most GB of a pulled image.", above=0, at_most=10_000)
    timeout: float = setting(60.0, "The seconds after which a pull fails if the registry sends nothing.", above=0)
    unused_days: int = setting(
        30,
        "The days without use after which an image that was pulled for a job is removed; 0 is never.",
        at_least=0,
        at_most=36_500,
    )

    def __post_init__(self) -> None:
        for each in self.registries:
            if "/" in each or not each or each != each.lower():
                raise ValueError(f'registries: "{each}" is no host name in lower case: write one like ghcr.io')
        try:
            _ = self.allowed_networks
        except ValueError as error:
            raise ValueError(f'networks must be networks such as "10.1.0.0/16": {error}') from None

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks to which registries may redirect although they are not public."""
        return tuple(ip_network(each) for each in self.networks)

    @property
    def max_bytes(self) -> int:
        """The value of ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)
