"""The configuration section ``[ir]``, with its defaults."""

from __future__ import annotations

from storage import Shape, immutable, setting


@immutable
class IrSettings:
    """Section ``[ir]``: limits of one pipeline's IR. An IR that exceeds one is rejected (``invalid_ir``)."""

    max_bytes: int = setting(4 * 2**20, "The most bytes of the IR.", at_least=1)
    max_jobs: int = setting(1000, "The most jobs of the IR.", at_least=1)
    max_command_bytes: int = setting(256 * 2**10, "The most UTF-8 bytes of one command.", at_least=1)
    max_env_bytes: int = setting(
        64 * 2**10, "The most UTF-8 bytes of the names and values that one job gets from the IR.", at_least=1
    )
    default_shape: Shape = setting(Shape(), "The parts of a VM's size that a step's `runner_args` leave out.")
    max_shape: Shape = setting(Shape(16, 64, 200), "The most that a step's `runner_args` may ask for.")
