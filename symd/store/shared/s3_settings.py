"""What says which S3 server is asked, and as whom: the bucket, the prefix, and the variables that Amazon's tools take.

They are looked at before obstore gets them: of a URL, a key or a name with a character that does not belong there it makes a panic in Rust, and
none of its errors."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import urlsplit

from symd.errors import InvalidInput
from symd.system.credential_files import read_credentials
from symd.system.os_errors import system_reason

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AUTHORITIES: Final = "AWS_CA_BUNDLE"
_NAMED: Final = f"${_AUTHORITIES} names it: the file of those whom the object storage's certificate is trusted by"
_VISIBLE: Final = re.compile(r"[!-~]*")
"""ASCII without blanks, line ends and other controls."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REGION: Final = re.compile(r"[A-Za-z0-9-]*")
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


def check_settings(bucket: str, prefix: str) -> None:
    """Raises ``InvalidInput`` for what no server can be asked with. No key is repeated."""
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{bucket[:80]!r} is no name of a bucket", hint="letters, digits, dots and dashes")
    if prefix and {"", ".", ".."} & set(prefix.split("/")):
        raise InvalidInput(
            f"{prefix[:80]!r} is no prefix: a part of it is empty or made of dots", hint="write s3://BUCKET/PREFIX"
        )
    for name in _ENDPOINTS:
        value = os.environ.get(name, "")
        if value and not _is_server(value):
            hint = "write https://HOST or https://HOST:PORT, or http:// for a server without TLS"
            raise InvalidInput(f"{value[:80]!r} is no URL of a server", where=name, hint=hint)
    for name in _REGIONS:
        value = os.environ.get(name, "")
        if not _REGION.fullmatch(value):
            raise InvalidInput(f"{value[:80]!r} is no region", where=name, hint="write one such as us-east-1")
    for name in _KEYS:
        if not _VISIBLE.fullmatch(os.environ.get(name, "")):
            raise InvalidInput(
                "there is a blank, a line's end or another character that no key has", where=name, hint="set it anew"
            )


def endpoint() -> str:
    """The server's URL where one is named; "" is Amazon's."""
    return next((value for name in _ENDPOINTS if (value := os.environ.get(name, ""))), "").lower()


def authorities() -> bytes | None:
    """The certificates of who may have signed the server's, where a file of them is named. Raises ``InvalidInput`` for a file that has none."""
    path = os.environ.get(_AUTHORITIES, "")
    if not path:
        return None
    try:
        certificates, _ = read_credentials(path)
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {system_reason(error)}", where=path, hint=_NAMED) from error
    if _CERTIFICATE not in certificates:
        raise InvalidInput("no certificate in PEM stands there", where=path, hint=_NAMED)
    return certificates


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_named = bool(parts.hostname) and port != 0 and not (parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and is_named and _VISIBLE.fullmatch(url) is not None
