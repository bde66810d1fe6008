"""Images: root trees that VMs start from, unpacked once and never changed (engine.md, "Images").

The store is imported on first use, because most commands only read its settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.images.debian import RELEASES
    from actors.vms.images.image import (
        Image,
        ImageError,
        ImageTooLarge,
        InsufficientDisk,
        Reference,
        check_name,
        is_name,
        login_of,
        private_name,
        public_name,
        registry_of,
    )
    from actors.vms.images.registry import PullOptions
    from actors.vms.images.selection import STANDARD, Images, resolve
    from actors.vms.images.store import ImageStore
else:
    __getattr__ = on_first_use(__name__)
