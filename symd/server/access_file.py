"""The access file: one line for each client, with its name, its rights and its credential.

    # name    rights           credential
    profiler  read,write       sha256:2c26b46b68ff...
    nightly   read             sha256:fcde2b2edba5... expires=2027-02-20T09:00:00Z
    ci        read,write,admin certificate

``sha256:`` is the digest (64 hexadecimal digits) of a bearer token; the token itself is stored nowhere. A token has 256
random bits, so a plain digest protects it as well as a slow one would. ``certificate`` means that the name is that of a
TLS client certificate. A name may have several lines, for instance while one token replaces another. ``expires=`` is
the time from which a line no longer counts.

The file is changed by one writer at a time and replaced as a whole, so that a daemon which reads it meanwhile sees all
of a change or nothing. Nobody but its owner can read it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput, NotFound, StoreUnavailable, Unauthenticated
from symd.model.identities import is_digest
from symd.server.config import NO_RIGHTS, Rights, parse_rights, rights_text
from symd.server.watched_files import read_private
from symd.system.messages import os_error_text
from symd.system.private_files import FILE_MODE, new_file, private_lock
from symd.system.symlinks import resolved

_OTHERS: Final = 0o077
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SHA256: Final = "sha256:"
_CERTIFICATE: Final = "certificate"
EXPIRES: Final = "expires="
_TOKEN_BYTES: Final = 32
_PREFIX: Final = "symd_"
"""How a token begins, so that people and programs that look for secrets recognize one."""


@dataclass(frozen=True, slots=True)
class AccessLine:
    """One line: ``digest`` is the SHA-256 of a token, None for a certificate's line. ``expires`` is in UTC; None:
    never."""

    name: str
    rights: Rights
    digest: bytes | None
    expires: datetime | None

    @property
    def has_expired(self) -> bool:
        return self.expires is not None and self.expires <= datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Access:
    """The lines of an access file."""

    lines: tuple[AccessLine, ...]

    def of_token(self, token: bytes) -> tuple[str, Rights] | None:
        """The name and the rights of whoever has the token; None for a token that nobody has. Raises Unauthenticated
        for one that has expired.

        Takes the same time whichever token it is: each one is compared, and compared whole.
        """
        digest = hashlib.sha256(token).digest()
        found = None
        for each in self.lines:
            if each.digest is not None and hmac.compare_digest(each.digest, digest):
                found = each
        if found is None:
            return None
        if found.has_expired:
            raise Unauthenticated(
                f"this token of {found.name} expired at {time_text(found.expires)}",
                hint="ask the operator for another one",
            )
        return found.name, found.rights

    def of_certificate(self, name: str) -> Rights:
        """The rights of whoever has a certificate with this name."""
        rights = (
            each.rights for each in self.lines if each.digest is None and each.name == name and not each.has_expired
        )
        return next(rights, NO_RIGHTS)


def read_access(path: Path) -> Access:
    """The access file at ``path``. Raises FailedPrecondition where others may read or write it, InvalidInput for a line
    that is none, each with what to do."""
    return parse_access(read_text(path), path)


def read_text(path: Path) -> str:
    """The text of an access file. Raises as ``read_access``."""
    try:
        return read_private(path, _OTHERS, missing=f"`symd token NAME --access {quote(str(path))}` makes one").decode()
    except UnicodeDecodeError:
        raise InvalidInput("it is not UTF-8 text", where=str(path)) from None


def parse_access(text: str, path: Path) -> Access:
    """What the text of the access file at ``path`` says. Raises InvalidInput."""
    lines: list[AccessLine] = []
    certificates: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        parsed = _parsed(words, where)
        if parsed.digest is None and parsed.name in certificates:
            raise InvalidInput(
                f"{parsed.name!r} has a line of a certificate already", where=where, hint="leave one of them"
            )
        if parsed.digest is None:
            certificates.add(parsed.name)
        lines.append(parsed)
    digests = [parsed.digest for parsed in lines if parsed.digest is not None]
    if len(set(digests)) < len(digests):
        raise InvalidInput("two lines have the same token", where=str(path), hint="make another one with `symd token`")
    return Access(tuple(lines))


def _parsed(words: list[str], where: str) -> AccessLine:
    if not (len(words) == 3 or (len(words) == 4 and words[3].startswith(EXPIRES))):
        hint = "NAME RIGHTS sha256:DIGEST or certificate, then expires=TIME or nothing"
        raise InvalidInput("not a line of an access file", where=where, hint=hint)
    name, rights, credential = words[:3]
    check_name(name, where)
    expires = parse_expiry(words[3], where) if len(words) == 4 else None
    if credential == _CERTIFICATE:
        return AccessLine(name, parse_rights(rights, where), None, expires)
    digest = credential.removeprefix(_SHA256)
    if not (credential.startswith(_SHA256) and is_digest(digest)):
        raise InvalidInput(
            "neither sha256: with 64 hexadecimal digits nor certificate", where=where, hint="`symd token` writes one"
        )
    return AccessLine(name, parse_rights(rights, where), bytes.fromhex(digest), expires)


def parse_expiry(word: str, where: str) -> datetime:
    """The time that the word ``expires=TIME`` says, in UTC where it names no zone. Raises InvalidInput."""
    try:
        expires = datetime.fromisoformat(word.removeprefix(EXPIRES))
    except ValueError:
        expires = None
    if expires is None:
        raise InvalidInput("not when a line expires", where=where, hint="write expires=2027-02-20T09:00:00Z")
    return expires if expires.tzinfo else expires.replace(tzinfo=UTC)


def time_text(time: datetime | None) -> str:
    """A time as an access file has it, in UTC, whole seconds; "never" for none."""
    return "never" if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_name(name: str, where: str = "") -> None:
    """Raises InvalidInput for what is no name of a client."""
    if not _NAME.fullmatch(name):
        hint = "up to 64 letters, digits, '.', '_', '-' and '@'"
        raise InvalidInput(f"{name!r} is not a name for a client", where=where, hint=hint)


def new_token() -> str:
    """A token of 256 random bits, in characters that a header can have."""
    return _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def token_line(name: str, rights: Rights, token: str, expires: datetime | None = None) -> str:
    """The line of the access file for a token. Raises InvalidInput for what is no name."""
    check_name(name)
    line = f"{name} {rights_text(rights)} sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    return line if expires is None else f"{line} {EXPIRES}{time_text(expires)}"


def newest_rights(text: str, path: Path, name: str) -> Rights:
    """The rights of the newest token of ``name``, which is the last one. Raises as ``parse_access``; FailedPrecondition
    where there is none."""
    have = [each.rights for each in parse_access(text, path).lines if each.name == name and each.digest is not None]
    if not have:
        raise FailedPrecondition(f"{name!r} has no token", where=str(path), hint="make one without --rotate")
    return have[-1]


_NAME_CHARACTERS = 100
"""The most characters of the file's name that are in those of the files beside it."""


