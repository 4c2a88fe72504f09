"""An object storage behind Amazon's S3 API, of whatever maker. The only module that imports obstore, and not before
somebody names ``s3://``.

The server and the credentials come from the variables that Amazon's tools take: ``AWS_ENDPOINT_URL``, ``AWS_REGION``,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_CA_BUNDLE``, and those of web identities,
containers and instances. They are checked before obstore gets them, because it panics in Rust on a URL, a key or a name
with an invalid character, and raises none of its errors.

Files are read without ranges: not every server that speaks S3 answers these as S3 does (rclone 1.75 answers 200 instead
of 206).

obstore gives a refusal as one text: a first line, S3's own words as XML
(docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html), and the error's parts as Rust prints them. Only short
pieces of it go into symd's errors: the words of S3 may quote the request.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from symd.config import MIB, Limits
from symd.errors import InvalidInput, StoreUnavailable
from symd.store.files import disk
from symd.store.shared.object_storage import check_size, checked_name
from symd.system.messages import os_error_text
from symd.system.private_files import open_to_write, read_credentials

if TYPE_CHECKING:
    from obstore.store import ClientConfig


T = TypeVar("T")
NO_KEY: Final = "NoSuchKey"
"""S3's word for: nothing has this name."""
_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")
_STATUS: Final = re.compile(r"status code: (\d{3})([ \w]{0,40})")
_SYSTEM: Final = re.compile(r'(?:message|error): "([^"\\]{1,200})"')
_NO_CREDENTIALS: Final = ("/latest/api/token", "/latest/meta-data", "no credential")
"""Who has no keys is taken for a machine of Amazon's, which is asked for some."""
_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN where the keys are temporary"
)
_SET_REGION: Final = "set AWS_REGION to the bucket's region"
_REACH: Final = "see that the server runs, and that AWS_ENDPOINT_URL names it"
_RIGHTS: Final = (
    "let these credentials list, read, write and delete below that prefix"
    " (s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject)"
)
_HINTS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": "renew AWS_SESSION_TOKEN and the keys",
    "InvalidToken": "renew AWS_SESSION_TOKEN and the keys",
    "AccessDenied": _RIGHTS,
    "RequestTimeTooSkewed": "set this machine's clock",
    "NoSuchBucket": "make the bucket, or name another with --store",
    "PermanentRedirect": _SET_REGION,
    "AuthorizationHeaderMalformed": _SET_REGION,
    "EntityTooLarge": "the server takes no files of this size",
    "QuotaExceeded": "the server's quota is used up",
    "SlowDown": "it has too many requests; try again later",
}
"""What to do, by the code that S3 gives."""


class S3Refusal(NamedTuple):
    """The error, and whether the same call may do at once: not after an answer that was meant."""

    error: StoreUnavailable
    again: bool


def s3_code(text: str) -> str:
    """The code in which S3 says what is wrong; "" where nothing came from an S3 server, or no words did."""
    found = _CODE.search(text)
    return found[1] if found else ""


def s3_refusal(text: str, where: str, seconds: float) -> S3Refusal:
    """The error for what obstore says about ``where``, a URL; ``seconds`` is how long an answer is waited for."""
    code, status = s3_code(text), _STATUS.search(text)
    if any(words in text for words in _NO_CREDENTIALS):
        return S3Refusal(_error("there are no credentials for the object storage", where, _CREDENTIALS), again=False)
    if status is not None:
        answer = f"{status[1]}{status[2]}".strip()
        words = f"the object storage refused: {code} ({answer})" if code else f"the object storage answered {answer}"
        hint = _HINTS.get(code, _CREDENTIALS if status[1] in ("401", "403") else _REACH)
        facts = {"http_status": status[1], **({"code": code} if code else {})}
        return S3Refusal(_error(words, where, hint, facts), again=status[1].startswith("5"))
    if "kind: Timeout" in text or "TimedOut" in text:
        silence = _error(f"the object storage said nothing for {seconds:g} s", where, _REACH)
        return S3Refusal(silence, again=True)
    if "InvalidCertificate" in text:
        hint = "name the file of who signed it with AWS_CA_BUNDLE"
        return S3Refusal(_error("the object storage's certificate is not trusted here", where, hint), again=False)
    unreachable = _error(f"the object storage cannot be reached: {_cause(text)}", where, _REACH)
    return S3Refusal(unreachable, again=True)


def cut_off(where: str, got: int, size: int) -> S3Refusal:
    """The error for a file that ended before its end: ``got`` bytes came of ``size``."""
    return S3Refusal(_error(f"the object storage sent {got} of {size} bytes", where, _REACH), again=True)


def too_slow(where: str, size: int, seconds: float) -> S3Refusal:
    """The error for a file of ``size`` bytes that took more than ``seconds``."""
    message = f"the object storage did not send {size} bytes within {seconds:g} s"
    return S3Refusal(_error(message, where, "storage_seconds may be raised where the daemon is started"), again=False)


