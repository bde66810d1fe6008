"""Headers of deliveries. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.source_hosts.host import DeliveryInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_VALUE = re.compile(r"[ -~]{1,100}", re.ASCII)


def required(headers: Mapping[str, str], *names: str) -> str:
    """Return the first of these headers that is there. Raises DeliveryInvalid if none is."""
    for name in names:
        value = headers.get(name.upper())
        if value is not None and _VALUE.fullmatch(value):
            return value
    raise DeliveryInvalid("delivery_event_missing", f"{names[0]}: expected this header, of at most 100 characters")
