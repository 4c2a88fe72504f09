"""The limits that an operator may set, those of a daemon too, and the paths and addresses that are meant where none is
named; whatever else a daemon is told is in ``server.config``. The limits, which every command imports, are no
dataclass: that takes four times as long to make."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from symd.errors import FailedPrecondition, InvalidInput
from symd.model.light_typing import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
UNBOUNDED_STORE = 1 << 60
"""A ``Limits.store_size`` that no store has: nothing is removed for want of room."""


class Limits(NamedTuple):
    """Budgets against hostile or mistaken input. Sizes are bytes; an error that one of them causes names it."""

    module_size: int = 2048 * MIB
    """The largest module taken."""
    object_count: int = 100_000
    """Code objects in one module."""
    expansion: int = 4096 * MIB
    """Bytes that compressed parts of one module may expand to, all together."""
    debug_entries: int = 200_000_000
    """Line rows and debugging entries of one module, all together; a unit and a line table count as 32 each."""
    work_ratio: int = 12
    """Steps of reading (line rows, instructions of line programs and of SPIR-V, debugging entries, attributes, entries
    of lists, code objects) for each byte of the module's file; a million are always taken, which is about a second."""
    batch: int = 4_000_000
    """Addresses in one request."""
    build_seconds: float = 120.0
    """Time to index one module."""
    question_seconds: float = 30.0
    """Time for a question that is answered from a module's bytes (variables, code for a listing, sources, a code
    object), for a search for names, and for a request to ``/symbolicate/v5``."""
    build_memory: int = 4096 * MIB
    """Address space of a process that reads modules."""
    index_size: int = 2048 * MIB
    """The largest file that reading a module makes: its index, or a code object that somebody wants."""
    open_indexes: int = 256 * MIB
    """Indexes kept open together; the least recently used are closed."""
    store_size: int = 65536 * MIB
    """Modules and their indexes in the store, together; beyond it the least recently used are removed
    (``store.budgets``)."""
    cache_size: int = 16384 * MIB
    """Modules and indexes of an object storage that are kept on this machine, together; beyond it the least recently
    used are removed."""
    storage_seconds: float = 30.0
    """The longest a call to an object storage may take; a file gets a second more for each mebibyte."""
    free_disk: int = 64 * MIB
    """Free bytes of the store's disk below which health says NOT_SERVING of the services that write."""
    catalogue_connections: int = 8
    """Connections to a catalogue in PostgreSQL that a daemon uses at a time, beside two of its own."""
    aliases: int = 100_000
    """Aliases in one store."""
    contexts: int = 10_000
    """Contexts in one store."""
    module_events: int = 100_000
    """Modules that were added, removed, loaded and unloaded that a store remembers for watches that go on after a
    resume token."""
    profile_size: int = 1024 * MIB
    """Bytes of a profile once it is expanded, and of the one that is written."""
    driver_seconds: float = 120.0
    """The longest a driver call may be asked to take."""
    driver_memory: int = 2048 * MIB
    """Address space of the driver's process. Builds of the drivers that were tried take up to 700 MiB."""
    disassembly_seconds: float = 60.0
    """Time that one disassembler gets for one request."""
    source_size: int = 16 * MIB
    """The largest source file shown."""
    folder_bytes: int = 512 * MIB
    """The largest file that is taken from a watched folder, of those that a running process has mapped, and module of
    its memory."""
    capture_bytes: int = 16384 * MIB
    """What one run of a captured program may add to the folder of its captures: modules, and the lines about them."""
    idle_seconds: float = 300.0
    """The longest a stream may be silent while the daemon waits for its next message."""
    bytes_in_flight: int = 160 * MIB
    """Large messages that the daemon holds at a time: requests until they are answered, responses until they are
    taken."""
    client_bytes_in_flight: int = 96 * MIB
    """Large messages that the daemon holds at a time for one client."""
    response_bytes: int = 96 * MIB
    """The largest response, or message of a stream."""
    daemon_memory: int = 320 * MIB
    """The daemon's own memory, mapped files not counted, beyond which calls whose message has not come whole are
    ended."""
    calls_per_connection: int = 256
    """Calls open at a time on one connection; a client keeps further ones until another has ended."""
    connections: int = 1024
    """Connections open at a time; further ones are closed."""
    keepalive_seconds: float = 60.0
    """How long a connection may be silent before the daemon asks whether the client is there, and then for the
    answer."""


