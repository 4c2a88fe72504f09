"""One address of an index file, compiled and uncompiled, has the answer that it has in a column; damage ends in an error."""

from __future__ import annotations

import subprocess
import sys
from bisect import bisect_right
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from symd.config import Limits
from symd.core import index_lookup
from symd.core.index_lookup import CHECKSUM_BLOCK, COLUMN, COLUMN_NAME, HEADER, KEPT_ANSWERS, LAST_REASON
from symd.errors import DataLoss, SymdError
from symd.index import MAX_COLUMN_BYTES, VERSION, Index
from symd.index.derived import NO_DEBUG_DATA
from symd.index.format import decode, narrow
from symd.index.locations import LocationFrames, ModuleRanges, Owners
from symd.index.lookup import FEW_SECTIONS, search_index_file
from symd.index.module import build_index
from symd.index.packing import GROUP, PAGE_SHIFT, encode_starts
from symd.index.portions import named
from symd.index.schema import SCHEMA
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Answer, Frame, Reason
from symd.model.debug_info import BODY
from symd.model.reasons import KNOWN
from symd.query.symbolize import symbolize, symbolize_column
from tests.builders.index_file import encode, pack_ranges, with_fitting_checksums
from tests.core.uncompiled import uncompiled
from tests.query.asked import symbolize_one

UNCOMPILED = uncompiled("index_lookup")
BOTH = pytest.mark.parametrize("core", [index_lookup, UNCOMPILED], ids=["compiled", "uncompiled"])
REASONS = (None, *map(Reason, range(1, LAST_REASON + 1)))
SAMPLES = Path(__file__).parents[2] / "samples"
FILES = sorted(
    path
    for pattern in (
        "amdgpu/bin/v*",
        "cuda/bin/*.cubin",
        "kernels/bin/*/*dg2-opt*",
        "kernels/bin/*/opt.spv",
        "spirv/bin/*.spv",
        "cuda/bin/*.fatbin",
    )
    for path in SAMPLES.glob(pattern)
    if path.is_file()
)


def opened(core: ModuleType, file: bytes | bytearray, **how: Any) -> Any:
    return core.IndexLookup(memoryview(file), VERSION, answer_type=Answer, frame_type=Frame, reasons=REASONS, **how)


def said(core: ModuleType, file: bytes | bytearray, address: int, digest: bytes | None = None) -> Answer | None:
    """None too where the file is damaged."""
    try:
        found: Answer | None = opened(core, file, digest=digest).answer(address)
    except (index_lookup.Damaged, UNCOMPILED.Damaged):
        return None
    return found


@pytest.fixture(scope="module")
def indexes() -> dict[Path, bytes]:
    found = {}
    for path in FILES:
        try:
            found[path] = build_index(path.read_bytes(), Limits())
        except SymdError:
            continue
    return found


@pytest.mark.parametrize("as_written", [False, True])
def test_every_answer_is_that_of_a_column(indexes: dict[Path, bytes], as_written: bool) -> None:
    """Of files whose checksums nobody compared, of open indexes, and uncompiled."""
    kinds, answered, inlined = set(), 0, 0
    for path, file in indexes.items():
        index = Index(file).view(as_written=as_written)
        lookups = [opened(core, file, as_written=as_written) for core in (index_lookup, UNCOMPILED)]
        for section in index.sections[:4]:
            addresses = np.arange(section.address, section.address + 3072, 4, dtype=np.uint64)
            answers = symbolize_column(index, addresses)
            for at, (address, known) in enumerate(zip(addresses.tolist(), answers, strict=True)):
                expected = known if known.reason not in (Reason.AMBIGUOUS, Reason.OUTSIDE_TEXT) else None
                assert index.answer(ByAddress(ObjectAddress(address))) == expected, (path, hex(address))
                for lookup in lookups if not at % 7 else lookups[:1]:
                    assert lookup.answer(address) == expected, (path, hex(address))
                answered += expected is not None
                inlined += len(known.frames) > 1
                kinds.add(known.reason)
    assert len(indexes) > 40
    assert (answered > 5000, inlined > 500, len(kinds) > 4) == (True, True, True)


ENDINGS = {".co", ".cubin", ".dbg", ".fatbin", ".spv", ".zebin"}
SOME = sorted(
    path
    for kind in ("amdgpu", "cuda", "spirv", "kernels")
    for path in sorted(path for path in (SAMPLES / kind / "bin").rglob("*") if path.suffix in ENDINGS)[:12]
    if path.is_file()
)


