"""Questions about a module's bytes, and who answers them.

Most questions are answered by a module's index. A few are about the bytes themselves: making that index, the variables
at a place, the code that a listing shows, the sources that the module carries, one code object, NVIDIA's lines of PTX.
Bytes come from strangers, so a daemon has them read by other processes; a command or a library reads them in its own.
This room is the seam between the two. Here is the module opened for questions: which one it is and where its bytes
stand; read, checked, unpacked, and kept while the next question may be about it too.

``questions``       one class for each question; it says what it needs and how it is answered from an ``OpenedModule``.
                    And ``Reader``, whom everybody asks, with ``InProcessReader``, who reads here
``served``          the other side: a question and its answer as bytes, for a reader that asks another process; in value
                    types of a closed list, so that nothing that comes back can run code here"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, cast

from symd.config import Limits
from symd.errors import DataLoss, ModuleNotFound, ObjectNotFound, StoreUnavailable
from symd.formats import containers
from symd.formats.containers.code_reloader import expanded_size
from symd.formats.containers.file_part import LARGE, MAPPED, sha256_of
from symd.index.module import described, write_index, write_index_in_turn
from symd.index.module_tables import DecodedObject
from symd.index.partial import MIN_OBJECTS, PartialIndex
from symd.model.code import CodeObject
from symd.model.identities import Digest
from symd.model.variables import Visible
from symd.query.variables import VisibleIn, first_at
from symd.system.messages import refusal


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module's bytes as they are handed to whoever reads them. ``digest`` is the SHA-256 that the bytes must have,
    ``path`` the absolute path of the file that holds them.

    ``data`` are the bytes where they are in memory already, just hashed; whoever reads in another process has none,
    but a ``descriptor`` of the file, which it may not open. ``is_hashed`` says that the asker has written the file
    just now, and hashed what it wrote."""

    digest: str
    path: str
    data: bytes | None = field(default=None, repr=False, compare=False)
    descriptor: int | None = field(default=None, compare=False)
    is_hashed: bool = field(default=False, compare=False)


KEPT_BYTES = 64 << 20
"""Bytes of modules that a process keeps open for its next question, beside the last; what is unpacked of them comes on
top. A worker that has much in memory ends by itself."""


class OpenedModule:
    """A module opened for questions about its bytes. ``data`` are a module's bytes, known to have ``digest``. What
    is made of them is made when it is first needed. With ``only`` the module is taken for one that holds no other
    code object than the one at that path: nothing else is opened, or decoded."""

    def __init__(self, digest: str, data: bytes, limits: Limits, only: str | None = None) -> None:
        self._only = only
        self.digest = Digest(digest)
        self.data = data
        self.limits = limits
        self._visible: VisibleIn | None = None
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _is_large(self) -> bool:
        """Whether a module is large, as it is or as its compressed code objects expand."""
        if MAPPED <= len(self.data) < LARGE:
            return expanded_size(self.data, self.limits) >= LARGE
        return len(self.data) >= LARGE

    @cached_property
    def unpacked(self) -> containers.UnpackedModule:
        found = containers.unpack(self.data, self.limits, self._only)
        if self._only is not None and not found.objects:
            raise ObjectNotFound.at(
                self._only, (code.path for code in containers.ContainerUnpacker(self.data, self.limits))
            )
        return found

    @property
    def objects(self) -> Sequence[CodeObject]:
        return self.unpacked.objects

    def objects_at(self, path: str | None) -> Sequence[CodeObject]:
        """All objects, or of a large module those on the way to ``path``: the others are not opened."""
        if path is None or not self._is_large or "unpacked" in vars(self):
            return self.objects
        return tuple(containers.ContainerUnpacker(self.data, self.limits, path))

    def object(self, path: str) -> CodeObject:
        """The code object at ``path``. Raises ``ObjectNotFound``."""
        code = self._by_path.get(path)
        if code is None:
            raise ObjectNotFound.at(path, self._by_path, self.digest)
        return code

    @cached_property
    def _by_path(self) -> dict[str, CodeObject]:
        """The first of each path."""
        return {code.path: code for code in reversed(self.objects)}

    def visible(self, path: str, places: Sequence[tuple[int, int]]) -> tuple[Visible | str, ...]:
        """What is in scope at places, (section, offset), of the code object at ``path``; text where its debug data
        cannot be trusted: why. The debug data of the code object that was asked about last stays open, unless the
        module is large. Raises ``ObjectNotFound``."""
        code = first_at(self.objects_at(path), path)
        with self._one_at_a_time:
            if self._visible is None or self._visible.code is not code:
                self._visible = None  # two at a time would take twice the memory
                self._visible = VisibleIn(code, self.limits)
            found = tuple(self._visible.at(*place) for place in places)
            if self._is_large:
                self._visible = None
        return found

    @cached_property
    def partial(self) -> PartialIndex | None:
        """The summary of a module of many code objects, and an index of those that somebody asks for; None for a
        module of few. A large one has none: its code objects are not kept."""
        if self._is_large or len(self.objects) < MIN_OBJECTS:
            return None
        undecoded = [DecodedObject(code, None) for code in self.objects]
        summary = described(self.data, self.digest, self.unpacked, undecoded)
        return PartialIndex(self.objects, summary, units=False, limits=self.limits)

    def write_index(self, file: BinaryIO) -> int:
        """Write the index of the whole module into an empty file that may be read, too; its size. Raises LimitExceeded
        for one of more than ``limits.index_size`` bytes."""
        if self._is_large and self._only is None:
            return write_index_in_turn(file, self.data, self.digest, self.limits)
        return write_index(file, self.data, self.digest, self.unpacked, self.limits)


