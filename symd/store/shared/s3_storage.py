"""An object storage behind Amazon's S3 API, of whatever maker. The only module that imports obstore, and not before somebody names
``s3://``.

Where the server is, and who asks it, comes from the variables that Amazon's tools take: ``AWS_ENDPOINT_URL``, ``AWS_REGION``,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_CA_BUNDLE``, and those of web identities, containers and
instances.

Files are read without ranges: not every server that speaks S3 answers these as S3 does (rclone 1.75 answers 200 where 206 belongs)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from symd.config import MIB, Limits
from symd.errors import InvalidInput, StoreUnavailable
from symd.store.files import disk
from symd.store.shared.object_names import checked_name
from symd.store.shared.object_storage import check_size
from symd.store.shared.outage import Outage, Unanswered
from symd.store.shared.s3_refusals import NO_KEY, Refusal, cut_off, s3_code, s3_refusal, too_slow
from symd.store.shared.s3_settings import authorities, check_settings, endpoint
from symd.system.private_files import written

if TYPE_CHECKING:
    from obstore.store import ClientConfig

PART: Final = 5 * MIB
"""Bytes of one part of an upload; a smaller file is one request. S3 takes no smaller parts, and 10,000 of them."""
PARTS_AT_A_TIME: Final = 4
SLOWEST: Final = MIB
"""Bytes a second: a file gets a second for each so many, besides ``Limits.storage_seconds``."""
ATTEMPTS: Final = 4
"""How often a whole call is made, at most; each makes its single requests again by itself."""
_REQUESTS: Final = 10
"""How often a single request is made again, at most."""
_PAUSE: Final = 0.1
"""Seconds before the second attempt, doubled each time, and up to half as long again, so that clients do not come back together."""
_LONGEST_PAUSE: Final = 2.0

T = TypeVar("T")


class _RefusedError(Exception):
    """A refusal on its way to whoever may try again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error.message)
        self.refusal = refusal


class S3Storage:
    """The objects of ``bucket`` whose keys begin with ``prefix`` and a slash. Nothing is asked before the first call.

    A call ends within ``Limits.storage_seconds`` and a second for each mebibyte of a file. A sixth of the seconds is for one answer; for half of
    them a request is made again; in the first third a call that fails all the same begins anew.
    """

    def __init__(self, bucket: str, prefix: str, limits: Limits) -> None:
        """Raises ``InvalidInput`` for settings with which no server can be asked."""
        check_settings(bucket, prefix)
        self._where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._seconds = limits.storage_seconds
        self._answer = limits.storage_seconds / 6
        largest = self._allowed(max(limits.module_size, limits.index_size))
        self._outage = Outage()
        self._requests = _store(bucket, prefix, self._seconds, {"timeout": timedelta(seconds=self._answer)})
        """For what is small."""
        parts = self._answer + PARTS_AT_A_TIME * PART / SLOWEST
        self._parts = _store(bucket, prefix, self._seconds, {"timeout": timedelta(seconds=parts)})
        """For parts of a file, which share the way there."""
        whole: ClientConfig = {
            "timeout": timedelta(seconds=largest),
            "read_timeout": timedelta(seconds=self._answer),
        }
        self._files = _store(bucket, prefix, self._seconds, whole)
        """For whole files, which may take as long as their size needs, and not stand still."""

    def check(self) -> None:
        """Ask for one name. Raises ``StoreUnavailable`` where the bucket is not there, or may not be used."""
        next(self.names(""), None)

    def put(self, name: str, path: Path) -> None:
        """``ObjectStorage.put``. A file of more than ``PART`` bytes goes in parts; S3 shows none of them before the last has come."""
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
        """``ObjectStorage.size``. An answer to HEAD has no words: where it says 404, GET is asked as well, so that what another server
        says is not taken for S3's word."""
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
        """``ObjectStorage.names``: a request for each thousand. A prefix should end with a slash: without one all names up to the last
        slash are listed, and most of them left out."""
        folder = prefix.rpartition("/")[0]
        pages = self._once(folder, lambda: iter(obstore.list(self._requests, folder or None)))
        while page := self._once(folder, lambda: next(pages or iter(()), None)):
            yield from ((each["path"], each["size"]) for each in page if each["path"].startswith(prefix))

    def _read(self, name: str, path: Path, most: int, begun: float) -> int:
        """One attempt to fetch a file; its bytes. The clock is looked at after each piece, so that a server that sends a byte now and
        then does not take for ever."""
        found = obstore.get(self._files, name)
        size, got = found.meta["size"], 0
        check_size(self._of(name), size, most)
        with disk(path):
            target = written(path, buffering=0)
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
        """``_once``, and again where that may help and there is time; at once the last error where the server is known to be gone."""
        try:
            return self._outage.made(lambda: self._persisted(name, call))
        except Unanswered as unanswered:
            raise unanswered.error from unanswered

    def _persisted(self, name: str, call: Callable[[], T]) -> T | None:
        begun = time.monotonic()
        for attempt in range(ATTEMPTS):
            try:
                return self._asked(name, call)
            except _RefusedError as refused:
                late = time.monotonic() - begun >= self._seconds / 3
                if late or not refused.refusal.again or attempt + 1 == ATTEMPTS:
                    error = refused.refusal.error
                    raise (error if refused.refusal.answered else Unanswered(error)) from refused
            time.sleep(_PAUSE * 2**attempt * random.uniform(1, 1.5))  # noqa: S311 - no secret
        raise AssertionError

    def _once(self, name: str, call: Callable[[], T]) -> T | None:
        """What ``call`` gives; None where S3 says that nothing has the name. Raises ``StoreUnavailable``."""
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
                "max_backoff": timedelta(seconds=min(_LONGEST_PAUSE, seconds / 6)),
                "base": 2,
            },
        },
    )
