"""The modules of a process that is already running: what ROCm's runtime lists, and what is in its memory, its mapped
files and its caches.

Source: ROCm's runtime keeps a list of loaded code objects for debuggers: ROCdbgapi's documentation (code object URIs)
and the runtime's exported ``_amdgpu_r_debug``, which is glibc's r_debug. In memory, where its driver and its program
keep it, only the beginning of a module is found. Its size follows from its own headers (``extent``).
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from symd.capture.folder import FolderModule, FolderWatch, LeftOut, compiler_caches
from symd.capture.process import MemoryMapping, RunningProcess, is_trusted
from symd.capture.program_files import device_code, read_part
from symd.config import Limits
from symd.errors import SymdError, Unsupported
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import UnpackedModule, compressed_bundle, uri
from symd.formats.containers.amd.core_state import LoadedObject, listed_names
from symd.formats.containers.intel import igc_debug
from symd.formats.containers.nvidia import fatbin
from symd.formats.elf.constants import EM_AMDGPU, EM_CUDA, EM_INTEL182, EM_INTELGT, EM_NONE, ET_CORE, PT_LOAD
from symd.model.addresses import DeviceAddress
from symd.model.captures import CaptureApi, CapturedProcess, CaptureWay, ModuleForm, ModuleFound, ModuleLoaded
from symd.model.code import Vendor
from symd.model.texts import counted, plural
from symd.system.messages import os_error_text

_LIBRARY: Final = "libhsa-runtime64.so"
_SYMBOL: Final = "_amdgpu_r_debug"
_VERSIONS: Final = range(8, 12)
"""Versions of the list that mean what is read here."""
_MEMORY: Final = "memory://"
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def loaded_objects(
    process: RunningProcess, mappings: Sequence[MemoryMapping], limits: Limits, notes: list[str], end: float
) -> Iterator[LoadedObject]:
    """The code objects that ROCm's runtime lists: name, load bias, and bytes where they can be read. ``notes`` gets a
    sentence if the runtime is mapped and its list cannot be read, and if ``end`` (time.monotonic()) comes before all
    are read."""
    mapping = next((each for each in mappings if _LIBRARY in each.file), None)
    if mapping is None:
        return
    budget = Budget(limits, limits.module_size)
    try:
        address = _list_address(process, mapping, limits, budget)
        version = process.number(address, 4) if address else None
        if address is None or version is None or version not in _VERSIONS:
            found = "is not where it was expected" if version is None else f"has version {version}"
            notes.append(f"ROCm's list of code objects {found}; none is taken from it")
            return
        names = list(listed_names(process, address, budget))
    except (OSError, SymdError) as error:
        notes.append(f"ROCm's list of code objects could not be read: {error}")
        return
    notes.append(f"ROCm's runtime lists {len(names)} loaded code objects")
    for number, (name, bias) in enumerate(names):
        if time.monotonic() > end:
            rest = len(names) - number
            notes.append(f"{rest} of them were not read (the time was over)")
            return
        yield LoadedObject(name, bias, _content(process, name, limits))


def _list_address(process: RunningProcess, mapping: MemoryMapping, limits: Limits, budget: Budget) -> int | None:
    """The address of ``_amdgpu_r_debug`` in the process; None if the runtime does not have it where it should."""
    library = read_part(uri.CodeObjectUri(mapping.file), limits, lambda _: process.open_file(mapping))
    image = elf.parse(library, budget)
    table = image.by_name.get(".dynsym")
    symbols = image.symbols(table) if table else []
    value = next((symbol.value for symbol in symbols if symbol.name == _SYMBOL), None)
    loads = (each for each in image.segments if each.type == PT_LOAD)
    first = next((each for each in loads if each.offset // _PAGE * _PAGE == mapping.offset), None)
    if value is None or first is None:
        return None
    return mapping.start - (first.address - first.offset + mapping.offset) + value


def _content(process: RunningProcess, name: str, limits: Limits) -> bytes | None:
    """The bytes that a code object URI names, as the process sees them."""
    try:
        if name.startswith(_MEMORY):
            address, size = uri.memory_range(name)
            data = process.read(address, size) if size <= limits.folder_bytes else b""
            return data if len(data) == size else None
        return read_part(uri.parse_uri(name), limits, process.open_path)
    except (OSError, SymdError):
        return None


AttachEvent = ModuleLoaded | ModuleFound


class Attachment:
    """Finds the modules of ``process``. When ``events`` has ended, ``notes`` say what was searched and what was not,
    and ``left_out`` names what could not be read."""

    def __init__(self, process: RunningProcess, limits: Limits) -> None:
        self.notes: list[str] = []
        self.left_out: list[LeftOut] = []
        self._process, self._limits = process, limits
        self._digests: set[str] = set()
        self._places: set[tuple[str, int]] = set()

    def events(self) -> Iterator[AttachEvent]:
        """Every module once, and at each load address that is listed. Raises FailedPrecondition where nothing of the
        process may be seen."""
        mappings = self._process.mappings()
        try:
            self._process.open_memory()
        except SymdError as error:
            self.notes.append(f"memory was not searched: {error.message}{f' ({error.hint})' if error.hint else ''}")
        else:
            yield from self._once(self._listed(mappings))
            yield from self._once(self._in_memory(mappings))
        yield from self._once(self._mapped(mappings))
        yield from self._once(self._cached())
        if self._process.has_ended():
            self.notes.append("the process ended meanwhile: there may have been more")

    def _once(self, events: Iterator[AttachEvent]) -> Iterator[AttachEvent]:
        for event in events:
            digest = hashlib.sha256(event.data).hexdigest()
            place = event.load_base if isinstance(event, ModuleLoaded) else None
            if digest not in self._digests or (place is not None and (digest, place) not in self._places):
                self._digests.add(digest)
                if place is not None:
                    self._places.add((digest, place))
                yield event

    def _listed(self, mappings: Sequence[MemoryMapping]) -> Iterator[ModuleLoaded]:
        """The code objects that ROCm's runtime lists for debuggers, with load addresses."""
        end = time.monotonic() + ATTACH_SECONDS
        for listed in loaded_objects(self._process, mappings, self._limits, self.notes, end):
            if listed.data is None:
                self.left_out.append(
                    LeftOut(listed.name, Unsupported("its bytes are neither in memory nor in its file"))
                )
                continue
            yield ModuleLoaded(
                self._process.identity,
                CaptureApi.HIP,
                CaptureWay.ATTACH,
                listed.bias,
                _now(),
                ModuleForm.INPUT,
                listed.data,
                load_base=listed.bias,
            )

    def _in_memory(self, mappings: list[MemoryMapping]) -> Iterator[AttachEvent]:
        search = MemorySearch(self._process, mappings, self._limits)
        found = 0
        try:
            for module in search:
                found += 1
                yield _event(self._process.identity, module)
        except SymdError as error:
            self.notes.append(f"memory was not searched to its end: {error.message}")
        counts = search.counts
        self.notes.append(
            f"memory: modules found in {counts.searched:,} bytes: {found}; nobody says whether they are loaded"
        )
        if counts.damaged:
            self.notes.append(
                f"memory: passed over {counted(counts.damaged, 'beginning')} of modules: freed, or being written"
            )
        for limit in sorted(counts.limits):
            why = f"at most {ATTACH_BYTES:,} are" if limit == "attach_bytes" else "the time was over"
            self.notes.append(f"memory: {counts.unsearched:,} bytes were not searched ({why})")

    def _mapped(self, mappings: Sequence[MemoryMapping]) -> Iterator[ModuleFound]:
        files = {(each.device, each.inode): each for each in reversed(mappings) if each.is_file and each.inode}
        found = 0
        for mapping in sorted(files.values(), key=lambda each: each.file):
            try:
                data = self._file(mapping)
            except OSError as error:
                reason = os_error_text(error)
                self.left_out.append(LeftOut(mapping.file, Unsupported(f"cannot read the mapped file: {reason}")))
            except SymdError as error:
                self.left_out.append(LeftOut(mapping.file, error))
            else:
                if data is not None:
                    found += 1
                    yield self._found(data, mapping.file)
        self.notes.append(
            f"files: {found} of {counted(len(files), 'mapped file')} {plural(found, 'carries', 'carry')} device code"
        )

    def _file(self, mapping: MemoryMapping) -> bytes | None:
        """The file's bytes where it carries device code. Raises OSError, LimitExceeded, InvalidInput."""
        descriptor = self._process.open_file(mapping)
        try:
            return device_code(descriptor, self._limits)
        finally:
            os.close(descriptor)

    def _cached(self) -> Iterator[ModuleFound]:
        """The modules that came into the compilers' caches since the process was started, perhaps of other
        processes."""
        if not self._process.shares_files():
            self.notes.append(
                "caches were not looked at: it has other files (a container); run symd collect --caches in there"
            )
            return
        try:
            caches = compiler_caches(self._process.environment(), self._process.directory())
        except SymdError as error:
            self.notes.append(f"caches were not looked at: {error.message}")
            return
        folders = [each for each in dict.fromkeys(cache.folder for cache in caches) if self._is_folder(each)]
        with FolderWatch(folders, self._limits, settle=0.0) as watch:
            for finding in watch.present(since=_started(self._process)):
                if isinstance(finding, FolderModule):
                    yield self._found(finding.data, finding.path, finding.kernels)
                else:
                    self.left_out.append(finding)
            self.notes.append(
                f"caches: modules that came since the process was started, perhaps of others too: {watch.counts.modules}"
            )

    def _is_folder(self, path: Path) -> bool:
        try:
            if path.is_dir():
                self._check_cache(path)
                return True
        except OSError as error:
            reason = os_error_text(error)
            self.left_out.append(LeftOut(str(path), Unsupported(f"cannot look at the cache: {reason}")))
        except Unsupported as error:
            self.left_out.append(LeftOut(str(path), error))
        return False

    def _check_cache(self, folder: Path) -> None:
        """Raises Unsupported for a folder that another user's process names and that is not that user's. Raises
        OSError."""
        user = self._process.user()
        if not is_trusted(user) and folder.stat().st_uid != user:
            raise Unsupported(f"this cache is not of the process's user, {user}")

    def _found(self, data: bytes, source: str, kernels: tuple[str, ...] = ()) -> ModuleFound:
        return ModuleFound(
            CaptureWay.ATTACH,
            _now(),
            ModuleForm.NATIVE_BINARY,
            data,
            source,
            process=self._process.identity,
            kernels=kernels,
        )


