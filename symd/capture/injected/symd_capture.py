"""What runs inside a Python program: Triton's compilations and loads are told to whoever listens, without the program's
help.

This file stands alone: it needs Python 3.8 and nothing else, because the program's Python is another than symd's as a
rule. Under ``symd run`` it writes the records that ``symd/capture/native/handover.h`` describes; ``symd.capture.start``
takes what is told itself.

Nothing of it may show in the program: whatever goes wrong here is left undone.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

BINARIES = (".cubin", ".hsaco", ".zebin", ".spv")
"""How the names of files end in which Triton's backends leave device code."""
LOADED, UNLOADED, FOUND = 1, 2, 4
"""Kinds of records."""
TRITON, LISTENER, NATIVE_BINARY = 5, 4, 2
"""The interface, the way and the form that records name."""
COMMAND, DEVICE, KERNEL, DATA, SOURCE, KEY = 1, 2, 3, 5, 6, 7
"""Tags of a record's fields."""
_HEADER = struct.Struct("<4sHHBBHIQQQQiIQ")
_FIELD = struct.Struct("<IIQQ")
_SMALL = 2048
_WAIT_SECONDS = 0.1
_AT_RANDOM = 25
_ADD_SEALS, _ALL_SEALS = 1033, 15
"""Constants of fcntl.h, which older Pythons do not have."""


class Told:
    """What happened: ``kind``, Triton's handle of the module (0: none), the file, the device, the kernel, the bytes."""

    def __init__(self, kind: int, handle: int, source: str, device: str, kernel: str, data: bytes) -> None:
        self.kind, self.handle, self.source, self.device, self.kernel, self.data = (
            kind,
            handle,
            source,
            device,
            kernel,
            data,
        )
        self.time = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


Tell = Callable[[Told], None]


class TritonHooks:
    """Triton's listener and hooks, in a chain with those that are there. ``tell`` is called on the program's own
    thread."""

    def __init__(self, tell: Tell, loads: bool = True) -> None:
        """``loads``: tell of loads and unloads too."""
        self._tell, self._loads = tell, loads
        self._before: Any = None
        self._knobs: Any = None

    def attach(self, knobs: Any) -> None:
        """Listen, as of now; ``knobs`` is the module ``triton.knobs``."""
        if self._knobs is not None or not hasattr(knobs, "compilation"):
            return
        self._knobs, self._before = knobs, knobs.compilation.listener
        knobs.compilation.listener = self.compiled
        for chain, hook in self._chains():
            chain.add(hook)

    def detach(self) -> None:
        """Listen no more. Where somebody put another listener in front, it goes on calling this one, which calls the
        one before."""
        knobs, chains, self._knobs = self._knobs, self._chains(), None
        if knobs is None:
            return
        if knobs.compilation.listener == self.compiled:
            knobs.compilation.listener = self._before
        for chain, hook in chains:
            chain.remove(hook)

    def _chains(self) -> List[Tuple[Any, Callable[..., None]]]:
        """The chains of hooks that Triton has, each with what is put into it."""
        runtime = getattr(self._knobs, "runtime", None)
        named = (("kernel_load_end_hook", self.loaded), ("kernel_unload_hook", self.unloaded))
        chains = [(getattr(runtime, name, None), hook) for name, hook in named] if self._loads else []
        return [(chain, hook) for chain, hook in chains if hasattr(chain, "add") and hasattr(chain, "remove")]

    def compiled(self, **what: Any) -> Any:
        """Triton's ``CompilationListener``: something was compiled, or found in the cache."""
        if self._knobs is not None:
            self._quietly(self._tell_group, FOUND, 0, what.get("metadata_group"), what.get("metadata"))
        return self._before(**what) if self._before is not None else None

    def loaded(self, module: Any, _function: Any, name: Any, group: Any, *_: Any) -> None:
        """Triton's ``InitHandleHook``: a module was loaded."""
        self._quietly(self._tell_group, LOADED, module, group, {"name": name})

    def unloaded(self, module: Any, *_: Any) -> None:
        """Triton's hook for a module that is about to be unloaded."""
        self._quietly(lambda: self._tell(Told(UNLOADED, _number(module), "", "", "", b"")))

    def _tell_group(self, kind: int, module: Any, group: Any, metadata: Any) -> None:
        for name, path in sorted((group or {}).items()):
            if str(name).endswith(BINARIES):
                with open(path, "rb") as stream:
                    data = stream.read()
                described = metadata if isinstance(metadata, dict) else {}
                kernel = str(described.get("name") or os.path.splitext(str(name))[0])
                self._tell(Told(kind, _number(module), str(path), _target(described.get("target")), kernel, data))

    @staticmethod
    def _quietly(call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, struct.error, MemoryError):
            pass  # the program goes on as if nobody had listened


def _number(handle: Any) -> int:
    """A handle of the driver: a number, or a capsule's, whose identity will do."""
    return handle if isinstance(handle, int) else id(handle)


