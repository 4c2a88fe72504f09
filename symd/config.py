"""Every number and path an operator may turn, in two frozen dataclasses with their defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from symd.errors import InvalidInput
from symd.model.rights import NO_RIGHTS, Right, Rights

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets against hostile or mistaken input. Sizes are bytes; an error that one of them causes names it."""

    module_size: int = 2048 * MIB
    """The largest module taken."""
    nesting_depth: int = 8
    """Containers inside containers."""
    object_count: int = 100_000
    """Code objects in one module."""
    expansion: int = 4096 * MIB
    """Bytes that compressed parts of one module may expand to, all together."""
    expansion_ratio: int = 1000
    """Bytes that one compressed part may expand to, a stored byte."""
    inline_depth: int = 1000
    """Functions and inlined calls inside each other in one code object's debug data: as many frames an address may have."""
    line_files: int = 2_000_000
    """Directories and files that the line tables of one code object list, all together."""
    path_bytes: int = 256 * MIB
    """Bytes of the paths that these make: a few long directories and many files multiply."""
    upload_chunk: int = MIB
    """One chunk of an upload."""
    batch: int = 4_000_000
    """Addresses in one request."""
    build_seconds: float = 120.0
    """Time to index one module."""
    question_seconds: float = 30.0
    """Time for a question that is answered from a module's bytes: variables, code for a listing, sources, a code object."""
    build_memory: int = 4096 * MIB
    """Address space of a process that reads modules."""
    index_size: int = 2048 * MIB
    """The largest file that reading a module makes: its index, or a code object that somebody wants."""
    answer_size: int = 64 * MIB
    """The largest answer to a question that is answered from a module's bytes: texts of sources, code for a listing."""
    open_indexes: int = 256 * MIB
    """Indexes kept open together; the least recently used are closed."""
    store_size: int = 65536 * MIB
    """Modules and their indexes in the store, together; beyond it the least recently used are removed (``store.eviction``)."""
    free_disk: int = 64 * MIB
    """Free bytes of the store's disk below which health says NOT_SERVING of the services that write."""
    label_length: int = 1024
    """Characters of a module's label."""
    alias_kind_length: int = 64
    """Characters of an alias's kind."""
    alias_key_length: int = 1024
    """Characters of an alias's key."""
    module_aliases: int = 10_000
    """Aliases of one module, those of contexts included."""
    aliases: int = 100_000
    """Aliases in one store."""
    contexts: int = 10_000
    """Contexts in one store."""
    loads: int = 1_000_000
    """Loads and unloads that one context may be told, over all time."""
    mappings: int = 4_000_000
    """Mapped segments that one context may have, over all time; each takes about 150 bytes while it is asked about."""
    driver_seconds: float = 120.0
    """The longest a driver call may be asked to take."""
    driver_memory: int = 16384 * MIB
    """Address space of the driver's process."""
    disassembly_seconds: float = 60.0
    """Time that one disassembler gets for one request."""
    disassembly_memory: int = 4096 * MIB
    """Address space of a disassembler's process."""
    demangle_seconds: float = 30.0
    """Time that the demangler gets for the names of one question."""
    demangle_memory: int = 1024 * MIB
    """Address space of the demangler's process."""
    source_size: int = 16 * MIB
    """The largest source file shown."""
    message_seconds: float = 30.0
    """The longest a call may take to send its message after its headers, or the first message of a stream."""
    idle_seconds: float = 300.0
    """The longest a stream may be silent while the daemon waits for its next message."""
    write_seconds: float = 60.0
    """The longest a client may take to take a message of a stream."""
    waiting_calls: int = 1024
    """Calls that may wait for their message at a time. Beyond, the one that has waited longest is ended."""
    queued_calls: int = 1024
    """Calls of one kind that may wait for a thread."""
    batches: int = 2
    """Large batches answered at a time."""
    unopened: int = 32
    """Questions answered at a time about modules whose index is not open, so that it may have to be made first."""
    uploads: int = 16
    """Uploads open at a time."""
    grabs: int = 4
    """Grabs from drivers at a time."""
    bytes_in_flight: int = 256 * MIB
    """Large messages that the daemon holds at a time: requests until they are answered, responses until they are taken."""
    client_bytes_in_flight: int = 160 * MIB
    """The same of one client."""
    request_bytes: int = 8 * MIB
    """The largest request that is no batch, no upload and no grab."""
    request_fields: int = 400_000
    """Fields of one request of more than a megabyte; an address that is no column's is a field."""
    row_answers: int = 400_000
    """Answers of one response that are spelled out; columns have ``batch``."""
    response_bytes: int = 96 * MIB
    """The largest response, or message of a stream."""
    daemon_memory: int = 1536 * MIB
    """The daemon's own memory, mapped files not counted, beyond which calls that take long to send their message are ended."""
    calls_per_connection: int = 256
    """Calls open at a time on one connection; a client keeps further ones until another has ended."""
    connections: int = 1024
    """Connections open at a time; further ones are closed."""
    connection_idle_seconds: float = 1800.0
    """How long a connection may be without a call before it is closed; a client opens another when it needs one."""
    handshake_seconds: float = 10.0
    """The longest a new connection may take to say that it speaks HTTP/2, encryption included."""
    keepalive_seconds: float = 60.0
    """How long a connection may be silent before the daemon asks whether the client is there, and then for the answer."""