def _event(process: CapturedProcess, module: InMemory) -> AttachEvent:
    """The event of a module found in memory: a load if it is debug data of Intel's drivers, which has load
    addresses."""
    kernels = tuple(dict.fromkeys(kernel.name for code in module.opened.objects for kernel in code.kernels))
    addresses = _addresses(module)
    if addresses:
        return ModuleLoaded(
            process,
            CaptureApi.LEVEL_ZERO,
            CaptureWay.ATTACH,
            module.address,
            _now(),
            ModuleForm.DEBUG_DATA,
            module.data,
            kernels=kernels,
            addresses=addresses,
        )
    kind = elf.kind(module.data)
    api = {EM_AMDGPU: CaptureApi.HIP, EM_CUDA: CaptureApi.CUDA}.get(kind.machine) if kind else None
    source = f"memory://{process.process}#offset={module.address:#x}&size={len(module.data)}"
    return ModuleFound(
        CaptureWay.ATTACH, _now(), ModuleForm.NATIVE_BINARY, module.data, source, api, process, kernels=kernels
    )


def _addresses(module: InMemory) -> dict[str, DeviceAddress]:
    """The device addresses of the kernels of a loaded Intel module; none where its sections have no addresses."""
    return {
        kernel.name: DeviceAddress(code.sections[kernel.section_index].address + kernel.offset)
        for code in module.opened.objects
        if code.vendor is Vendor.INTEL
        for kernel in code.kernels
        if kernel.section_index < len(code.sections) and code.sections[kernel.section_index].address
    }


