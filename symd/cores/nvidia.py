"""CUDA core dumps: which lanes stopped where. Equal lanes are put together column by column, since a dump has a
million.

Source: NVIDIA's ``cudacoredump.h``, and cuda-gdb for what its fields mean to a debugger."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from symd.cores import (
    MAX_REGISTER_BYTES,
    TRAPPED,
    CodeIdentity,
    DumpedCode,
    LoadedImage,
    LoadedText,
    MemoryWindow,
    StoppedCore,
    WaveRegisters,
    cuda_fault,
    functions_of,
    identity_of,
)
from symd.errors import SymdError
from symd.formats.budget import Budget
from symd.formats.containers.format import Element
from symd.formats.containers.nvidia import core_sections, cubin, cuda_core
from symd.formats.containers.nvidia.core_sections import (
    CALLS,
    CTAS,
    DEVICES,
    GLOBAL_MEMORY,
    GRIDS,
    LANES,
    LOCAL_MEMORY,
    METADATA,
    NO_ROW,
    PARAMETERS,
    PREDICATES,
    REGISTERS,
    SHARED_MEMORY,
    SMS,
    UNIFORM_REGISTERS,
    WARPS,
    CoreSections,
    TableRows,
)
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.columns import I64, U64
from symd.model.cores import (
    NOT_LOADED,
    CoreDevice,
    CoreDump,
    CoreFault,
    CoreFrame,
    CoreImage,
    CorePlace,
    CoreStack,
    CoreWave,
)
from symd.model.texts import counted

MAX_LANES = 32
"""Lanes of a warp."""


def read(data: bytes, budget: Budget) -> StoppedCore:
    """Raises Malformed where the section table cannot be read, LimitExceeded."""
    return _CudaDump(CoreSections(data, budget), budget).core()


def memory(data: bytes, budget: Budget, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
    """The content of global memory at these addresses and sizes; None where the dump does not have all of it. Raises
    Malformed, LimitExceeded."""
    sections = CoreSections(data, budget)
    held = sorted(sections.extent(section) for kind in GLOBAL_MEMORY for section, _ in sections.placed(kind))
    starts = [address for address, _, _ in held]

    def read(address: int, size: int) -> bytes | None:
        at = bisect_right(starts, address) - 1
        if at < 0:
            return None
        start, size_held, offset = held[at]
        inside = address - start
        return data[offset + inside : offset + inside + size] if size <= size_held - inside else None

    return tuple(read(*each) for each in ranges)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Lanes that exist, with the rows of the tables they belong to, and what makes them equal or different."""

    row: I64
    warp: I64
    cta: I64
    sm: I64
    device: I64
    grid: I64
    lane: I64
    pc: U64
    offset: U64
    exception: U64
    error_pc: U64
    has_error_pc: U64
    active: U64
    stack: I64
    trapped: U64
    """Whether the lane stopped at a breakpoint or trap."""

    def __len__(self) -> int:
        return len(self.row)


