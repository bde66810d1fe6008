"""All kinds of files in a state directory besides the database and the key."""

from __future__ import annotations

from storage.files.artifacts import ARTIFACT
from storage.files.logs import INDEX, LOG
from storage.files.sources import ARCHIVE, MANIFEST, PARTIAL, PARTIAL_MANIFEST

FILE_KINDS = (ARCHIVE, PARTIAL, MANIFEST, PARTIAL_MANIFEST, INDEX, LOG, ARTIFACT)
"""In the order in which a backup may copy them."""
