"""A listing joins instructions with the frames that symbolizing gives for each of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symd.engine.engine import Engine
from symd.errors import KernelNotFound, ObjectNotFound, SymdError, ToolMissing, Unsupported
from symd.formats import containers
from symd.model.addresses import BySection, SectionOffset
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.line_tables import WHOLE_MODULE, CodeSpan, Instructions, ListingPart
from symd.query.line_tables import chosen
from symd.store import Store
from tests.query.disasm.objects import SAMPLES, made

KERNELS = SAMPLES / "kernels" / "bin"
PARTICLES = KERNELS / "particles" / "skl-opt.bin"


def every_eight(codes, kernel, *_) -> list[Instructions | SymdError]:
    """A stand-in for disassemblers: an instruction each 8 bytes of every text section."""
    results: list[Instructions | SymdError] = []
    for code in codes:
        if code.path.endswith("emit"):
            results.append(ToolMissing("not installed"))
            continue
        at = [(s.index, offset) for s in code.sections if s.executable for offset in range(0, len(s.data), 8)]
        section, offset = np.array(at).T
        texts = [f"op {kernel} {index}+{number}" for index, number in at]
        sizes = np.full(len(at), 8, np.uint32)
        results.append(Instructions(section.astype(np.uint32), offset.astype(np.uint64), sizes, texts, "made up"))
    return results


@pytest.fixture
def engine(tmp_path: Path):
    with Engine(Store(tmp_path), disassemble=every_eight) as made_engine:
        yield made_engine


@pytest.mark.parametrize(
    "name", ["particles/igc2-dg2-O0.zebin", "raycast/dg2-O0.dbg", "raycast/driver-l0-igc2-pvc-opt.debug-zebin"]
)
def test_each_instruction_has_the_frames_that_symbolizing_gives(engine: Engine, name: str) -> None:
    digest = engine.add((KERNELS / name).read_bytes()).sha256
    count = 0
    for listing in engine.listing(digest):
        answers = [listing.answers[number] for number in range(len(listing))]
        places = [(each.section_index, each.section_offset) for each in answers]
        assert [text.split()[-1] for text in listing.text] == [f"{section}+{offset}" for section, offset in places]
        queries = [BySection(section or 0, SectionOffset(offset or 0)) for section, offset in places]
        assert answers == [*engine.symbolize(digest, queries, listing.path)]
        count += len(listing)
    assert count > 100


def test_one_code_object_that_cannot_be_disassembled_is_told_and_the_others_are_listed(engine: Engine) -> None:
    digest = engine.add(PARTICLES.read_bytes()).sha256
    found = {listing.path: listing for listing in engine.listing(digest)}
    assert found["debug/emit"].problem == "not installed"
    assert not len(found["debug/emit"])
    assert not found["debug/attract"].problem
    assert len(found["debug/attract"])
    assert "spirv" not in found


def test_where_nothing_can_be_disassembled_the_reason_is_raised(engine: Engine) -> None:
    digest = engine.add(PARTICLES.read_bytes()).sha256
    with pytest.raises(ToolMissing):
        engine.listing(digest, ListingPart(path="debug/emit")).__next__()


def test_a_part_is_one_object_one_kernel_and_a_device_for_those_that_name_none() -> None:
    codes = list(containers.unpack(PARTICLES.read_bytes()).objects)
    (attract,) = (CodeSpan(code.path, 1, 0, 8) for code in codes if code.path == "debug/attract")
    assert [code.path for code in chosen(codes, None, [attract], None)] == ["debug/attract"]
    assert [code.path for code in chosen(codes, "spirv", None, None)] == ["spirv"]
    assert {code.target for code in chosen(codes, None, None, "dg2")} == {"gen9"}
    assert [code.target for code in chosen([made(b"", target=None)], None, None, "dg2")] == ["dg2"]
    with pytest.raises(ObjectNotFound):
        chosen(codes, "nowhere", None, None)


def test_an_engine_without_disassemblers_refuses(tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(PARTICLES.read_bytes()).sha256
        with pytest.raises(ToolMissing):
            engine.listing(digest)


def test_spirv_alone_has_no_machine_code(tmp_path: Path) -> None:
    def refuse(codes: list[CodeObject], *_) -> list[SymdError]:
        return [Unsupported(code.format) for code in codes]

    with Engine(Store(tmp_path), disassemble=refuse) as engine:
        digest = engine.add((KERNELS / "vadd" / "opt.spv").read_bytes()).sha256
        with pytest.raises(Unsupported):
            next(engine.listing(digest, WHOLE_MODULE))


def test_code_without_debug_information_is_listed_with_the_names_of_its_symbols(engine: Engine) -> None:
    digest = engine.add((SAMPLES / "amdgpu" / "bin" / "v4-gfx900-nodebug.co").read_bytes()).sha256
    (listing,) = engine.listing(digest)
    first = listing.answers[0]
    assert first.reason is Reason.NO_DEBUG_INFO or first.frames[0].function == "march"
    assert {answer.kernel for answer in listing.answers} >= {"shade", "clear"}


@pytest.mark.parametrize(
    ("file", "asked", "said"),
    [
        ("amdgpu/bin/v4-gfx900.co", "shad", "there is no function 'shad' (did you mean shade?)"),
        ("kernels/bin/filters/igc2-dg2-opt.zebin", "smoth", "there is no function 'smoth' (did you mean smooth?)"),
        ("cuda/bin/raycast.sm_90.debug.cubin", "raycst", "(did you mean raycast?)"),
        ("amdgpu/bin/v4-gfx900.co", "qqqq", "there is no function 'qqqq'"),
    ],
)
def test_a_kernel_that_is_not_there_is_told_with_those_like_it(
    engine: Engine, file: str, asked: str, said: str
) -> None:
    digest = engine.add((SAMPLES / file).read_bytes()).sha256
    with pytest.raises(KernelNotFound) as refused:
        engine.listing(digest, ListingPart(within=asked))
    assert said in str(refused.value)
    assert "symd " not in str(refused.value)


def test_a_code_object_that_is_not_there_is_told_before_its_kernel(engine: Engine) -> None:
    digest = engine.add((SAMPLES / "cuda/bin/raycast.sm_90.debug.cubin").read_bytes()).sha256
    with pytest.raises(ObjectNotFound, match="there is no code object 'nowhere'"):
        engine.listing(digest, ListingPart(path="nowhere", within="squared"))
