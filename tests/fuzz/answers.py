"""Answers as targets: everything that a user could ask of some bytes; the ways to the same answer, which must agree; and
index files that are damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from types import ModuleType

from symd.cli.start.file_answers import at_address, at_kernel, direct_answer
from symd.config import Limits
from symd.core import index_lookup
from symd.engine.reading import served
from symd.errors import DataLoss, SymdError
from symd.formats import containers
from symd.index import VERSION, Index
from symd.index.lookup import search_index_file
from symd.index.module import build_index, decoded_objects, described
from symd.index.module_tables import DecodedObject
from symd.index.partial import FileIndex, PartialIndex
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.answers import Answer
from symd.model.breakpoints import SourceLine
from symd.model.frame_text import NeedsIndex
from symd.model.identities import Digest
from symd.model.names import Match, NameQuery
from symd.query.breakpoints import locate
from symd.query.line_tables import lines, ptx_tables
from symd.query.names import find_names
from symd.query.source_files import from_module
from symd.query.symbolize import symbolize
from tests.builders.index_file import with_fitting_checksums
from tests.core.uncompiled import uncompiled
from tests.fuzz import nested, seeds
from tests.fuzz.mutations import Change
from tests.fuzz.questions import ask_everything
from tests.fuzz.target import Refused, Target, fitting
from tests.query.asked import visible_in

LIMITS = Limits()


class Disagreement(AssertionError):
    """Two ways to the same answer end differently."""


def questions(data: bytes) -> None:
    """All questions, and those that are the same must have the same answer; see ``questions``."""
    if not ask_everything(data):
        raise Refused


def ways(data: bytes) -> None:
    """One question about one file, asked of what a partial index decodes for it alone, of one that was asked others before,
    of a partial index of whole code objects, of what reads it without an index, and of the whole index: the same answer, or no
    answer from what decodes less."""
    with fitting():
        unpacked = containers.unpack(data, LIMITS)
        decoded = decoded_objects(unpacked.objects, LIMITS)
        built = build_index(data, LIMITS)
        summary = described(data, Digest("0" * 64), unpacked, decoded)
    whole = Index.open_checked(built)
    undecoded = described(data, Digest("0" * 64), unpacked, [DecodedObject(code, None) for code in unpacked.objects])
    by_object = PartialIndex(unpacked.objects, undecoded, units=False, limits=LIMITS)
    one_shot, of_file = (
        FileIndex(unpacked.objects, summary, LIMITS),
        FileIndex(unpacked.objects, summary, LIMITS).whole(),
    )
    for query in islice(queries_of(whole), 24):
        expected = _answer(whole, query)
        alone = PartialIndex(unpacked.objects, summary, units=True, limits=LIMITS)
        for way, part in (("one-shot", alone), ("partial index", by_object)):
            index = part.index([query])
            if index is not None:
                _same(way, query, _answer(index, query), expected)
        _same("one-shot, asked before", query, _answer(one_shot.for_queries([query]), query), expected)
        _same("whole of one file", query, _answer(of_file, query), expected)
        single = whole.answer(query)
        if single is not None:
            _same("single question", query, single, expected)
    _one_by_one(data, whole)


def _one_by_one(data: bytes, whole: Index) -> None:
    """The file's own text, read without an index."""
    try:
        objects = [*containers.ContainerUnpacker(data, LIMITS, outline=True)]
    except SymdError:  # an outline leaves out SPIR-V, which may be all that can be read here
        return
    for query in islice(_own_places(whole), 64):
        is_named = isinstance(query, ByKernel)
        try:
            place = at_kernel(objects, query.kernel, query.offset) if is_named else at_address(objects, query.address)
            found = direct_answer(*place)
        except (SymdError, NeedsIndex):
            continue
        expected = _answer(whole, query)
        if found != (int(expected.reason), tuple(tuple(frame[:5]) for frame in expected.frames)):
            raise Disagreement(f"one address, {query}:\n{found}\nthe whole index says\n{expected}")


