"""A kernel, its command line and its first root as one program of UEFI, made of systemd's stub."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADERS_AT = 0x3C
_SECTION = "<8sIIIIIIHHI"
_SECTION_BYTES = struct.calcsize(_SECTION)
_COFF_BYTES = 24
_PAGE = 4096
_DATA = 0x40000040
"""A section of initialized data that can be read."""


def boot_program(stub: bytes, sections: Mapping[str, bytes]) -> bytes:
    """Return the stub with these sections added, such as ``.cmdline``.

    Raises ValueError if it has no room for them.
    """
    program = bytearray(stub)
    (at,) = struct.unpack_from("<I", program, _HEADERS_AT)
    (count,) = struct.unpack_from("<H", program, at + 6)
    (optional_bytes,) = struct.unpack_from("<H", program, at + 20)
    optional = at + _COFF_BYTES
    (file_align,) = struct.unpack_from("<I", program, optional + 36)
    size_at = optional + 56
    image_bytes, header_bytes = struct.unpack_from("<II", program, size_at)
    entry = optional + optional_bytes + count * _SECTION_BYTES
    if program[:2] != b"MZ" or entry + len(sections) * _SECTION_BYTES > header_bytes:
        message = "the stub of systemd has no room for a kernel"
        raise ValueError(message)
    for name, content in sections.items():
        program += bytes(-len(program) % file_align)
        image_bytes += -image_bytes % _PAGE
        padded = len(content) + -len(content) % file_align
        fields = len(content), image_bytes, padded, len(program), 0, 0, 0, 0, _DATA
        struct.pack_into(_SECTION, program, entry, name.encode(), *fields)
        program += content.ljust(padded, b"\0")
        image_bytes += len(content)
        entry += _SECTION_BYTES
    struct.pack_into("<H", program, at + 6, count + len(sections))
    struct.pack_into("<I", program, size_at, image_bytes + -image_bytes % _PAGE)
    return bytes(program)