def _started(process: RunningProcess) -> float:
    """When the process was started, in seconds of time.time()."""
    ticks = os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + process.identity.start_time / ticks


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


ATTACH_SECONDS: Final = 60.0
"""Time that the memory of a running process is searched, and what its runtime lists is read."""
ATTACH_BYTES: Final = 16 << 30
"""Bytes of a running process's memory that are searched for modules."""
Read = Callable[[int, int], bytes]
"""Offset and size to bytes, fewer where there are no more."""
MAGICS: Final = (elf.MAGIC, igc_debug.MAGIC, compressed_bundle.MAGIC, fatbin.MAGIC)
"""What the modules begin with whose end can be told. What lies unpacked in a bundle of Clang's is an ELF image
itself."""
HEAD_BYTES: Final = 64
"""Bytes from which ``may_begin`` knows."""
_MACHINES: Final = (EM_CUDA, EM_INTELGT, EM_AMDGPU, EM_INTEL182)
_INTEL_TYPES: Final = range(0xFF01, 0xFF14)
"""The types of Intel's runtime and compiler, for which the machine may be a product's number."""
_MOST_KERNELS: Final = 100_000


def may_begin(head: bytes) -> bool:
    """Whether a module of a device may begin with these bytes."""
    kind = elf.kind(head)
    if kind is not None:
        intel = kind.type in _INTEL_TYPES and kind.machine in (EM_NONE, EM_INTELGT)
        return head[4] in (1, 2) and head[5] == 1 and kind.type != ET_CORE and (kind.machine in _MACHINES or intel)
    return igc_debug.claims(head) or compressed_bundle.claims(head) or head[:8] == fatbin.MAGIC + b"\1\0\x10\0"