class OpenedModules:
    """The modules that were asked about last, together no more than ``kept_bytes`` of file; the last one whatever its
    size, because the next question tends to be about it too. Safe to use from several threads."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, only: str | None = None) -> None:
        """``only`` as for ``OpenedModule``."""
        self._kept_bytes, self._only = kept_bytes, only
        self._lock = threading.Lock()
        self._kept: dict[str, OpenedModule] = {}

    def open(self, module: ModuleFile, limits: Limits) -> OpenedModule:
        """The module, read and checked if it is not here yet. Raises ``DataLoss`` where the file's bytes are not the
        digest's, ``ModuleNotFound`` where there is no file."""
        with self._lock:
            known = self._kept.pop(module.digest, None)
            if known is not None:
                self._kept[module.digest] = known
                return known
        opened = OpenedModule(module.digest, module.data or _checked_bytes(module), limits, self._only)
        with self._lock:
            self._kept[module.digest] = opened
            self._shrink()
        return opened

    def forget_but(self, number: int) -> None:
        """Forget all but so many that were used last."""
        with self._lock:
            for digest in tuple(self._kept)[: max(len(self._kept) - number, 0)]:
                del self._kept[digest]

    def _shrink(self) -> None:
        """What was used longest ago goes first."""
        held = sum(len(each.data) for each in self._kept.values())
        while held > self._kept_bytes and len(self._kept) > 1:
            held -= len(self._kept.pop(next(iter(self._kept))).data)


def _bytes_of(module: ModuleFile) -> bytes:
    with open(
        module.path if module.descriptor is None else module.descriptor, "rb", closefd=module.descriptor is None
    ) as file:
        if os.fstat(file.fileno()).st_size >= MAPPED:
            return cast("bytes", mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        file.seek(0)  # who shares the descriptor may have read from it
        return file.read()


def _checked_bytes(module: ModuleFile) -> bytes:
    where, metadata = module.path, {"module": f"modules/{module.digest}", "file": module.path}
    try:
        data = _bytes_of(module)
    except FileNotFoundError:
        raise ModuleNotFound(f"the file of module {module.digest} is gone", hint="add it again") from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError from None  # a file that is mapped takes address space, of which this process may have so much
        raise StoreUnavailable(refusal(error), where=where, metadata=metadata) from error
    if not module.is_hashed and sha256_of(data) != module.digest:
        hint = "add the module again: that repairs it"
        raise DataLoss("the stored bytes are not what they were", where=where, hint=hint, metadata=metadata)
    return data