def edit(path: Path, change: Callable[[str], str], *, create: bool = False) -> Access:
    """Make the text of the access file what ``change`` makes of it; what it says then. A file that is not there is
    empty where it may be created, unless a link leads to it. Raises as ``read_access``, what ``change`` raises, and
    StoreUnavailable where the file cannot be written."""
    target = _led_to(path)
    if path.is_symlink() and not target.exists():
        raise FailedPrecondition(
            f"it is a symbolic link to {target}, which is not there", where=str(path), hint="name the file itself"
        )
    with _locked(target):
        before = "" if create and not target.exists() else read_text(target)
        after = change(before)
        access = parse_access(after, path)
        _replace(target, after)
    return access


def added(text: str, line: str) -> str:
    """The text with another line."""
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}{chr(10)}"


def without(text: str, name: str) -> str:
    """The text without the lines of ``name``. Raises FailedPrecondition where there is none."""
    numbers = _lines_of(text, name)
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in numbers)


def without_older(text: str, name: str) -> str:
    """The text without the tokens of ``name`` but the newest, which is the last one."""
    older = _tokens_of(text, name)[:-1]
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in older)


def ending(text: str, name: str, until: datetime) -> str:
    """The text, in which the tokens of ``name`` expire at ``until``, or earlier where they did."""
    tokens = _tokens_of(text, name)
    lines = text.splitlines(keepends=True)
    return "".join(_until(line, until) if number in tokens else line for number, line in enumerate(lines))


def _lines_of(text: str, name: str) -> list[int]:
    found = [number for number, words in enumerate(map(_words, text.splitlines())) if words[:1] == [name]]
    if not found:
        raise NotFound(f"nobody is called {name!r}", hint="symd token --list has the names")
    return found


def _tokens_of(text: str, name: str) -> list[int]:
    lines = text.splitlines()
    tokens = [number for number in _lines_of(text, name) if _words(lines[number])[2] != "certificate"]
    if not tokens:
        raise FailedPrecondition(f"{name!r} has no token, but a certificate", hint="symd token --list has the kinds")
    return tokens


def _words(line: str) -> list[str]:
    return line.partition("#")[0].split()


def _until(line: str, until: datetime) -> str:
    """A line with the time when it expires, unless it has an earlier one."""
    content, mark, comment = line.rstrip("\n").partition("#")
    words = content.split()
    if len(words) == 4 and parse_expiry(words[3], "") <= until:
        return line
    return " ".join([*words[:3], f"{EXPIRES}{time_text(until)}", *([mark + comment] if mark else [])]) + "\n"


def _led_to(path: Path) -> Path:
    try:
        return resolved(path)
    except OSError as error:
        raise FailedPrecondition(f"it cannot be reached: {os_error_text(error)}", where=str(path)) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock beside the file: one on the file would be lost with the file."""
    with ExitStack() as stack:
        try:
            stack.enter_context(private_lock(path.with_name(f".{path.name[:_NAME_CHARACTERS]}.lock")))
        except OSError as error:
            raise FailedPrecondition(
                f"the folder cannot be used: {os_error_text(error)}", where=str(path.parent)
            ) from error
        yield


def _replace(path: Path, text: str) -> None:
    """Put a file of this text in the place of the old one, with its mode."""
    temporary = path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else FILE_MODE
        with os.fdopen(new_file(temporary), "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = os_error_text(error)
        raise StoreUnavailable(
            f"cannot write the file: {reason}", where=str(path), hint="choose another --access"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