def _own_places(whole: Index) -> Iterator[ByAddress | ByKernel]:
    """Places in kernels, and addresses in text sections, of the code object that the file is."""
    for name, entries in islice(whole.kernels.items(), 2):
        for part in range(4):
            yield ByKernel(name, KernelOffset(part * entries[0].size // 4))
    for number, section in enumerate(whole.sections[:4]):
        size = whole.section_size(number) if section.path == "" else 0
        for address in range(section.address, section.address + size, max(size // 48 & ~3, 4)):
            yield ByAddress(ObjectAddress(address))


def _answer(index: Index, query: Query) -> Answer:
    return symbolize(index, [query])[0]


def _same(way: str, query: Query, found: Answer, expected: Answer) -> None:
    if found != expected:
        raise Disagreement(f"{way}, {query}:\n{found}\nthe whole index says\n{expected}")


def queries_of(index: Index) -> Iterator[Query]:
    """Places in kernels and text sections, at their edges and inside."""
    for name, entries in islice(index.kernels.items(), 4):
        for part in range(4):
            yield ByKernel(name, KernelOffset(part * entries[0].size // 3))
    for section in islice(index.sections, 4):
        yield ByAddress(ObjectAddress(section.address))
        yield ByAddress(ObjectAddress(section.address + 16))
        if section.section is not None:
            yield BySection(section.section, SectionOffset(24))


_HEADER = struct.Struct("<8sIIII")
_COLUMN = struct.Struct("<36s4sQQQ")


@cache
def _index_files() -> list[bytes]:
    return seeds.spread((build_index(data, LIMITS) for data in seeds.spread(seeds.files(), 40)), 24)


def mutate_index(dice: random.Random, data: bytes, change: Change) -> bytes:
    """Bytes anywhere, or of one column, with a checksum that is right most of the time: what a disk, and what a process
    that builds indexes, could do."""
    if len(data) <= _HEADER.size or dice.random() < 1 / 16:
        return change(data)
    _, _, count, _, _ = _HEADER.unpack_from(data)
    count = min(count, (len(data) - _HEADER.size) // _COLUMN.size)
    if not count or dice.random() < 1 / 4:
        return with_fitting_checksums(data[:16] + change(data[16:]))
    image = bytearray(data)
    at = _HEADER.size + dice.randrange(count) * _COLUMN.size
    name, kind, offset, entries, stored = _COLUMN.unpack_from(data, at)
    width = kind[2] - ord("0") if kind[2:3].isdigit() else 1
    content = change(data[offset : offset + width * stored])[: max(width * stored, 0) or None]
    image[offset : offset + len(content)] = content
    if dice.random() < 1 / 4:
        entries = dice.choice((0, 1, min(entries + 1, (1 << 64) - 1), 1 << 20))
        image[at : at + _COLUMN.size] = _COLUMN.pack(name, kind, offset, entries, dice.choice((1, entries, stored)))
    return with_fitting_checksums(image)


def ask_index(data: bytes) -> None:
    """A damaged index: refused as damaged when it is opened, or answers, or says at the question that it is damaged."""
    with fitting({"DATA_LOSS"}):
        index = Index.open_checked(data)
        assert index.summary.format is not None
        for path in [None, *index.objects[:4]]:
            for table in lines(index, path):
                assert len(table) == len(table.line)
        for query in islice(queries_of(index), 24):
            index.answer(query)
        for match in Match:
            list(islice(find_names(index, NameQuery("*", match)), 500))
        for file in sorted({index.strings[number] for number in index.rows.file[:4].tolist()}):
            locate(index, SourceLine(file, 1), every_address=True)
        assert index.locations is not None
        list(symbolize(index, list(islice(queries_of(index), 24))))


_ANYWHERE = (0, 4, 0x40, 0x1000, 0x1F00, 1 << 32, (1 << 64) - 1)
"""Addresses to ask about where an index does not say where text is."""
_PLACES_OF_A_SECTION = 12


def read_index_plainly(data: bytes) -> None:
    """A damaged index read for the first answer from it: nothing but answers and refusals, compiled and uncompiled the same, and what is answered is
    what a column answers, where that is none that says it is damaged."""
    file, digest = memoryview(data), _digest_in(data).hex()
    try:
        whole = Index.open_checked(data)
    except DataLoss as error:
        for address in _ANYWHERE:
            _read_twice(data, address)
            search_index_file(file, digest, ByAddress(ObjectAddress(address)))
        raise Refused from error
    for address in [*_ANYWHERE, *_addresses(whole)]:
        query = ByAddress(ObjectAddress(address))
        found = search_index_file(file, digest, query)
        _read_twice(data, address)
        if found is not None:
            with suppress(DataLoss):
                _same("plain reading of the index", query, found, symbolize(whole, [query])[0])


def _read_twice(data: bytes, address: int) -> None:
    """Raises Disagreement where the compiled reading does not end as the uncompiled one."""
    ends: list[object] = []
    for core in (index_lookup, _uncompiled()):
        try:
            ends.append(core.IndexLookup(memoryview(data), VERSION).answer(address))
        except core.Damaged as error:
            ends.append(str(error))
    if ends[0] != ends[1]:
        raise Disagreement(f"{address:#x}: {ends[0]} compiled, {ends[1]} uncompiled")


@cache
def _uncompiled() -> ModuleType:
    return uncompiled("index_lookup")


def _addresses(whole: Index) -> Iterator[int]:
    for number, section in enumerate(whole.sections[:4]):
        size = whole.section_size(number)
        for part in range(_PLACES_OF_A_SECTION + 1):
            yield section.address + part * size // _PLACES_OF_A_SECTION


def _digest_in(data: bytes) -> bytes:
    """The SHA-256 of the module as an index file says it; none where it does not."""
    table = data[_HEADER.size :]
    for at in range(0, len(table) - _COLUMN.size + 1, _COLUMN.size):
        name, _, offset, _, stored = _COLUMN.unpack_from(table, at)
        if name.rstrip(b"\0") == b"module_sha256":
            return data[offset : offset + stored]
    return b""


def flipped_index(data: bytes) -> None:
    """An index file with other bytes, its checksum as it was: DATA_LOSS, or the same bytes."""
    original, changed = data[: len(data) // 2], data[len(data) // 2 :]
    try:
        Index.open_checked(changed)
    except DataLoss as error:
        raise Refused from error
    if changed != original:
        raise Disagreement("an index file with other bytes is taken")


def _flip(dice: random.Random, data: bytes, change: Change) -> bytes:
    """The first half is the file as it was; the second is changed, and stays as long."""
    del dice
    half = len(data) // 2
    return data[:half] + change(data[half:])[:half].ljust(half, b"\0")


def _twice() -> Sequence[bytes]:
    return [data + data for data in _index_files()]


@cache
def _worker_answers() -> list[bytes]:
    """What reading processes answer about samples."""
    found = []
    for data in seeds.spread(seeds.files(), 24):
        objects = containers.unpack(data, LIMITS).objects
        index = Index(build_index(data, LIMITS))
        for query in islice(queries_of(index), 2):
            at = symbolize(index, [query])[0]
            if at.section_index is not None and at.section_offset is not None:
                found.append(served.encode(visible_in(objects, at.path or "", at.section_index, at.section_offset)))
        found.append(served.encode(tuple(ptx_tables(objects, None))))
        found.append(served.encode(tuple(from_module(objects, index.strings[:40]))))
    return seeds.spread(found, 40)


def decode_value(data: bytes) -> None:
    """What a reading process answered, or a defect of it wrote instead."""
    with fitting({"DATA_LOSS"}):
        served.decode(data)


TARGETS: Mapping[str, Target] = {
    "questions": Target(questions, nested.files, nested.mutate, distilled=False),
    "ways": Target(ways, nested.files, nested.mutate, distilled=False),
    "index": Target(ask_index, _index_files, mutate_index),
    "index.plain": Target(read_index_plainly, _index_files, mutate_index),
    "values": Target(decode_value, _worker_answers),
    "index.flipped": Target(flipped_index, _twice, _flip),
}
