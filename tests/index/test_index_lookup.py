"""One address of an index file read without NumPy: what the index answers, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from symd import index
from symd.config import Limits
from symd.errors import DataLoss, SymdError
from symd.index import Index, plain_index
from symd.index.builder import frame_columns, owner_columns
from symd.index.checksums import PIECE
from symd.index.file_header import COLUMN, COLUMN_NAME, HEADER, LARGEST, VERSION
from symd.index.first_answer import first_answer
from symd.index.format import decode, encode, narrow
from symd.index.locations import Frames, ModuleRanges, Owners
from symd.index.module import build_index
from symd.index.packing import PAGE_SHIFT, pack_ranges
from symd.index.plain_index import answer_at
from symd.index.schema import SCHEMA
from symd.index.starts import GROUP, encode_starts
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Reason
from symd.model.plain_answers import REASONS, NotPlain
from symd.model.reasons import KNOWN
from tests.builders.index_file import with_fitting_checksums

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = sorted(
    path
    for pattern in ("amdgpu/bin/v*", "cuda/bin/*.cubin", "kernels/bin/*/*dg2-opt*", "kernels/bin/*/opt.spv")
    for path in SAMPLES.glob(pattern)
    if path.is_file()
)


def plain(file: bytes, digest: bytes, address: int) -> object:
    try:
        return answer_at(memoryview(file), digest, address)
    except NotPlain:
        return None


def expected(opened: Index, address: int) -> object:
    """As ``plain`` has it: what has no owner, and so perhaps the kernel's name, is left to others."""
    found = opened.answer(ByAddress(ObjectAddress(address)))
    if found is None or not found.frames:
        return None
    return int(found.reason), tuple(tuple(frame[:5]) for frame in found.frames)


@pytest.fixture(scope="module")
def indexes() -> dict[Path, bytes]:
    found = {}
    for path in FILES:
        try:
            found[path] = build_index(path.read_bytes(), Limits())
        except SymdError:
            continue
    return found


def test_every_plain_answer_is_the_indexs(indexes: dict[Path, bytes]) -> None:
    asked = answered = inlined = 0
    kernels = set()
    for path, file in indexes.items():
        opened = Index(file)
        digest = opened.columns.module_sha256.tobytes()
        for section in opened.sections[:4]:
            step = 4 if section.path == "" else 8
            for address in range(section.address, section.address + 3072, step):
                said, known = plain(file, digest, address), expected(opened, address)
                query = ByAddress(ObjectAddress(address))
                if (first := first_answer(memoryview(file), digest.hex(), query)) is not None:
                    assert first == opened.answer(query), (path, hex(address))
                    kernels.add(first.kernel)
                assert (first is None) == (said is None)
                if said is None and known is not None:
                    assert not opened.columns.frame_owner[_frame(opened, address)], (path, hex(address))
                    continue
                assert said == known, (path, hex(address))
                asked += 1
                answered += said is not None
                inlined += isinstance(said, tuple) and len(said[1]) > 1
    assert len(indexes) > 40
    assert len(kernels) > 10
    assert (answered > 5000, inlined > 500, asked > answered) == (True, True, True)


def _frame(opened: Index, address: int) -> int:
    found = opened.address_map(None).one(address)
    assert found is not None
    number = opened.derived.starts.find(np.array([opened.bases[found[0]] + found[1]], np.uint64))
    return int(opened.derived.ranges.frame(number)[0])


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
        frames=Frames(np.arange(1, owners), np.zeros(owners - 1, np.uint8), np.full(owners - 1, 2), np.full(owners - 1, 999)),
        owners=Owners(
            np.full(owners, 1), np.zeros(owners, np.uint8), np.arange(owners) % 3 != 1, np.maximum(np.arange(owners) - 1, 0),
            np.full(owners, 2), np.arange(owners), np.arange(owners) % 7, np.full(owners, 2), np.arange(owners) % 5,
        ),
    )  # fmt: skip
    text = {"string_ends": np.array([0, 1, 2], np.uint8), "string_data": np.frombuffer(b"fg", np.uint8)}
    one = np.zeros(1, np.uint8)
    section = {"section_size": np.array([int(start[-1]) + 8], np.uint64)}
    own = {**frame_columns(found), **owner_columns(found)}
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


