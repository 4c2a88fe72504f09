"""Files of credentials that an operator or a user names: access files, tokens, certificates, keys. A path may lead to
anything; to open a FIFO would wait forever, and a device has no end."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Final

LARGEST: Final = 16 << 20
"""Bytes. An access file of this size has more than a hundred thousand lines."""
CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:\w+ )?CERTIFICATE-----")
"""How a certificate in PEM begins."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (?:\w+ )?PRIVATE KEY-----")
_DER: Final = b"\x30"
"""How a certificate and a key in DER begin (ITU-T X.690: a sequence)."""
_READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_credentials(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """The content of a regular file, and whose it is. Raises OSError, with a text in ``strerror``, for anything else
    and for a file of more than ``LARGEST`` bytes."""
    descriptor = os.open(path, _READING)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - of a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB, and no file of credentials is", str(path))
    return data, status


def no_certificate(data: bytes) -> str:
    """Why the content of a file is no certificate in PEM; "" where it has one."""
    return _lacks(data, CERTIFICATE, "certificate", _PRIVATE_KEY, "private key")


def no_private_key(data: bytes) -> str:
    """Why the content of a file is no private key in PEM; "" where it has one."""
    return _lacks(data, _PRIVATE_KEY, "private key", CERTIFICATE, "certificate")


def _lacks(data: bytes, wanted: re.Pattern[bytes], name: str, other: re.Pattern[bytes], other_name: str) -> str:
    if wanted.search(data):
        return ""
    if other.search(data):
        return f"this is a {other_name} and no {name}"
    return f"no {name} in PEM stands there{_instead(data)}"


def _instead(data: bytes) -> str:
    if not data.strip():
        return ": it is empty"
    return ": it may be DER, of which openssl x509 or openssl pkey -inform DER makes PEM" if data[:1] == _DER else ""


def no_password() -> str:
    """What ``SSLContext.load_cert_chain`` is given, which otherwise asks at the terminal. Raises ValueError."""
    raise ValueError("the key has a password")
