"""Identity providers: what each says of the person who signed in there."""

from __future__ import annotations