@pytest.mark.parametrize("spread", [1, 1 << 20], ids=["bitmap", "sorted"])
@pytest.mark.parametrize("columns", [200, 70_000])
def test_starts_of_both_kinds_and_several_pages_are_read(spread: int, columns: int) -> None:
    chance = np.random.default_rng(columns + spread)
    start, file = of_several_pages(spread, columns)
    opened = Index(file)
    assert bool(len(opened.columns.start_bits)) == (spread == 1)
    frames = set()
    for address in [int(each) for each in chance.choice(start, 500)] + [int(start[-1]) + 4]:
        said = plain(file, bytes(range(32)), address)
        assert said == expected(opened, address)
        assert isinstance(said, tuple)
        frames.add(len(said[1]))
    assert frames == {1, 2, 3}


def test_numbers_of_the_layout_are_the_same() -> None:
    assert (plain_index.PAGE_SHIFT, plain_index._GROUP, index.VERSION) == (PAGE_SHIFT, GROUP, VERSION)
    assert tuple(REASONS) == tuple(map(int, KNOWN))


def test_what_is_no_sound_index_of_the_module_is_answered_by_nothing(indexes: dict[Path, bytes]) -> None:
    path = SAMPLES / "amdgpu/bin/v4-gfx900.co"
    file = indexes[path]
    digest = Index(file).columns.module_sha256.tobytes()
    assert plain(file, digest, 0x1978) is not None
    assert plain(file, bytes(32), 0x1978) is None
    assert plain(file[:-1], digest, 0x1978) is None
    assert plain(b"", digest, 0x1978) is None
    chance = np.random.default_rng(5)
    right = plain(file, digest, 0x1978)
    changed = 0
    for _ in range(800):
        wrong = bytearray(file)
        wrong[int(chance.integers(HEADER.size, len(file)))] ^= 1 << int(chance.integers(8))
        assert plain(bytes(wrong), digest, 0x1978) is None, "the checksum tells"
        said = plain(
            with_fitting_checksums(wrong), digest, 0x1978
        )  # of a file that is wrong on purpose no traceback comes
        changed += said != right
    assert changed


@pytest.mark.parametrize("spread", [1, 1 << 20], ids=["bitmap", "sorted"])
def test_damage_where_the_answer_is_read_is_seen_and_elsewhere_nobody_looks(spread: int) -> None:
    start, file = of_several_pages(spread, 200)
    digest, address = bytes(range(32)), int(start[5000])
    right = plain(file, digest, address)
    assert right is not None
    first = HEADER.size + COLUMN.size * len(SCHEMA)
    pieces = range(first, len(file) * PIECE // (PIECE + 4), PIECE)
    unread = []
    for at in pieces:
        wrong = bytearray(file)
        wrong[at] ^= 1
        said = plain(bytes(wrong), digest, address)
        assert said in (None, right)
        unread += [at] if said == right else []
    assert 0 < len(unread) < len(pieces)
    wrong = bytearray(file)
    for at in unread:
        wrong[at] ^= 1
    assert plain(bytes(wrong), digest, address) == right
    with pytest.raises(DataLoss, match="not what they were"):
        decode(bytes(wrong))


@pytest.mark.parametrize("reason", [0, 15, Reason.UNRECOGNIZED])
def test_a_reason_that_no_index_has_is_no_answer(indexes: dict[Path, bytes], reason: int) -> None:
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
        Index.checked(file).answer(query)
    assert first_answer(memoryview(file), digest.hex(), query) is None
    assert plain(file, digest, 0x1978) is None


@pytest.mark.parametrize(
    ("name", "entries"), [("section_address", LARGEST - 1), ("start_bits", LARGEST), ("start_bits", 1 << 63)]
)
def test_more_equal_entries_than_there_can_be_end_in_no_answer_and_no_endless_search(
    indexes: dict[Path, bytes], name: str, entries: int
) -> None:
    file = indexes[SAMPLES / "amdgpu/bin/v4-gfx900.co"]
    digest = Index(file).columns.module_sha256.tobytes()
    wrong = bytearray(file)
    at = file.index(name.encode().ljust(COLUMN_NAME, b"\0"), HEADER.size)
    kind, dtype, offset, _, _ = COLUMN.unpack_from(file, at)
    COLUMN.pack_into(wrong, at, kind, dtype, offset, entries, 1)
    for address in (0x10, 0x1978):
        assert plain(with_fitting_checksums(wrong), digest, address) is None


def test_it_imports_neither_numpy_nor_what_takes_as_long() -> None:
    program = "import sys; before = {*sys.modules}; import symd.index.plain_index; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "typing", "dataclasses", "re", "click", "symd.errors"}.intersection(done.stdout.split())