class _CudaDump:
    """The tables of a dump, and what is found out about its lanes, code and call stacks when somebody asks for it.
    ``notes`` say what is left out, and ``call_stacks`` has each list of calls once."""

    def __init__(self, sections: CoreSections, budget: Budget) -> None:
        self.sections, self.budget = sections, budget
        self.notes: list[str] = []
        self.devices = sections.rows(DEVICES)
        self.grids = sections.rows(GRIDS)
        self.sms = sections.rows(SMS)
        self.ctas = sections.rows(CTAS)
        self.warps = sections.rows(WARPS)
        self.all_lanes = sections.rows(LANES)
        self.calls = sections.rows(CALLS)
        self.call_stacks: list[tuple[tuple[int, int], ...]] = [()]
        self._register_bytes = 0
        self._known_frames: dict[tuple[str, int, CorePlace | None], CoreFrame] = {}

    def core(self) -> StoppedCore:
        images = self.images
        stacks = sorted(self._stacks(), key=_order)
        dump = CoreDump(
            cuda_core.NAME,
            self._facts(),
            tuple(self._devices()),
            tuple(each.image for each in images),
            tuple(stack for stack, _ in stacks),
            (*self.sections.notes, *self.notes),
        )
        return StoppedCore(dump, tuple(each for _, each in stacks), tuple(each.identity for each in images))

    def _devices(self) -> Iterator[CoreDevice]:
        rows = self.devices
        for name, target, number in zip(*(rows[field].tolist() for field in ("name", "sm", "id")), strict=True):
            yield CoreDevice(number, self.sections.string(name), self.sections.string(target) or None)

    def _facts(self) -> dict[str, str | int]:
        rows = self.sections.rows(METADATA)
        if not len(rows):
            return {}
        first = {name: int(column[0]) for name, column in rows.fields.items()}
        facts: dict[str, str | int] = {
            "generator": self.sections.string(first["generator"]),
            "driver": f"{first['driver']}.{first['driver_minor']}",
            "cuda": f"{first['cuda']}.{first['cuda_minor']}",
            "flags": first["flags"],
            "time": first["time"],
        }
        return {name: value for name, value in facts.items() if value not in ("", "0.0", 0)}

    @cached_property
    def images(self) -> list[LoadedImage]:
        return [self._image(number, each) for number, each in enumerate(core_sections.loaded_modules(self.sections))]

    def _image(self, number: int, module: core_sections.LoadedModule) -> LoadedImage:
        notes: list[str] = []
        unrelocated = self._code(module.name, module.image, notes)
        relocated = self._code(module.name, module.relocated, notes)
        known = relocated if relocated is not None and relocated.linked else unrelocated or relocated
        name = f"{module.name} (handle {module.handle:#x})"
        if known is None:
            return LoadedImage(CoreImage(name, None, (), None, notes=tuple(notes)))
        image = CoreImage(name, known.target, (), module.name)
        if relocated is None:
            return LoadedImage(_noted(image, (*notes, "without its relocated image its addresses are not known")))
        if not relocated.linked:
            return LoadedImage(_noted(image, (*notes, NOT_LOADED)))
        texts = tuple(_texts(number, relocated))
        ranges = tuple(sorted((text.start, text.end) for text in texts))
        return LoadedImage(_noted(image, notes, ranges), texts, _identity(unrelocated, relocated))

    def _code(self, name: str, section: int | None, notes: list[str]) -> CodeObject | None:
        if section is None:
            return None
        try:
            return cubin.read(Element(name, self.sections.content(section)), self.budget).code_object
        except SymdError as error:
            notes.append(str(error))
            return None

    @cached_property
    def code(self) -> dict[int, DumpedCode]:
        """The loaded code by the row of the device."""
        found: dict[int, list[LoadedText]] = {}
        for module, image in zip(core_sections.loaded_modules(self.sections), self.images, strict=True):
            found.setdefault(module.device, []).extend(image.texts)
        return {device: DumpedCode(texts) for device, texts in found.items()}

    def _place(self, device: int, address: int) -> CorePlace | None:
        code = self.code.get(device)
        return code.place(address) if code else None

    def _lanes(self) -> _Lanes:
        lanes, warps, ctas, sms = self.all_lanes, self.warps, self.ctas, self.sms
        warp = lanes.parents_in(warps)
        cta = _through(warps.parents_in(ctas), warp)
        sm = _through(ctas.parents_in(sms), cta)
        device = _through(sms.parents_in(self.devices), sm)
        number = lanes["lane"].astype(np.int64)
        placed = (device != NO_ROW) & (number >= 0) & (number < MAX_LANES)
        lost = int((~placed).sum())
        if lost:
            self.notes.append(f"left out: {counted(lost, 'lane')} of no warp of a known device")
        mask = warps["existing"].astype(np.int64)[np.maximum(warp, 0)] if len(warps) else np.zeros(len(lanes), np.int64)
        row = np.flatnonzero(placed & (mask >> np.clip(number, 0, 63) & 1 == 1))
        warp, cta, sm, device, number = (each[row] for each in (warp, cta, sm, device, number))
        active = warps["active"][warp] >> number.astype(np.uint64) & np.uint64(1)
        raised = _any_of_warp(lanes["exception"][row] != 0, warp, len(warps))
        exception = np.where(_meant(lanes["exception"][row] != 0, active, warp), lanes["exception"][row], np.uint64(0))
        error_pc, has_error_pc = self._error_pcs(warp, sm, active, exception)
        trapped = _meant((warps["broken"][warp] != 0) & ~raised, active, warp)
        return _Lanes(
            row=row,
            warp=warp,
            cta=cta,
            sm=sm,
            device=device,
            grid=self._grids(device, self.ctas["grid"][cta]),
            lane=number,
            pc=lanes["pc"][row],
            offset=lanes["function_offset"][row],
            exception=exception,
            error_pc=error_pc,
            has_error_pc=has_error_pc,
            active=active,
            stack=self._call_stacks()[row],
            trapped=trapped.astype("u8"),
        )

    def _error_pcs(self, warp: I64, sm: I64, active: U64, exception: U64) -> tuple[U64, U64]:
        """For each lane the address that raised its error, and whether there is one: the warp's, else that of the SM.
        It means the lanes that have an exception; where none of the warp has, those that were active."""
        warps, sms = self.warps, self.sms
        of_warp = warps["valid"][warp] != 0
        raised = _any_of_warp(exception != 0, warp, len(warps))
        meant = np.where(raised, exception != 0, (active != 0) & of_warp)
        valid = meant & (of_warp | (sms["valid"][sm] != 0))
        address = np.where(of_warp, warps["error_pc"][warp], sms["error_pc"][sm])
        return np.where(valid, address, np.uint64(0)), valid.astype(np.uint64)

    def _grids(self, device: I64, grid: U64) -> I64:
        """The row of each lane's grid, by device and id."""
        owners = self.grids.parents_in(self.devices).tolist()
        rows = {key: row for row, key in enumerate(zip(owners, self.grids["id"].tolist(), strict=True))}
        pairs, which = np.unique(np.stack([device.astype(np.uint64), grid]), axis=1, return_inverse=True)
        found = [rows.get((int(owner), int(number)), NO_ROW) for owner, number in pairs.T.tolist()]
        return np.array(found, np.int64)[which.reshape(-1)] if found else np.zeros(0, np.int64)

    def _call_stacks(self) -> I64:
        """For each lane the number of its calls in ``call_stacks``: addresses to return to and their offsets in the
        function, innermost first."""
        calls = self.calls
        owner = calls.parents_in(self.all_lanes)
        kept = np.flatnonzero((owner != NO_ROW) & (calls["return_address"] != 0))
        kept = kept[np.lexsort((calls["level"][kept], owner[kept]))]
        owner = owner[kept]
        returns = [*zip(calls["return_address"][kept].tolist(), calls["function_offset"][kept].tolist(), strict=True)]
        first = np.flatnonzero(np.diff(owner, prepend=-2))
        numbers: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        found = np.zeros(len(self.all_lanes), np.int64)
        ends = np.append(first, len(owner))[1:]
        for lane, start, end in zip(owner[first].tolist(), first.tolist(), ends.tolist(), strict=False):
            found[lane] = numbers.setdefault(tuple(returns[start:end]), len(numbers))
        self.call_stacks = list(numbers)
        return found

    def _stacks(self) -> Iterator[tuple[CoreStack, WaveRegisters | None]]:
        lanes = self._lanes()
        for members in self._equal(lanes):
            stack = self._stack(lanes, members)
            yield stack, self._registers(lanes, members)
        yield from ((stack, None) for stack in self._faults_of_ended_warps(lanes))

    def _equal(self, lanes: _Lanes) -> list[I64]:
        """The numbers of the lanes that are equal, by warp and lane in each list. Raises LimitExceeded."""
        if not len(lanes):
            return []
        same = (lanes.device, lanes.grid, lanes.pc, lanes.offset, lanes.exception, lanes.error_pc, lanes.has_error_pc)
        columns = [column.astype(np.uint64) for column in (*same, lanes.active, lanes.trapped, lanes.stack)]
        distinct, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
        self.budget.count("core_stacks", distinct.shape[1])
        which = which.reshape(-1)
        order = np.lexsort((lanes.lane, lanes.warp, which))
        return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)

    def _stack(self, lanes: _Lanes, members: I64) -> CoreStack:
        first = int(members[0])
        device, grid = int(lanes.device[first]), int(lanes.grid[first])
        pc, error_pc = int(lanes.pc[first]), int(lanes.error_pc[first]) if lanes.has_error_pc[first] else None
        calls = self.call_stacks[int(lanes.stack[first])]
        self.budget.count("core_frames", len(calls) + 1)
        frames = tuple(self._frames(device, pc, error_pc, int(lanes.offset[first]), calls, grid))
        kernel = self._in_kernel(device, grid, 0) or next(
            (frame.place for frame in reversed(frames) if frame.place), None
        )
        return CoreStack(
            device=int(self.devices["id"][device]),
            grid=None if grid == NO_ROW else int(self.grids["id"][grid]),
            kernel=kernel.function or None if kernel else None,
            fault=self._fault(lanes, first),
            active=bool(lanes.active[first]),
            pc=pc,
            error_pc=error_pc,
            frames=frames,
            waves=tuple(self._waves(lanes, members)),
        )

    def _frame(self, kind: Literal["pc", "error_pc", "return"], address: int, place: CorePlace | None) -> CoreFrame:
        """One object for all stacks that have the call: they are as large as that makes them, in the answer too."""
        key = kind, address, place
        known = self._known_frames.get(key)
        if known is None:
            known = self._known_frames[key] = _frame(kind, address, place)
        return known

    def _in_kernel(self, device: int, grid: int, offset: int) -> CorePlace | None:
        """A place in the grid's kernel; None outside of it."""
        if grid == NO_ROW:
            return None
        start = int(self.grids["entry"][grid])
        entry, place = self._place(device, start), self._place(device, start + offset)
        return place if entry and place and _function(entry) == _function(place) else None

    def _frames(
        self,
        device: int,
        pc: int,
        error_pc: int | None,
        offset: int,
        calls: Sequence[tuple[int, int]],
        grid: int,
    ) -> Iterator[CoreFrame]:
        """The stack. Drivers of older generations give PCs in the host's copy of the code: then only what is in the
        kernel itself is known, by its offset in that. Where a jump led out of all code, the PC says no more than the
        error PC."""
        at = self._place(device, pc)
        if at is None and not calls:
            at = self._in_kernel(device, grid, offset)
        raised = self._place(device, error_pc) if error_pc is not None else None
        if error_pc is not None:
            yield self._frame("error_pc", error_pc, raised)
        if error_pc is None or (at and _function(at)) != (raised and _function(raised)):
            yield self._frame("pc", pc, at)
        for number, (address, inside) in enumerate(calls, 1):
            place = self._place(device, address - 1)
            if place is None and number == len(calls) and inside:
                place = self._in_kernel(device, grid, inside - 1)
            yield self._frame("return", address, place)

    def _fault(self, lanes: _Lanes, lane: int) -> CoreFault | None:
        fault = cuda_fault(int(lanes.exception[lane]))
        if fault is None and lanes.has_error_pc[lane]:
            fault = cuda_fault(int(self.sms["exception"][lanes.sm[lane]]))
        if fault is None and lanes.trapped[lane]:
            fault = TRAPPED
        return fault

    def _waves(self, lanes: _Lanes, members: I64) -> Iterator[CoreWave]:
        """The warps of some lanes, which are sorted by warp and lane."""
        warps = lanes.warp[members]
        first = np.flatnonzero(np.diff(warps, prepend=-2))
        masks = np.bitwise_or.reduceat(np.int64(1) << lanes.lane[members], first)
        cta, heads = lanes.cta[members[first]], lanes.row[members[first]]
        columns = (
            *(self.sms["id"][lanes.sm[members[first]]], self.warps["id"][warps[first]], masks),
            *(self.ctas[name][cta] for name in ("x", "y", "z")),
            *(self.all_lanes[name][heads] for name in ("x", "y", "z")),
        )
        for sm, warp, mask, *index in zip(*(column.tolist() for column in columns), strict=True):
            yield CoreWave(sm, warp, (index[0], index[1], index[2]), mask, (index[3], index[4], index[5]))

    @cached_property
    def _register_sections(self) -> tuple[I64, I64, I64]:
        """The section with the registers of each lane, with its predicates, and with each warp's uniform registers."""
        return (
            _sections_by_row(self.sections, self.all_lanes, REGISTERS),
            _sections_by_row(self.sections, self.all_lanes, PREDICATES),
            _sections_by_row(self.sections, self.warps, UNIFORM_REGISTERS),
        )

    @cached_property
    def _memory_sections(self) -> tuple[I64, I64, I64]:
        """The section with the local memory of each lane, with each block's shared memory, and with each launch's
        parameters."""
        return (
            _sections_by_row(self.sections, self.all_lanes, LOCAL_MEMORY),
            _sections_by_row(self.sections, self.ctas, SHARED_MEMORY),
            _sections_by_row(self.sections, self.grids, PARAMETERS),
        )

    def _windows(self, lanes: _Lanes, mine: I64) -> Iterator[MemoryWindow]:
        """The memory of some lanes of one warp."""
        local, shared, parameters = self._memory_sections
        for lane, section in zip(lanes.lane[mine].tolist(), local[lanes.row[mine]].tolist(), strict=True):
            if section != NO_ROW:
                yield MemoryWindow("local", lane, *self.sections.extent(section))
        block = int(shared[lanes.cta[mine[0]]])
        if block != NO_ROW:
            _, size, position = self.sections.extent(block)
            yield MemoryWindow("shared", None, 0, size, position)
        grid = int(lanes.grid[mine[0]])
        given = int(parameters[grid]) if grid != NO_ROW else NO_ROW
        if given != NO_ROW:
            _, size, position = self.sections.extent(given)
            yield MemoryWindow("param", None, int(self.grids["parameters"][grid]), size, position)

    def _registers(self, lanes: _Lanes, members: I64) -> WaveRegisters | None:
        """The registers of the first warp of some lanes."""
        vector, predicates, uniform = self._register_sections
        mine = members[lanes.warp[members] == lanes.warp[members[0]]]
        rows = lanes.row[mine]
        if (vector[rows] == NO_ROW).any():
            return None
        contents = tuple(self.sections.content(int(section)) for section in vector[rows])
        self._register_bytes += sum(map(len, contents))
        if self._register_bytes > MAX_REGISTER_BYTES:
            return None
        return WaveRegisters(
            tuple(lanes.lane[mine].tolist()),
            contents,
            tuple(self._content(int(section)) for section in predicates[rows]),
            self._content(int(uniform[lanes.warp[members[0]]])),
            windows=tuple(self._windows(lanes, mine)),
        )

    def _content(self, section: int) -> bytes:
        return b"" if section == NO_ROW else self.sections.content(section)

    def _faults_of_ended_warps(self, lanes: _Lanes) -> Iterator[CoreStack]:
        """Errors that SMs report and none of their lanes has: the warps had ended. SMs with the same one are told
        together."""
        told = set(lanes.sm[(lanes.exception != 0) | (lanes.has_error_pc != 0)].tolist())
        owners = self.sms.parents_in(self.devices).tolist()
        found: dict[tuple[int, ...], list[int]] = {}
        for sm in np.flatnonzero(self.sms["exception"]).tolist():
            if sm not in told and owners[sm] != NO_ROW:
                error = (int(self.sms[name][sm]) for name in ("exception", "valid", "error_pc"))
                found.setdefault((owners[sm], *error), []).append(int(self.sms["id"][sm]))
        for (device, exception, valid, pc), numbers in found.items():
            place = self._place(device, pc) if valid else None
            yield CoreStack(
                device=int(self.devices["id"][device]),
                grid=None,
                kernel=place.function or None if place else None,
                fault=cuda_fault(exception),
                active=False,
                pc=pc,
                error_pc=pc if valid else None,
                frames=(_frame("error_pc", pc, place),) if valid else (),
                waves=(),
                notes=(_reported_by(numbers),),
            )