def _target(target: Any) -> str:
    """ "cuda 90", "hip gfx942" of a GPUTarget, or of the mapping that the cache keeps of one."""
    if target is None:
        return ""
    parts = (
        target.get(name) if isinstance(target, dict) else getattr(target, name, None) for name in ("backend", "arch")
    )
    return " ".join(str(part) for part in parts if part is not None)


class Handover:
    """Hands records to ``symd run`` by the socket in its folder, or by a file there where that fails. No descriptor is
    kept: the program may close all, or fork."""

    def __init__(self, folder: str, key: str) -> None:
        self._folder, self._key = folder, key
        self._lost = 0
        self._files = 0

    def tell(self, told: Told) -> None:
        """Hand over; when it returns, symd has it, or it is counted as lost."""
        record = _record(told, self._lost, self._key)
        if self._send(record) or self._write(record, told.time):
            self._lost = 0
        else:
            self._lost += 1

    def _send(self, record: bytes) -> bool:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
                connection.settimeout(_WAIT_SECONDS)
                connection.connect(os.path.join(self._folder, "socket"))
                if len(record) <= _SMALL:
                    connection.send(record, socket.MSG_NOSIGNAL)
                else:
                    _send_in_memory(connection, record)
        except (OSError, AttributeError):
            return False
        return True

    def _write(self, record: bytes, when: int) -> bool:
        self._files += 1
        name = "%d-%d-python-%d" % (when, os.getpid(), self._files)
        path = os.path.join(self._folder, "spool", name)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as stream:
                os.fchmod(descriptor, 0o600)
                if os.geteuid() == 0:  # as after sudo: symd may be another user
                    os.fchown(descriptor, os.stat(os.path.dirname(path)).st_uid, -1)
                stream.write(record)
            os.rename(path, path + ".record")
        except OSError:
            return False
        return True


def _send_in_memory(connection: socket.socket, record: bytes) -> None:
    """The record in a sealed file in memory; the message is its header."""
    memory = os.memfd_create("symd", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(memory, "wb", closefd=False) as stream:
            stream.write(record)
        fcntl.fcntl(memory, _ADD_SEALS, _ALL_SEALS)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))]
        connection.sendmsg([record[: _HEADER.size]], rights, socket.MSG_NOSIGNAL)
    finally:
        os.close(memory)


def _record(told: Told, lost: int, key: str) -> bytes:
    fields: List[Tuple[int, int, bytes]] = [(KEY, 0, os.fsencode(key))]
    if told.kind != UNLOADED:
        with open("/proc/self/cmdline", "rb") as stream:
            fields.append((COMMAND, 0, stream.read(4096)))
        fields += [
            (DEVICE, 0, told.device.encode("utf-8", "replace")),
            (KERNEL, 0, told.kernel.encode("utf-8", "replace")),
            (SOURCE, 0, os.fsencode(told.source)),
            (DATA, NATIVE_BINARY, told.data),
        ]
    body = b"".join(_FIELD.pack(tag, form, 0, len(content)) + content for tag, form, content in fields)
    with open("/proc/self/stat", "rb") as stream:
        start_time = int(stream.read().rpartition(b")")[2].split()[19])
    handle = told.handle & 0xFFFFFFFFFFFFFFFF
    head = (b"symd", 1, told.kind, TRITON, LISTENER, 0, os.getpid(), start_time, _image(), told.time, handle, 0, lost)
    return _HEADER.pack(*head, len(body)) + body


def _image() -> int:
    """Another number in each program that a process becomes, the same as the C libraries find: getauxval(AT_RANDOM)."""
    try:
        with open("/proc/self/auxv", "rb") as stream:
            pairs: Dict[int, int] = dict(struct.iter_unpack("=QQ", stream.read()))
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(pairs[_AT_RANDOM])
            return int.from_bytes(memory.read(8), sys.byteorder)
    except (
        OSError,
        KeyError,
        struct.error,
        ValueError,
    ):  # a process that may not be dumped may not read these of itself
        return _image_in_memory()


def _image_in_memory() -> int:
    try:
        import ctypes

        find = ctypes.CDLL(None).getauxval
        find.restype, find.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        place = find(_AT_RANDOM)
        return int.from_bytes(ctypes.string_at(place, 8), sys.byteorder) if place else 0
    except (ImportError, OSError, AttributeError):
        return 0


def listen_for_symd(knobs: Any) -> None:
    """Tell ``symd run``, where it runs this program, what Triton compiles; ``knobs`` is the module ``triton.knobs``.
    What is loaded the libraries tell that are preloaded into the program."""
    folder = os.environ.get("SYMD_CAPTURE", "")
    if folder.startswith("/"):
        TritonHooks(Handover(folder, os.environ.get("SYMD_CAPTURE_KEY", "")).tell, loads=False).attach(knobs)