def default_socket() -> Path:
    """$XDG_RUNTIME_DIR/symd/symd.sock, or the same below the cache folder where there is no runtime folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (_path(runtime) / "symd" if runtime else _cache()) / "symd.sock"


def default_store() -> Path:
    """$SYMD_STORE, or symd's folder below the user's cache."""
    chosen = os.environ.get("SYMD_STORE")
    return _path(chosen) if chosen else _cache() / "store"


def default_drivers() -> Mapping[str, str]:
    """The driver generations of $SYMD_DRIVERS, ``NAME=FOLDER`` separated like the folders of PATH; none where it is not set.

    Raises InvalidInput for an entry that is not of that form.
    """
    entries = [entry for entry in os.environ.get("SYMD_DRIVERS", "").split(os.pathsep) if entry]
    return MappingProxyType(dict(parse_driver(entry, "SYMD_DRIVERS") for entry in entries))


def parse_driver(entry: str, where: str) -> tuple[str, str]:
    """The name and the absolute folder of ``NAME=FOLDER``. Raises InvalidInput, which names ``where``, for anything else."""
    name, _, folder = entry.partition("=")
    if not name or not folder or not name.isprintable() or name != name.strip():
        raise InvalidInput(f"{entry!r} is not a driver's name and folder", where=where, hint="write NAME=FOLDER")
    return name, os.path.abspath(folder)  # noqa: PTH100 - pathlib is slow to import, and this follows no link


def _cache() -> Path:
    import platformdirs  # noqa: PLC0415 - not needed by commands that read one file

    return _path(platformdirs.user_cache_dir("symd"))


def _path(text: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 - likewise

    return Path(text)


DEFAULT_LIMITS = Limits()
"""The limits of somebody who sets none."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Who is let in and what they may do. By default that is the daemon's user alone, over its Unix socket."""

    users: Mapping[int, Rights] = field(default_factory=dict)
    """Further users of this machine, by uid: what they may do over the Unix socket."""
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
    """What who reaches TCP and shows nothing may do. None: nothing where tokens or certificates are asked for, else to read,
    and where ``insecure`` is said also to write."""
    insecure: bool = False
    """Let TCP be plain: whoever reaches it is let in, and whoever stands between reads along."""
    open_health: bool = False
    """Let everybody ask for the daemon's health."""
    grab_unconfined: bool = False
    """Where the kernel cannot confine a driver, let others than the daemon's user grab all the same."""

    @property
    def anonymous_rights(self) -> Rights:
        """``anonymous``, or what follows from the others."""
        if self.anonymous is not None:
            return self.anonymous
        if self.access is not None or self.tls_client_ca is not None:
            return NO_RIGHTS
        if self.tls_certificate is not None:
            return frozenset((Right.READ,))
        return frozenset((Right.READ, Right.WRITE)) if self.insecure else NO_RIGHTS


@dataclass(frozen=True, slots=True)
class Config:
    """What an operator may set for the daemon and for commands; each has the default of somebody who sets nothing."""

    limits: Limits = field(default_factory=Limits)
    """Budgets against hostile or mistaken input."""
    store: Path = field(default_factory=default_store)
    """The folder of modules, their indexes and the catalogue."""
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
    """Watches of breakpoints open at a time; each holds a thread that sleeps."""
    metrics: str = ""
    """Where Prometheus may ask, ``unix:PATH`` or ``HOST:PORT``; "" for nowhere."""
    grace: float = 5.0
    """Seconds that running requests get after SIGTERM."""
    source_roots: tuple[str, ...] = ()
    """Absolute folders below which source files may be read and shown to clients. None: no file is."""
    source_map: tuple[tuple[str, str], ...] = ()
    """Where the compilers' folders are here: (beginning of a path, what stands there instead)."""
    drivers: Mapping[str, str] = field(default_factory=default_drivers)
    """Folders of driver generations beside the system's, by the names under which clients may ask for them."""
    doors: Doors = field(default_factory=Doors)
    """Who is let in and what they may do."""