def test_there_are_samples_of_every_kind() -> None:
    assert {path.relative_to(SAMPLES).parts[0] for path in SOME} == {"amdgpu", "cuda", "spirv", "kernels"}


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_one_by_one_few_and_many_agree(path: Path) -> None:
    index = Index(build_index(path.read_bytes(), Limits()))
    for name, entries in list(index.kernels.items())[:4]:
        offsets = np.arange(0, entries[0].size + 8, 4, dtype=np.uint64)
        many = list(symbolize_column(index, np.tile(offsets, 8), kernel=name))[: len(offsets)]
        queries = [ByKernel(name, KernelOffset(int(offset))) for offset in offsets]
        assert [symbolize_one(index, query) for query in queries] == many
        assert [symbolize(index, [query])[0] for query in queries[:16]] == many[:16]
    for place in index.sections[:4]:
        address = ByAddress(ObjectAddress(place.address + 4))
        assert symbolize_one(index, address) == symbolize(index, [address])[0]


def test_of_many_sections_an_address_map_says_which_holds_an_address(indexes: dict[Path, bytes]) -> None:
    columns = dict(decode(indexes[SAMPLES / "amdgpu/bin/v4-gfx900.co"]))
    sections = {name: column for name, column in columns.items() if name.startswith("section_")}
    size, count = int(sections["section_size"][0]), FEW_SECTIONS + 1
    many = {name: np.tile(column[:1], count) for name, column in sections.items()} | {
        "section_address": (np.arange(count) * size).astype(np.uint32),
        "section_base": (np.arange(count) * size).astype(np.uint32),
        "section_number": np.arange(count).astype(np.uint8),
    }
    file = encode(columns | many)
    index, lookup = Index.open_checked(file), opened(index_lookup, file)
    for address in range(0, (count + 1) * size, 52):
        query = ByAddress(ObjectAddress(address))
        known = symbolize(index, [query])[0]
        expected = known if known.reason is not Reason.OUTSIDE_TEXT else None
        assert index.answer(query) == lookup.answer(address) == expected
        if expected is not None:
            assert expected.section_index == address // size


def test_an_answer_does_not_depend_on_what_was_asked_before() -> None:
    data = build_index((SAMPLES / "kernels/bin/raycast/dg2-opt.dbg").read_bytes(), Limits())
    index = Index(data)
    for kernel, ((_, _, _, size),) in index.kernels.items():
        for asked in (range(0, size, 4), range(size - 4, -1, -4), range(0, size, 900)):
            for at in asked:
                query = ByKernel(kernel, KernelOffset(at))
                assert index.answer(query) == Index(data).answer(query)


