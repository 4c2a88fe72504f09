"""The access file: one line for each client, with its name, its rights and what proves that it is the one.

    # name      rights            credential
    profiler    read,write        sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    ci          read,write,admin  certificate

``sha256:`` is the digest of a bearer token; the token itself stands nowhere. A token has 256 random bits, so a plain digest
keeps it as well as a slow one would. ``certificate`` means that the name is that of a TLS client certificate. A name may have
several lines, as while one token takes the place of another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput
from symd.model.identities import is_digest
from symd.model.rights import Rights, parse_rights, rights_text
from symd.service.watched_files import read_private

_OTHERS: Final = 0o077
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SHA256: Final = "sha256:"
_CERTIFICATE: Final = "certificate"
_TOKEN_BYTES: Final = 32
_PREFIX: Final = "symd_"
"""So that people and programs that look for secrets recognise one."""


@dataclass(frozen=True, slots=True)
class Access:
    """``tokens`` are (SHA-256 of the token, name, rights); ``certificates`` are rights by the name in the certificate."""

    tokens: tuple[tuple[bytes, str, Rights], ...]
    certificates: Mapping[str, Rights]

    def of_token(self, token: bytes) -> tuple[str, Rights] | None:
        """The name and the rights of whoever has the token; None for a token that nobody has.

        Takes the same time whichever token it is: each one is compared, and compared whole.
        """
        digest = hashlib.sha256(token).digest()
        found = None
        for known, name, rights in self.tokens:
            if hmac.compare_digest(known, digest):
                found = name, rights
        return found


def read_access(path: Path) -> Access:
    """The access file at ``path``. Raises FailedPrecondition where others may read or write it, InvalidInput for a line that
    is none, each with what to do."""
    try:
        text = read_private(path, _OTHERS).decode()
    except UnicodeDecodeError:
        raise InvalidInput("it is no text in UTF-8", where=str(path)) from None
    tokens: list[tuple[bytes, str, Rights]] = []
    certificates: dict[str, Rights] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        name, rights, credential = _parsed(words, where)
        if credential is not None:
            tokens.append((credential, name, rights))
        elif name in certificates:
            raise InvalidInput(f"{name!r} has a line of a certificate already", where=where, hint="leave one of them")
        else:
            certificates[name] = rights
    if len({digest for digest, _, _ in tokens}) < len(tokens):
        raise InvalidInput("two lines have the same token", where=str(path), hint="make another one with `symd token`")
    return Access(tuple(tokens), certificates)


def _parsed(words: list[str], where: str) -> tuple[str, Rights, bytes | None]:
    """Name, rights and the digest of a token; None for a certificate."""
    if len(words) != 3:
        raise InvalidInput("not a line of an access file", where=where, hint="NAME RIGHTS sha256:DIGEST or certificate")
    name, rights, credential = words
    check_name(name, where)
    if credential == _CERTIFICATE:
        return name, parse_rights(rights, where), None
    digest = credential.removeprefix(_SHA256)
    if not (credential.startswith(_SHA256) and is_digest(digest)):
        raise InvalidInput(
            "neither sha256: with 64 hexadecimal digits nor certificate", where=where, hint="`symd token` writes one"
        )
    return name, parse_rights(rights, where), bytes.fromhex(digest)


def check_name(name: str, where: str = "") -> None:
    """Raises InvalidInput for what is no name of a client."""
    if not _NAME.fullmatch(name):
        hint = "up to 64 letters, digits, '.', '_', '-' and '@'"
        raise InvalidInput(f"{name!r} is no name of a client", where=where, hint=hint)


def new_token() -> str:
    """A token of 256 random bits, in letters that a header can have."""
    return _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def token_line(name: str, rights: Rights, token: str) -> str:
    """The line of the access file for a token. Raises InvalidInput for what is no name."""
    check_name(name)
    return f"{name} {rights_text(rights)} sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def without(path: Path, name: str) -> str:
    """The text of an access file without the lines of ``name``. Raises as ``read_access``; FailedPrecondition when there is
    none."""
    read_access(path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.partition("#")[0].split()[:1] != [name]]
    if len(kept) == len(lines):
        raise FailedPrecondition(
            f"nobody is called {name!r}", where=str(path), hint="the names stand in its first column"
        )
    return "".join(kept)
