"""The configuration section ``[render]``, with its defaults."""

from __future__ import annotations

from storage import Shape, immutable, setting

_DAY = 86_400


@immutable
class RenderSettings:
    """Section ``[render]``: rendering of builds that bring source and no ``pipeline_ir``.

    Each is rendered in a VM of the default image, beside the VMs of jobs.
    """

    vms: int = setting(
        3, "The most builds that are rendered at once; one organization has all but one of them.", at_least=1
    )
    fetch_timeout: float = setting(120.0, "The most seconds to fetch the source.", above=0, at_most=_DAY, live=True)
    timeout: float = setting(120.0, "The most seconds to load the pipeline files.", above=0, at_most=_DAY, live=True)
    max_source_mb: int = setting(512, "The most MB of a source that is fetched from a URL.", at_least=1, live=True)
    cpu: int = setting(1, "The vCPUs of each VM.", at_least=1, live=True)
    memory_gb: int = setting(2, "The GB of memory of each VM.", at_least=1, live=True)
    disk_gb: int = setting(10, "The GB of disk of each VM.", at_least=1, live=True)
    cache_seconds: int = setting(
        3600,
        "The seconds that the render of an archive is cached; with 0 every build is rendered.",
        at_least=0,
        at_most=30 * _DAY,
        live=True,
    )
    register: bool = setting(
        default=True, description="Let a build by repository create the pipeline that its archive declares.", live=True
    )

    @property
    def vms_of_one(self) -> int:
        """The most renders of one organization at once, so that another's never waits for those of one alone."""
        return max(1, self.vms - 1)

    @property
    def shape(self) -> Shape:
        """The shape of each VM."""
        return Shape(self.cpu, self.memory_gb, self.disk_gb)