def _cause(text: str) -> str:
    """What the operating system said, or the end of obstore's first line."""
    system = _SYSTEM.search(text)
    return (system[1] if system else text.partition("\n")[0].rpartition(" - ")[2][:200]).lower()


def _error(message: str, where: str, hint: str, facts: Mapping[str, str] | None = None) -> StoreUnavailable:
    return StoreUnavailable(message, where=where, hint=hint, metadata={"storage": where, **(facts or {})})


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
        raise InvalidInput(f"{bucket[:80]!r} is not the name of a bucket", hint="letters, digits, dots and dashes")
    if prefix and {"", ".", ".."} & set(prefix.split("/")):
        raise InvalidInput(
            f"{prefix[:80]!r} is not a prefix: a part of it is empty or made of dots", hint="write s3://BUCKET/PREFIX"
        )
    for name in _ENDPOINTS:
        value = os.environ.get(name, "")
        if value and not _is_server(value):
            hint = "write https://HOST or https://HOST:PORT, or http:// for a server without TLS"
            raise InvalidInput(f"{value[:80]!r} is not the URL of a server", where=name, hint=hint)
    for name in _REGIONS:
        value = os.environ.get(name, "")
        if not _REGION.fullmatch(value):
            raise InvalidInput(f"{value[:80]!r} is not a region", where=name, hint="write one such as us-east-1")
    for name in _KEYS:
        if not _VISIBLE.fullmatch(os.environ.get(name, "")):
            raise InvalidInput(
                "there is a blank, a line's end or another character that no key has", where=name, hint="set it anew"
            )


def endpoint() -> str:
    """The server's URL where one is named; "" is Amazon's."""
    return next((value for name in _ENDPOINTS if (value := os.environ.get(name, ""))), "").lower()