def of_several_pages(spread: int, columns: int) -> tuple[np.ndarray, bytes]:
    """(where its ranges start, an index file)."""
    chance = np.random.default_rng(columns + spread)
    count, owners = 3 << PAGE_SHIFT, 300
    start = np.cumsum(chance.integers(1, 5 * spread, count)) * 4
    run = np.unique(np.append(0, chance.integers(0, count, count // 3)))
    found = ModuleRanges(
        start=start.astype(np.uint64),
        line=chance.integers(0, 3, count).astype(np.uint32) * chance.integers(1000, 5000, count).astype(np.uint32),
        column=chance.integers(0, columns, count),
        reason=chance.choice([int(Reason.EXACT), int(Reason.APPROXIMATE), int(Reason.INFERRED)], count).astype(np.uint8),
        run=run,
        run_frame=chance.integers(0, owners - 1, len(run)),
        frames=LocationFrames(np.arange(1, owners), np.zeros(owners - 1, np.uint8), np.full(owners - 1, 2), np.full(owners - 1, 999)),
        owners=Owners(
            np.full(owners, 1), np.zeros(owners, np.uint8), np.arange(owners) % 3 != 1, np.maximum(np.arange(owners) - 1, 0),
            np.full(owners, 2), np.arange(owners), np.arange(owners) % 7, np.full(owners, 2), np.arange(owners) % 5,
        ),
    )  # fmt: skip
    text = {"string_ends": np.array([0, 1, 2], np.uint8), "string_data": np.frombuffer(b"fg", np.uint8)}
    one = np.zeros(1, np.uint8)
    section = {"section_size": np.array([int(start[-1]) + 8], np.uint64)}
    own = {**named("frame", found.frames), **named("owner", found.owners)}
    packed = {**encode_starts([found.start]), **pack_ranges(found)}
    narrowed = {name: narrow(np.asarray(column, np.uint64)) for name, column in own.items()}
    none = {name: one[:0] for name in SCHEMA if name.startswith("written_")}
    return start, encode(
        {
            **dict.fromkeys(SCHEMA, one),
            **none,
            "module_sha256": np.arange(32, dtype=np.uint8),
            **text,
            **section,
            **narrowed,
            **packed,
        }
    )


@BOTH
@pytest.mark.parametrize("spread", [1, 1 << 20], ids=["bitmap", "sorted"])
@pytest.mark.parametrize("columns", [200, 70_000])
def test_starts_of_both_kinds_and_several_pages_are_read(core: ModuleType, spread: int, columns: int) -> None:
    chance = np.random.default_rng(columns + spread)
    start, file = of_several_pages(spread, columns)
    index, lookup = Index(file), opened(core, file, digest=bytes(range(32)))
    assert bool(len(index.columns.start_bits)) == (spread == 1)
    addresses = np.append(chance.choice(start, 500), start[-1] + 4).astype(np.uint64)
    answers = list(symbolize_column(index, addresses))
    assert [lookup.answer(address) for address in addresses.tolist()] == answers
    assert {len(answer.frames) for answer in answers} == {1, 2, 3}


def test_pages_that_take_more_than_is_kept_are_closed_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start, file = of_several_pages(1, 200)
    lookup = opened(UNCOMPILED, file)
    every = start[:: 1 << PAGE_SHIFT - 2].tolist()
    expected = [lookup.answer(address) for address in every]
    assert sorted(lookup._pages) == [0, 1, 2]
    assert lookup._page_bytes == sum(page.size for page in lookup._pages.values())
    monkeypatch.setattr(UNCOMPILED, "_KEPT_PAGES", 2 * max(page.size for page in lookup._pages.values()))
    lookup = opened(UNCOMPILED, file)
    for turn in (1, -1, 1):
        assert [lookup.answer(address) for address in every[::turn]] == expected[::turn]
        assert lookup._page_bytes == sum(page.size for page in lookup._pages.values())
        assert len(lookup._pages) == 2


numbers = st.integers(0, 2**45)
starts = st.one_of(st.sets(st.integers(0, 3000), min_size=1), st.sets(numbers, min_size=1)).map(sorted)


def of_lines(positions: list[int]) -> bytes:
    """Ranges that start there, of a function without a name in the file "f", each with its own number as its line."""
    count = len(positions)
    frames = np.arange(1)
    found = ModuleRanges(
        np.array(positions, np.uint64), np.arange(count, dtype=np.uint32), np.zeros(count, int),
        np.full(count, Reason.EXACT, np.uint8), frames, frames,
        LocationFrames(frames, frames, frames, frames), Owners(*[np.zeros(1, int)] * 9),
    )  # fmt: skip
    columns = {name: np.zeros(0 if name.startswith("written_") else 1, np.uint8) for name in SCHEMA} | {
        "frame_file": np.array([1], np.uint8),
        "string_ends": np.array([0, 1], np.uint8),
        "string_data": np.frombuffer(b"f", np.uint8),
        "section_size": np.array([1 << 50], np.uint64),
        **pack_ranges(found),
        **encode_starts([found.start]),
    }
    return encode(columns)


@BOTH
@given(starts, st.lists(numbers, max_size=30))
def test_a_position_is_found_as_a_search_would(core: ModuleType, positions: list[int], asked: list[int]) -> None:
    found = opened(core, of_lines(positions))
    for position in [*positions, *(start + 1 for start in positions), *asked]:
        expected = max(bisect_right(positions, position) - 1, 0)
        assert found.at(position) == (Reason.EXACT, None, (Frame(None, None, "f", expected, 0, False),))


def test_a_bounded_number_of_answers_is_kept() -> None:
    found = opened(UNCOMPILED, of_lines(list(range(0, 4_000, 4))))
    for at in range(0, 4_000, 2):
        assert found.at(at)[2][0].line == at // 4
        assert len(found._kept_answers) <= KEPT_ANSWERS
    assert found.at(8) is found.at(11)


@pytest.mark.parametrize(("length", "is_kept"), [(983, True), (984, False)])
def test_an_answer_of_long_texts_is_not_kept(length: int, is_kept: bool) -> None:
    """Whoever made the module says how long a name is, and every range in the code of a function has it."""
    text = {"string_ends": np.array([0, 1, length + 1], np.uint16), "string_data": np.full(length + 1, 97, np.uint8)}
    file = encode(dict(decode(of_lines([0, 4]))) | text | {"owner_name": np.array([2], np.uint8)})
    found = opened(UNCOMPILED, file)
    assert found.at(4)[2] == (Frame("a" * length, None, "a", 1, 0, False),)
    assert list(found._kept_answers) == ([1] if is_kept else [])


def test_numbers_of_the_layout_are_the_same() -> None:
    assert (UNCOMPILED._RANGES, UNCOMPILED._PAGE_SHIFT, UNCOMPILED._GROUP) == (1 << PAGE_SHIFT, PAGE_SHIFT, GROUP)
    assert UNCOMPILED._BODY == BODY
    assert {UNCOMPILED._NO_DEBUG_INFO, UNCOMPILED._MALFORMED} == {*NO_DEBUG_DATA}
    assert tuple(range(1, LAST_REASON + 1)) == tuple(map(int, KNOWN))
    assert [getattr(UNCOMPILED, f"_{name.upper()}") for name in UNCOMPILED._NAMES] == [*range(len(UNCOMPILED._NAMES))]
    assert SCHEMA.keys() >= set(UNCOMPILED._NAMES)


@BOTH
def test_what_is_no_sound_index_of_the_module_is_answered_by_nothing(
    core: ModuleType, indexes: dict[Path, bytes]
) -> None:
    path = SAMPLES / "amdgpu/bin/v4-gfx900.co"
    file = indexes[path]
    digest = Index(file).columns.module_sha256.tobytes()
    assert said(core, file, 0x1978, digest) is not None
    assert said(core, file, 0x1978, bytes(32)) is None
    assert said(core, file[:-1], 0x1978, digest) is None
    assert said(core, b"", 0x1978, digest) is None
    chance = np.random.default_rng(5)
    right = said(core, file, 0x1978, digest)
    changed = 0
    for _ in range(800):
        wrong = bytearray(file)
        wrong[int(chance.integers(HEADER.size, len(file)))] ^= 1 << int(chance.integers(8))
        assert said(core, wrong, 0x1978, digest) is None, "the checksum tells"
        found = said(core, with_fitting_checksums(wrong), 0x1978, digest)  # no traceback comes of it
        changed += found != right
    assert changed


@BOTH
@pytest.mark.parametrize("spread", [1, 1 << 20], ids=["bitmap", "sorted"])
def test_damage_where_the_answer_is_read_is_seen_and_elsewhere_nobody_looks(core: ModuleType, spread: int) -> None:
    start, file = of_several_pages(spread, 200)
    digest, address = bytes(range(32)), int(start[5000])
    right = said(core, file, address, digest)
    assert right is not None
    first = HEADER.size + COLUMN.size * len(SCHEMA)
    blocks = range(first, len(file) * CHECKSUM_BLOCK // (CHECKSUM_BLOCK + 4), CHECKSUM_BLOCK)
    unread = []
    for at in blocks:
        wrong = bytearray(file)
        wrong[at] ^= 1
        found = said(core, wrong, address, digest)
        assert found in (None, right)
        unread += [at] if found == right else []
    assert 0 < len(unread) < len(blocks)
    wrong = bytearray(file)
    for at in unread:
        wrong[at] ^= 1
    assert said(core, wrong, address, digest) == right
    with pytest.raises(DataLoss, match="checksum mismatch"):
        decode(bytes(wrong))


def test_compiled_and_uncompiled_say_the_same_of_damage(indexes: dict[Path, bytes]) -> None:
    file = indexes[SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"]
    sections = Index(file).sections
    chance = np.random.default_rng(6)
    told = set()
    for _ in range(600):
        wrong = bytearray(file)
        wrong[int(chance.integers(HEADER.size, len(file)))] ^= 1 << int(chance.integers(8))
        address = sections[0].address + 4 * int(chance.integers(200))
        wrong = bytearray(with_fitting_checksums(wrong))
        ends = [how_it_ends(core, wrong, address) for core in (index_lookup, UNCOMPILED)]
        assert ends[0] == ends[1]
        told.add(str(ends[0]))
    assert len([each for each in told if each.startswith("Damaged")]) > 4


def how_it_ends(core: ModuleType, file: bytearray, address: int) -> object:
    try:
        return opened(core, file).answer(address)
    except core.Damaged as error:
        return f"Damaged: {error}"


@BOTH
@pytest.mark.parametrize("around", [3, 4])
def test_owners_around_each_other_are_damage(core: ModuleType, around: int) -> None:
    """Also where one is told as its parent, as the kernel's own body is: 3 is inlined into 2, the body of 4, which is inlined into 2."""
    columns = dict(decode(of_lines([0, 4])))
    owners = {
        "owner_inlined": np.array([0, 0, BODY, 1, 1], np.uint8),
        "owner_parent": np.array([0, 0, around, 2, 2], np.uint8),
    }
    for name, column in columns.items():
        if name.startswith("owner_"):
            owners.setdefault(name, np.repeat(column, 5))
    file = encode(columns | owners | {"frame_owner": np.array([3], np.uint8)})
    with pytest.raises(DataLoss, match="around itself"):
        Index.open_checked(file)
    with pytest.raises(core.Damaged, match="around itself"):
        opened(core, file).at(4)


@BOTH
@pytest.mark.parametrize("reason", [0, 15, Reason.UNRECOGNIZED])
def test_a_reason_that_no_index_has_is_no_answer(core: ModuleType, indexes: dict[Path, bytes], reason: int) -> None:
    """What the whole index refuses as damaged."""
    columns = dict(decode(indexes[SAMPLES / "amdgpu/bin/v4-gfx900.co"]))
    assert len(columns["page_end"]) == 1
    ranges = int(columns["range_count"][0])
    page = zstandard.decompress(columns["page_data"].tobytes())
    packed = zstandard.compress(page[:-ranges] + bytes([reason]) * ranges)
    end = np.array([len(packed)], np.uint16)
    file = encode({**columns, "page_data": np.frombuffer(packed, np.uint8), "page_end": end})
    digest, query = columns["module_sha256"].tobytes(), ByAddress(ObjectAddress(0x1978))
    with pytest.raises(DataLoss, match="reasons that are not there"):
        Index.open_checked(file).answer(query)
    assert search_index_file(memoryview(file), digest.hex(), query) is None
    assert said(core, file, 0x1978, digest) is None


@BOTH
@pytest.mark.parametrize(
    ("name", "entries"),
    [("section_address", MAX_COLUMN_BYTES - 1), ("start_bits", MAX_COLUMN_BYTES), ("start_bits", 1 << 63)],
)
def test_more_equal_entries_than_there_can_be_end_in_no_answer_and_no_endless_search(
    core: ModuleType, indexes: dict[Path, bytes], name: str, entries: int
) -> None:
    file = indexes[SAMPLES / "amdgpu/bin/v4-gfx900.co"]
    digest = Index(file).columns.module_sha256.tobytes()
    wrong = bytearray(file)
    at = file.index(name.encode().ljust(COLUMN_NAME, b"\0"), HEADER.size)
    kind, dtype, offset, _, _ = COLUMN.unpack_from(file, at)
    COLUMN.pack_into(wrong, at, kind, dtype, offset, entries, 1)
    for address in (0x10, 0x1978):
        assert said(core, with_fitting_checksums(wrong), address, digest) is None


def test_it_imports_neither_numpy_nor_what_takes_as_long() -> None:
    """Beside what zstandard imports, which opens the pages of every answer."""
    program = (
        "import sys, zstandard; before = {*sys.modules}; import symd.core.index_lookup; print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "typing", "dataclasses", "re", "click", "symd.errors"}.intersection(done.stdout.split())


@BOTH
@pytest.mark.parametrize("position", [-1, 1 << 64, (1 << 64) - 1])
def test_a_position_that_no_text_has_is_no_crash(core: ModuleType, position: int) -> None:
    found = opened(core, of_lines([0, 4]))
    if position == (1 << 64) - 1:
        assert found.at(position)[2][0].line == 1
        return
    with pytest.raises(core.Damaged):
        found.at(position)
    with pytest.raises(core.Damaged):
        found.answer_in(0, position)


@BOTH
def test_more_starts_than_ranges_are_no_answer(core: ModuleType) -> None:
    """Sums of 64 bits go round where they are compiled, and grow where they are not."""
    file = encode(dict(decode(of_lines(list(range(0, 400, 4))))) | {"start_base": np.array([2**64 - 1], np.uint64)})
    with pytest.raises(core.Damaged):
        opened(core, file).at(200)