def _reported_by(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"SM {numbers[0]} reports it; its warps had ended"
    return f"{len(numbers)} SMs report it ({', '.join(map(str, numbers))}); the warps had ended"


def _any_of_warp(which: NDArray[np.bool_], warp: I64, count: int) -> NDArray[np.bool_]:
    """For each lane whether any of its warp is among ``which``."""
    found = np.zeros(count, np.bool_)
    found[warp[which]] = True
    return found[warp]


def _meant(which: NDArray[np.bool_], active: U64, warp: I64) -> NDArray[np.bool_]:
    """Which lanes an error means that a dump gives to all lanes of a warp, ``which``: those of them that were
    executing; where none was, all of them."""
    executing = which & (active != 0)
    return np.where(_any_of_warp(executing, warp, int(warp.max(initial=0)) + 1), executing, which)


def _texts(number: int, relocated: CodeObject) -> Iterator[LoadedText]:
    """The text sections at their device addresses."""
    for section in relocated.sections:
        if section.executable and section.address:
            end = section.address + section.size
            yield LoadedText(section.address, end, number, section.index, functions_of(relocated, section.index))


def _identity(unrelocated: CodeObject | None, relocated: CodeObject) -> CodeIdentity | None:
    """What the code is known by: its bytes before the driver changed them, where the dump has those."""
    loaded = identity_of(relocated, relocated=True)
    built = identity_of(unrelocated) if unrelocated is not None else None
    return loaded if loaded is None or built is None else loaded._replace(known_by=built.known_by, relocated=False)


def _noted(image: CoreImage, notes: Sequence[str], text: tuple[tuple[int, int], ...] = ()) -> CoreImage:
    return CoreImage(image.name, image.target, text, image.path, notes=tuple(notes))


def _through(parents: I64, row: I64) -> I64:
    """The parents of some rows, ``NO_ROW`` where a row is that already."""
    if not len(parents):
        return np.full(len(row), NO_ROW, np.int64)
    return np.where(row == NO_ROW, NO_ROW, parents[np.maximum(row, 0)])


def _sections_by_row(sections: CoreSections, rows: TableRows, kind: int) -> I64:
    numbers = sections.of_kind(kind)
    found = np.full(len(rows) + 1, NO_ROW, np.int64)
    found[rows.find(*sections.parents(numbers))] = numbers
    return found[:-1]


def _frame(kind: Literal["pc", "error_pc", "return"], address: int, place: CorePlace | None) -> CoreFrame:
    reason = Reason.OUTSIDE_TEXT if place is None else Reason.NO_DEBUG_INFO
    return CoreFrame(kind, address, place, reason)


def _function(place: CorePlace) -> tuple[int, int, int]:
    """What is the same for all places of a function."""
    return place.image, place.section_index, place.section_offset - place.function_offset


def _order(each: tuple[CoreStack, WaveRegisters | None]) -> tuple[bool, int, int, bool, int]:
    """Faults first, then by launch; who was executing before who was waiting."""
    stack = each[0]
    return stack.fault is None, stack.device, stack.grid or 0, not stack.active, stack.pc