def authorities() -> bytes | None:
    """The certificates of who may have signed the server's, where a file of them is named. Raises ``InvalidInput`` for
    a file that has none."""
    path = os.environ.get(_AUTHORITIES, "")
    if not path:
        return None
    try:
        certificates, _ = read_credentials(path)
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {os_error_text(error)}", where=path, hint=_NAMED) from error
    if _CERTIFICATE not in certificates:
        raise InvalidInput("the file has no certificate in PEM", where=path, hint=_NAMED)
    return certificates


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_named = bool(parts.hostname) and port != 0 and not (parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and is_named and _VISIBLE.fullmatch(url) is not None


PART: Final = 5 * MIB
"""Bytes of one part of an upload; a smaller file is one request. S3 takes no smaller parts, and 10,000 of them."""
PARTS_AT_A_TIME: Final = 4
SLOWEST: Final = MIB
"""Bytes a second: a file gets a second for each so many, besides ``Limits.storage_seconds``."""
_REQUESTS: Final = 10
"""How often a single request is made again, at most."""
_PAUSE: Final = 0.1
"""Seconds before the second attempt, doubled each time."""
_MAX_PAUSE: Final = 2.0


class _RefusedError(Exception):
    """A refusal on its way to whoever may try again."""

    def __init__(self, refusal: S3Refusal) -> None:
        super().__init__(refusal.error.message)
        self.refusal = refusal


class S3Storage:
    """The objects of ``bucket`` whose keys begin with ``prefix`` and a slash. Nothing is asked before the first call.

    A call ends within ``Limits.storage_seconds`` and a second for each mebibyte of a file. A sixth of the seconds is
    for one answer; for half of them obstore makes a request again. What it does not, a file that was cut off, is begun
    once more where that is in the first third.
    """

    def __init__(self, bucket: str, prefix: str, limits: Limits) -> None:
        """Raises ``InvalidInput`` for settings with which no server can be asked."""
        check_settings(bucket, prefix)
        self._where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._seconds = limits.storage_seconds
        self._answer = limits.storage_seconds / 6
        largest = self._allowed(max(limits.module_size, limits.index_size))
        self._requests = _store(bucket, prefix, self._seconds, {"timeout": timedelta(seconds=self._answer)})
        """The client for small requests."""
        parts = self._answer + PARTS_AT_A_TIME * PART / SLOWEST
        self._parts = _store(bucket, prefix, self._seconds, {"timeout": timedelta(seconds=parts)})
        """The client for parts of a file, which share the bandwidth."""
        whole: ClientConfig = {
            "timeout": timedelta(seconds=largest),
            "read_timeout": timedelta(seconds=self._answer),
        }
        self._files = _store(bucket, prefix, self._seconds, whole)
        """The client for whole files, which may take as long as their size needs, and not stand still."""

    def check(self) -> None:
        """Ask for one name. Raises ``StoreUnavailable`` where the bucket is not there, or may not be used."""
        next(self.names(""), None)

    def put(self, name: str, path: Path) -> None:
        """``ObjectStorage.put``. A file of more than ``PART`` bytes goes in parts; S3 shows none of them before the
        last has come."""
        checked_name(name)
        with disk(path):
            in_parts = path.stat().st_size > PART
        self._tried(
            name,
            lambda: obstore.put(
                self._parts if in_parts else self._requests,
                name,
                path,
                use_multipart=in_parts,
                chunk_size=PART,
                max_concurrency=PARTS_AT_A_TIME,
            ),
        )

    def fetch(self, name: str, path: Path, most: int) -> bool:
        """``ObjectStorage.fetch``."""
        checked_name(name)
        begun = time.monotonic()
        return self._tried(name, lambda: self._read(name, path, most, begun)) is not None

    def size(self, name: str) -> int | None:
        """``ObjectStorage.size``. An answer to HEAD has no words: where it says 404, GET is asked as well, so that what
        another server says is not taken for S3's word."""
        checked_name(name)
        try:
            return self._tried(name, lambda: obstore.head(self._requests, name)["size"])
        except StoreUnavailable as error:
            if error.metadata.get("http_status") != "404":
                raise
        return self._tried(name, lambda: obstore.get(self._requests, name).meta["size"])

    def remove(self, name: str) -> None:
        """``ObjectStorage.remove``."""
        checked_name(name)
        self._tried(name, lambda: obstore.delete(self._requests, name))

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """``ObjectStorage.names``: a request for each thousand. A prefix should end with a slash: without one all names
        up to the last slash are listed, and most of them left out."""
        folder = prefix.rpartition("/")[0]
        pages = self._once(folder, lambda: iter(obstore.list(self._requests, folder or None)))
        while page := self._once(folder, lambda: next(pages or iter(()), None)):
            yield from ((each["path"], each["size"]) for each in page if each["path"].startswith(prefix))

    def _read(self, name: str, path: Path, most: int, begun: float) -> int:
        """One attempt to fetch a file; its bytes. The clock is looked at after each piece, so that a server that sends
        a byte now and then does not take forever."""
        found = obstore.get(self._files, name)
        size, got = found.meta["size"], 0
        check_size(self._of(name), size, most)
        with disk(path):
            target = open_to_write(path, buffering=0)
        with target:
            for piece in found.stream(min_chunk_size=1):
                with disk(path):
                    got += target.write(piece)
                if time.monotonic() - begun > self._allowed(size):
                    raise _RefusedError(too_slow(self._of(name), size, self._allowed(size)))
        if got != size:
            raise _RefusedError(cut_off(self._of(name), got, size))
        return size

    def _of(self, name: str) -> str:
        return f"{self._where}/{name}".rstrip("/")

    def _allowed(self, size: int) -> float:
        """Seconds that a file of so many bytes may take."""
        return self._seconds + size / SLOWEST

    def _tried(self, name: str, call: Callable[[], T]) -> T | None:
        """``_once``, and once more where that may help and there is time."""
        begun = time.monotonic()
        try:
            return self._asked(name, call)
        except _RefusedError as refused:
            if not refused.refusal.again or time.monotonic() - begun >= self._seconds / 3:
                raise refused.refusal.error from refused
        return self._once(name, call)

    def _once(self, name: str, call: Callable[[], T]) -> T | None:
        """What ``request`` gives; None where S3 says that nothing has the name. Raises ``StoreUnavailable``."""
        try:
            return self._asked(name, call)
        except _RefusedError as refused:
            raise refused.refusal.error from refused

    def _asked(self, name: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except (BaseError, FileNotFoundError) as error:
            if s3_code(str(error)) == NO_KEY:
                return None
            raise _RefusedError(s3_refusal(str(error), self._of(name), self._answer)) from error


def _store(bucket: str, prefix: str, seconds: float, client: ClientConfig) -> S3Store:
    """A client of the server that the environment names. For half of ``seconds`` a request is made again."""
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=seconds / 6),
        "allow_http": endpoint().startswith("http://"),
        "user_agent": "symd",
        **client,
    }
    certificates = authorities()
    if certificates is not None:
        options["root_certificate"] = certificates
    try:
        return _made(bucket, prefix, seconds, options)
    except (BaseError, ValueError) as error:
        said = " ".join(str(error).partition("\n")[0].split())[:200]
        raise InvalidInput(
            f"obstore refuses the settings: {said}", where=f"s3://{bucket}", hint="look at the AWS_* variables"
        ) from error


def _made(bucket: str, prefix: str, seconds: float, options: ClientConfig) -> S3Store:
    return S3Store(
        bucket,
        prefix=prefix or None,
        client_options=options,
        disable_bulk_delete=True,  # one name at a time, as every server takes it
        retry_config={
            "max_retries": _REQUESTS,
            "retry_timeout": timedelta(seconds=seconds / 2),
            "backoff": {
                "init_backoff": timedelta(seconds=_PAUSE),
                "max_backoff": timedelta(seconds=min(_MAX_PAUSE, seconds / 6)),
                "base": 2,
            },
        },
    )