def extent(read: Read) -> int | None:
    """The bytes of the module that ``read`` begins with; None where its own tables do not say, or say nonsense."""
    head = read(0, HEAD_BYTES)
    try:
        if head[:4] == elf.MAGIC:
            return elf.image_size(read)
        if head[:4] == igc_debug.MAGIC:
            return _igc_debug(read, head)
        if head[:4] == fatbin.MAGIC:
            return 16 + int(struct.unpack_from("<Q", head, 8)[0])
        return compressed_bundle.header(head).size
    except (SymdError, struct.error):
        return None


def _igc_debug(read: Read, head: bytes) -> int | None:
    kernels = int.from_bytes(head[24:28], "little")
    at = 28
    if not 0 < kernels < _MOST_KERNELS:
        return None
    for _ in range(kernels):
        name, image, generated = struct.unpack("<3I", read(at, 12))
        at += 12 + (name + 3 & ~3) + image + generated
    return at


_PIECE: Final = 4 << 20
_NOT_SEARCHED: Final = ("[vvar]", "[vdso]", "[vsyscall]", "[stack]", "[vvar_vclock]")


class InMemory(NamedTuple):
    """A module at an address of a process."""

    address: int
    data: bytes
    opened: UnpackedModule


@dataclass(slots=True)
class SearchCounts:
    """How far a search went. ``damaged``: beginnings of modules whose rest is not theirs any more, or not yet, or does
    not stay."""

    searched: int = 0
    unsearched: int = 0
    damaged: int = 0
    limits: set[str] = field(default_factory=set)
    """Names of the limits that ended the search early; empty where none did."""


class MemorySearch:
    """Looks for modules in the memory of ``process`` that no file is behind. The process goes on meanwhile: bytes
    count that are the same twice and make a sound module."""

    def __init__(self, process: RunningProcess, mappings: list[MemoryMapping], limits: Limits) -> None:
        self.counts = SearchCounts()
        self._process, self._limits = process, limits
        self._mappings = [each for each in mappings if _is_searched(each)]
        self._end = time.monotonic() + ATTACH_SECONDS

    def __iter__(self) -> Iterator[InMemory]:
        for mapping in self._mappings:
            after = mapping.start
            for start, end in self._process.held_ranges(mapping):
                for found in self._range(start, end, after):
                    after = found.address + len(found.data)
                    yield found

    def _is_over(self, size: int) -> bool:
        if self.counts.searched + size > ATTACH_BYTES:
            self.counts.limits.add("attach_bytes")
        return self._is_late() or bool(self.counts.limits)

    def _is_late(self) -> bool:
        if time.monotonic() > self._end:
            self.counts.limits.add("attach_seconds")
        return "attach_seconds" in self.counts.limits

    def _range(self, start: int, end: int, after: int) -> Iterator[InMemory]:
        """The modules that begin in a range, none inside another."""
        for at in range(start, end, _PIECE):
            size = min(_PIECE, end - at)
            if self._is_over(size):
                self.counts.unsearched += end - at
                return
            piece = self._process.read(at, size + HEAD_BYTES)
            self.counts.searched += min(len(piece), size)
            for offset in _beginnings(piece, size):
                found = self._module(at + offset) if at + offset >= after else None
                if found is not None:
                    after = found.address + len(found.data)
                    yield found
                elif self._is_late():
                    self.counts.unsearched += end - at - offset
                    return

    def _module(self, address: int) -> InMemory | None:
        size = extent(lambda offset, length: b"" if self._is_late() else self._process.read(address + offset, length))
        if self._is_late():
            return None
        if size is None or size > self._limits.folder_bytes:
            self.counts.damaged += 1
            return None
        data = self._process.read(address, size)
        try:
            opened = containers.unpack(data, self._limits) if len(data) == size else None
        except SymdError:
            opened = None
        if opened is None or not any(code.kernels or code.functions for code in opened.objects):
            self.counts.damaged += 1
            return None
        if self._process.read(address, size) != data:
            self.counts.damaged += 1
            return None
        return InMemory(address, data, opened)


def _is_searched(mapping: MemoryMapping) -> bool:
    return (
        mapping.readable
        and mapping.held > 0
        and not mapping.special
        and not mapping.is_file
        and mapping.file not in _NOT_SEARCHED
    )


def _beginnings(piece: bytes, most: int) -> list[int]:
    """The offsets below ``most`` where modules may begin, in order."""
    return sorted(
        at for magic in MAGICS for at in _occurrences(piece, magic, most) if may_begin(piece[at : at + HEAD_BYTES])
    )


def _occurrences(piece: bytes, magic: bytes, most: int) -> Iterator[int]:
    at = piece.find(magic)
    while 0 <= at < most:
        yield at
        at = piece.find(magic, at + 1)
