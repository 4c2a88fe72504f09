"""A module opened for questions: read, checked, unpacked, and kept while the next question may be about it too."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from symd import containers
from symd.config import Limits
from symd.errors import DataLoss, ModuleNotFound, ObjectNotFound, StoreUnavailable
from symd.index.module import described, index_of
from symd.index.module_tables import DecodedObject
from symd.index.partial import MIN_OBJECTS, PartialIndex
from symd.model.code import CodeObject
from symd.model.identities import Digest
from symd.reading.module_file import ModuleFile


class OpenedModule:
    """``data`` are a module's bytes, known to have ``digest``. What is made of them is made when it is first needed."""

    def __init__(self, digest: str, data: bytes, limits: Limits) -> None:
        self.digest = Digest(digest)
        self.data = data
        self.limits = limits

    @cached_property
    def unpacked(self) -> containers.OpenedModule:
        return containers.unpack(self.data, self.limits)

    @property
    def objects(self) -> Sequence[CodeObject]:
        return self.unpacked.objects

    def object(self, path: str) -> CodeObject:
        """The code object at ``path``. Raises ``ObjectNotFound``."""
        for code in self.objects:
            if code.path == path:
                return code
        raise ObjectNotFound.at(path, self.digest)

    @cached_property
    def partial(self) -> PartialIndex | None:
        """Of a module of many code objects: its summary, and an index of those that somebody asks for."""
        if len(self.objects) < MIN_OBJECTS:
            return None
        undecoded = [DecodedObject(code, None) for code in self.objects]
        summary = described(self.data, self.digest, self.unpacked, undecoded)
        return PartialIndex(self.objects, summary, units=False, limits=self.limits)

    def index(self) -> bytes:
        """The index file of the whole module."""
        return index_of(self.data, self.digest, self.unpacked, self.limits)


class OpenedModules:
    """The modules that were asked about last, together no more than ``kept_bytes`` of file. Safe to use from several
    threads."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
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
        opened = OpenedModule(module.digest, module.data or _checked_bytes(module), limits)
        with self._lock:
            self._kept[module.digest] = opened
            self._shrink()
        return opened

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()

    def _shrink(self) -> None:
        """What was used longest ago goes first; a module larger than all of the space is not kept."""
        held = sum(len(each.data) for each in self._kept.values())
        while held > self._kept_bytes:
            held -= len(self._kept.pop(next(iter(self._kept))).data)


def _checked_bytes(module: ModuleFile) -> bytes:
    where, metadata = module.path, {"module": f"modules/{module.digest}", "file": module.path}
    try:
        data = Path(module.path).read_bytes()
    except FileNotFoundError:
        raise ModuleNotFound(f"the file of module {module.digest} is gone", hint="add it again") from None
    except OSError as error:
        raise StoreUnavailable(f"the disk refused: {error.strerror}", where=where, metadata=metadata) from error
    if hashlib.sha256(data).hexdigest() != module.digest:
        hint = "add the module again: that repairs it"
        raise DataLoss("the stored bytes are not what they were", where=where, hint=hint, metadata=metadata)
    return data
