"""What an operator may set for a daemon, with the defaults of somebody who sets nothing, and what a client may be let
do. Commands that answer by themselves do without."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from symd.config import Limits, default_cache, default_drivers, default_socket, default_store
from symd.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


class Right(enum.Enum):
    """What a client may do. No right holds another: whoever is to upload and to ask needs both ``READ`` and
    ``WRITE``."""

    READ = "read"
    """Ask: addresses, names, listings, the catalogue, the bytes of code objects."""
    WRITE = "write"
    """Add modules, labels, aliases and contexts, and take aliases and contexts away."""
    GRAB = "grab"
    """Let the daemon build with a driver of its machine."""
    ADMIN = "admin"
    """Take away what others may need: modules."""


Rights = frozenset[Right]

NO_RIGHTS: Final[Rights] = frozenset()
ALL_RIGHTS: Final[Rights] = frozenset(Right)


def parse_rights(text: str, where: str = "") -> Rights:
    """The rights of "read,write". Raises InvalidInput for anything else, and for none."""
    known = {right.value: right for right in Right}
    words = text.split(",")
    unknown = [word for word in words if word not in known]
    if unknown:
        raise InvalidInput(f"there is no right {unknown[0]!r}", where=where, hint=f"some of {','.join(known)}")
    return frozenset(known[word] for word in words)


def rights_text(rights: Iterable[Right]) -> str:
    """What ``parse_rights`` reads, in the order of ``Right``."""
    have = set(rights)
    return ",".join(right.value for right in Right if right in have)


@dataclass(frozen=True, slots=True)
class ListenConfig:
    """Who is let in and what they may do. By default that is the daemon's user alone, over its Unix socket."""

    socket_group: int | None = None
    """The group (gid) that may open the Unix socket, too. Whoever comes by it is asked who they are then, as over TCP:
    also the daemon's user."""
    access: Path | None = None
    """The access file: names, rights, digests of tokens."""
    tls_certificate: Path | None = None
    """The chain of the daemon's certificate, PEM. With it and its key TCP is TLS."""
    tls_key: Path | None = None
    """The certificate's key, PEM, without a password."""
    tls_client_ca: Path | None = None
    """Who signs the certificates of clients, PEM. With it each client must show one."""
    certificate_rights: Rights = frozenset((Right.READ,))
    """What a client with such a certificate may do where there is no access file."""
    anonymous: Rights | None = None
    """What who shows nothing may do, over TCP or the socket of a group. None: nothing where tokens or certificates are
    asked for, else to read, and where ``insecure`` is said also to write."""
    insecure: bool = False
    """Let TCP be plain: whoever reaches it is let in, and whoever is between reads along."""
    open_health: bool = False
    """Let everybody ask for the daemon's health."""
    open_metrics: bool = False
    """Let everybody who reaches them read the metrics, other machines too."""
    grab_unconfined: bool = False
    """Where the kernel cannot confine a driver, let others than the daemon's user grab all the same."""

    @property
    def anonymous_rights(self) -> Rights:
        """``anonymous``, or what follows from the others."""
        if self.anonymous is not None:
            return self.anonymous
        if self.access is not None or self.tls_client_ca is not None:
            return NO_RIGHTS
        if self.insecure and self.tls_certificate is None:
            return frozenset((Right.READ, Right.WRITE))
        has_strangers = self.tls_certificate is not None or self.socket_group is not None
        return frozenset((Right.READ,)) if has_strangers else NO_RIGHTS


@dataclass(frozen=True, slots=True)
class Config:
    """What an operator may set for the daemon and for commands; each has the default of somebody who sets nothing."""

    limits: Limits = field(default_factory=Limits)
    """Budgets against hostile or mistaken input."""
    store: Path = field(default_factory=default_store)
    """The folder of modules, their indexes and the catalogue."""
    objects: str = ""
    """The object storage of a store that several daemons share, ``s3://BUCKET/PREFIX`` or ``file:///FOLDER``; "" for a
    store in a folder."""
    catalogue: str = ""
    """The URL of its catalogue, ``postgresql://USER@HOST:PORT/DATABASE``."""
    cache: Path = field(default_factory=default_cache)
    """The folder of this machine for files of that storage."""
    address: str = field(default_factory=lambda: f"unix:{default_socket()}")
    """Where the daemon listens and clients look: ``unix:PATH`` or ``HOST:PORT``."""
    addresses: tuple[str, ...] = ()
    """Where the daemon listens instead, when that is several places: a Unix socket and TCP, say."""
    workers: int = 8
    """Threads that answer questions."""
    builders: int = 2
    """Processes that index large modules, and do what takes long; one is started ahead."""
    readers: int = 2
    """Processes that index small modules and answer questions about modules' bytes; they are started ahead."""
    streams: int = 32
    """Streams open at a time; each that has sent something holds a thread of its own."""
    watches: int = 64
    """Watches of all clients open at a time; each holds a thread that sleeps."""
    debuginfod: tuple[str, ...] = ()
    """URLs of debuginfod servers that are asked for modules that somebody wants by build ID and that are not here."""
    http: str = ""
    """Where the page and other tools' protocols are served, ``HOST:PORT``; "" for nowhere."""
    http_names: tuple[str, ...] = ()
    """Host names by which browsers may call that server, besides addresses, localhost, HOST and this machine's own
    name."""
    metrics: str = ""
    """Where Prometheus may ask, ``unix:PATH`` or ``HOST:PORT``; "" for nowhere."""
    otlp: str = ""
    """The collector that spans are sent to, "http://HOST:PORT"; "" for the one that the environment names, if it
    does."""
    grace: float = 5.0
    """Seconds that running requests get after SIGTERM."""
    source_roots: tuple[str, ...] = ()
    """Absolute folders below which source files may be read and shown to clients. None: no file is."""
    source_map: tuple[tuple[str, str], ...] = ()
    """Where the compilers' folders are here: (beginning of a path, what is there instead)."""
    drivers: Mapping[str, str] = field(default_factory=default_drivers)
    """Folders of driver generations beside the system's, by the names under which clients may ask for them."""
    listen: ListenConfig = field(default_factory=ListenConfig)
    """Who is let in and what they may do."""