def default_socket() -> Path:
    """$XDG_RUNTIME_DIR/symd/symd.sock, or the same below the cache folder where there is no runtime folder. Raises
    FailedPrecondition, as all that names a folder of the user's cache, where there is no home folder: in containers,
    and of services."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (_path(runtime) / "symd" if runtime else _cache()) / "symd.sock"


def own_socket() -> Path | None:
    """``default_socket``, or None where there is no home folder."""
    try:
        return default_socket()
    except FailedPrecondition:
        return None


SERVER_VARIABLE = "SYMD_SERVER"
"""The environment variable that names the daemon to ask."""
_MACHINE_SOCKET = "/run/symd/symd.sock"
"""Where the unit of packaging/systemd has the daemon of a machine listen."""


def default_server() -> str:
    """The address of the daemon that is meant where none is named: $SYMD_SERVER; else that of the user's own socket, or
    of the machine's where only that one is there."""
    named = os.environ.get(SERVER_VARIABLE, "")
    if named not in ("", "default", "none"):
        return named
    own = own_socket()
    if (own is None or not own.exists()) and os.path.exists(_MACHINE_SOCKET):  # noqa: PTH110 - pathlib is slow to import
        return f"unix:{_MACHINE_SOCKET}"
    return f"unix:{own or default_socket()}"


def server_address(text: str | None) -> str:
    """The address of the daemon that ``text`` names: "default", nothing and None name ``default_server``."""
    return default_server() if text in (None, "", "default") else text


def default_store() -> Path:
    """$SYMD_STORE, or symd's folder below the user's cache."""
    chosen = os.environ.get("SYMD_STORE")
    return _path(chosen) if chosen else _cache() / "store"


def default_cache() -> Path:
    """$SYMD_CACHE, or the folder beside the store for files of a store that several machines share."""
    chosen = os.environ.get("SYMD_CACHE")
    return _path(chosen) if chosen else _cache() / "objects"


def audit_file() -> Path:
    """Where ``symd serve`` in a terminal logs changes: below $XDG_STATE_HOME, or ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - pathlib is slow to load
    return _path(state) / "symd" / "audit.log"


def default_captures() -> Path:
    """$SYMD_CAPTURES, or the folder beside the store where captures are kept."""
    chosen = os.environ.get("SYMD_CAPTURES")
    return _path(chosen) if chosen else _cache() / "captures"


def native_cache() -> Path:
    """Where libraries lie that symd built to load them into programs."""
    return _cache() / "native"


def default_drivers() -> Mapping[str, str]:
    """The driver generations of $SYMD_DRIVERS, ``NAME=FOLDER`` separated like the folders of PATH; none where it is not
    set.

    Raises InvalidInput for an entry that is not of that form.
    """
    entries = [entry for entry in os.environ.get("SYMD_DRIVERS", "").split(os.pathsep) if entry]
    return MappingProxyType(dict(parse_driver(entry, "SYMD_DRIVERS") for entry in entries))


def parse_driver(entry: str, where: str) -> tuple[str, str]:
    """The name and the absolute folder of ``NAME=FOLDER``. Raises InvalidInput, which names ``where``, for anything
    else."""
    name, _, folder = entry.partition("=")
    if not name or not folder or not name.isprintable() or name != name.strip():
        raise InvalidInput(f"{entry!r} is not a driver's name and folder", where=where, hint="write NAME=FOLDER")
    return name, os.path.abspath(folder)  # noqa: PTH100 - pathlib is slow to import, and this follows no link


def _cache() -> Path:
    """symd's folder below $XDG_CACHE_HOME or ~/.cache; what is no absolute path counts as not set (XDG Base Directory
    Specification)."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not os.path.isabs(home):  # noqa: PTH117 - pathlib is slow to import
        with suppress(KeyError):
            home = pwd.getpwuid(os.getuid()).pw_dir
    if not os.path.isabs(cache):  # noqa: PTH117 - likewise
        cache = os.path.join(home, ".cache")  # noqa: PTH118 - likewise
    if not os.path.isabs(cache):  # noqa: PTH117 - likewise
        raise FailedPrecondition(
            f"there is no home folder: $HOME names none, and the system knows none of user {os.geteuid()}",
            hint="set HOME or XDG_CACHE_HOME to a folder that you may write in, or name the folders and sockets that are meant",
        )
    return _path(cache) / "symd"


def _path(text: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 - 6 of the 30 ms of one question, which reads one file

    return Path(text)


DEFAULT_LIMITS = Limits()
"""The limits of somebody who sets none."""
