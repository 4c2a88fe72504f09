"""Until when certificates are valid, read from their PEM (RFC 7468; RFC 5280, section 4.1; DER is ITU-T X.690). For what the TLS
library has read already: Python's ssl tells no date of a certificate of one's own."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION: Final = 0xA0
"""The tag of the version, which certificates of version 1 leave out."""
_UTC_TIME: Final = 0x17
_BEFORE_VALIDITY: Final = 3
"""Serial number, algorithm and issuer."""
_LONG_FORM: Final = 0x80


def not_after(chain: bytes) -> datetime | None:
    """The last moment at which every certificate of a chain in PEM is valid; None where that cannot be read."""
    try:
        ends = [_not_after(base64.b64decode(match[1])) for match in _PEM.finditer(chain)]
    except (ValueError, IndexError, binascii.Error):
        return None
    return min(ends, default=None)


def _not_after(certificate: bytes) -> datetime:
    signed = _content(_content(certificate))
    tag, _, rest = _element(signed)
    if tag == _VERSION:
        signed = rest
    for _ in range(_BEFORE_VALIDITY):
        signed = _element(signed)[2]
    tag, text, _ = _element(_element(_content(signed))[2])
    words = text.decode("ascii")
    if tag == _UTC_TIME:
        words = ("19" if words[:2] >= "50" else "20") + words
    return datetime.strptime(words, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _content(data: bytes) -> bytes:
    return _element(data)[1]


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """(tag, content, what follows) of the first element."""
    size, at = data[1], 2
    if size >= _LONG_FORM:
        at += size - _LONG_FORM
        size = int.from_bytes(data[2:at], "big")
    return data[0], data[at : at + size], data[at + size :]
