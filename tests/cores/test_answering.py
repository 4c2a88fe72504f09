"""Lines and values of a dump's stacks: from the dump itself, and from modules that have the same code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import InvalidInput
from symd.formats import containers
from symd.model.addresses import BySection, Query, SectionOffset
from symd.model.answers import Reason
from symd.model.cores import CoreDump
from symd.store import Store
from tests.builders.cuda_core import CudaCore
from tests.builders.relocated_cubin import relocated
from tests.cores.dumps import CUBIN, LOADED, ROOT

SAMPLES = ROOT / "samples"
DUMP = SAMPLES / "cores" / "bin" / "illegal_address.nvcudmp"
CUBINS = SAMPLES / "cuda" / "bin"
BASE = 0x7F00_0000_0000


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as engine:
        yield engine


def core(engine: Engine, data: bytes, *modules: bytes) -> CoreDump:
    return engine.core(engine.add(data).sha256, [engine.add(each).sha256 for each in modules])


def dump_of(image: bytes, section: str, offset: int, *, plain: bytes | None = None, **lane: object) -> bytes:
    """One lane at an offset of a text section of a loaded cubin."""
    loaded = relocated(image, BASE)
    dump = CudaCore()
    device = dump.device()
    dump.module(dump.context(device), handle=1, relocated=loaded.data, image=plain)
    dump.grid(device, entry=loaded.text[section], module=1)
    warp = dump.warp(dump.block(dump.sm(device)), existing=1)
    dump.lane(warp, pc=loaded.text[section] + offset, offset=offset, **lane)  # type: ignore[arg-type]
    return dump.build()


def without_debug_data(cubin: bytes) -> bytes:
    """The same cubin, its debug sections called something else."""
    return cubin.replace(b".debug_", b".xebug_").replace(b".nv_debug_", b".nv_xebug_")


def test_the_sample_dump(engine: Engine) -> None:
    """Checked against cuda-gdb 12.4 by hand, and by tests/agreement where that is there."""
    dump = core(engine, DUMP.read_bytes())
    faulting, active, waiting = dump.stacks
    assert faulting.fault is not None
    assert (faulting.fault.number, faulting.kernel) == (14, "_Z5probePfPK6float3")
    calls = [[(each.function, each.line) for each in frame.frames] for frame in faulting.frames]
    assert calls == [[("squared", 13)], [("distance_to", 21)], [("probe", 41)]]
    assert [(value.name, value.values) for value in faulting.values] == [
        ("x", ("1.03906274",)),
        ("y", ("1.02343774",)),
        ("z", ("1.00000024",)),
    ]
    assert (active.values[0].lanes, active.values[0].values) == ((0, 1, 3), ("1.0390625", "1.03906262", "1.03906286"))
    assert [[frame.reason for frame in stack.frames] for stack in (active, waiting)] == [
        [Reason.EXACT] * 3,
        [Reason.EXACT],
    ]


@pytest.mark.parametrize("name", ["raycast.sm_90.lines", "tonemap.sm_75.lines", "raycast.sm_80.ptxas-12.4"])
@pytest.mark.parametrize("with_plain", [False, True])
def test_both_forms_of_an_image_answer_alike(engine: Engine, name: str, with_plain: bool) -> None:
    """The driver's form, in which addresses are final, has the lines that the compiler's form has."""
    cubin = (CUBINS / f"{name}.cubin").read_bytes()
    digest = engine.add(cubin).sha256
    (table,) = engine.lines(digest)
    section = ".text.tonemap" if "tonemap" in name else ".text._Z5probePfPK6float3"
    for offset in range(0, 0xC00, 0x190):
        dump = core(engine, dump_of(cubin, section, offset, plain=cubin if with_plain else None))
        (frame,) = dump.stacks[0].frames
        (answer,) = engine.symbolize(digest, [_query(section, offset)])
        assert (frame.reason, frame.frames) == (answer.reason, answer.frames)
    assert len(table)


def test_a_module_with_the_same_code_answers_for_one_without_debug_data(engine: Engine) -> None:
    cubin = (CUBINS / "raycast.sm_90.debug.cubin").read_bytes()
    bare = without_debug_data(cubin)
    section = ".text._Z7squaredfff"
    for plain in (None, bare):
        data = dump_of(bare, section, 0x90, plain=plain, registers=[0x3F80_0000] * 40, predicates=[0] * 7)
        alone = core(engine, data)
        assert alone.stacks[0].frames[0].reason is Reason.NO_DEBUG_INFO
        assert "has no debug data" in alone.images[0].notes[0]
        helped = core(engine, data, CUBIN, cubin)
        (frame,) = helped.stacks[0].frames
        assert [(each.function, each.line) for each in frame.frames] == [("squared", 13)]
        assert helped.images[0].answered_by == engine.add(cubin).sha256
        assert [value.name for value in helped.stacks[0].values] == ["x", "y", "z"]


def test_functions_that_were_not_loaded_have_no_lines(engine: Engine) -> None:
    """In the driver's form of a cubin they are all at 0, so that they would have one another's."""
    cubin = (CUBINS / "raycast.sm_90.lines.cubin").read_bytes()
    text = ".text._Z5probePfPK6float3"
    image = relocated(cubin, 0x7F00_0000_0000, loaded=[text])
    digest = engine.add(image.data).sha256
    (found,) = engine.module(digest).objects
    assert [kernel.name for kernel in found.kernels] == ["_Z5probePfPK6float3"]
    whole = engine.add(cubin).sha256
    for offset in range(0, 0x400, 0x40):
        (mine,) = engine.symbolize(digest, [_query(text, offset)])
        (theirs,) = engine.symbolize(whole, [_query(text, offset)])
        assert (mine.reason, mine.frames) == (theirs.reason, theirs.frames)


def test_a_module_answers_for_the_functions_of_it_that_were_loaded(engine: Engine) -> None:
    cubin = (CUBINS / "raycast.sm_90.debug.cubin").read_bytes()
    section = ".text._Z7squaredfff"
    image = relocated(without_debug_data(cubin), 0x7F00_0000_0000, loaded=[section])
    data = CudaCore(metadata=None)
    device = data.device()
    data.module(data.context(device), handle=1, relocated=image.data)
    data.grid(device, entry=image.text[section], module=1)
    data.lane(data.warp(data.block(data.sm(device)), existing=1), pc=image.text[section] + 0x90, offset=0x90)
    dump = core(engine, data.build(), cubin)
    (frame,) = dump.stacks[0].frames
    assert [(each.function, each.line) for each in frame.frames] == [("squared", 13)]


def test_a_module_with_other_code_does_not_answer(engine: Engine) -> None:
    cubin = (CUBINS / "raycast.sm_90.debug.cubin").read_bytes()
    bare = without_debug_data(cubin)
    data = dump_of(bare, ".text._Z7squaredfff", 0x90, plain=bare)
    at = cubin.index(_text_of(cubin, ".text._Z7squaredfff"))
    changed = cubin[: at + 8] + bytes((cubin[at + 8] ^ 1,)) + cubin[at + 9 :]
    dump = core(engine, data, changed)
    assert (dump.images[0].answered_by, dump.stacks[0].frames[0].reason) == (None, Reason.NO_DEBUG_INFO)
    assert dump.notes == (f"module {engine.add(changed).sha256} has other code",)


def test_what_is_no_dump_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="not a GPU core dump"):
        core(engine, CUBIN)


def test_a_dump_without_anything(engine: Engine) -> None:
    dump = core(engine, CudaCore(metadata=None).build())
    assert (dump.devices, dump.images, dump.stacks) == ((), (), ())


def test_the_relocated_image_is_a_linked_object(engine: Engine) -> None:
    digest = engine.add(LOADED).sha256
    (found,) = engine.symbolize(digest, [_query(".text.callee", 0x10)])
    assert (found.address, found.reason) == (0x7F00_0000_0210, Reason.NO_DEBUG_INFO)


def _query(section: str, offset: int) -> Query:
    return BySection(section, SectionOffset(offset))


def _text_of(cubin: bytes, name: str) -> bytes:
    (code,) = containers.unpack(cubin).objects
    section = code.section(name)
    assert section is not None
    return section.data


def test_the_process_with_its_code_in_memory(engine: Engine) -> None:
    """librocm-dbgapi 0.77.2 says the same of this dump: PCs, reasons and work-groups of the waves, URI and address of the code."""
    dump = core(engine, (SAMPLES / "cores" / "bin" / "address_error.core").read_bytes())
    first, second = dump.stacks
    assert [[(each.function, each.line) for each in frame.frames] for frame in first.frames] == [[("shade", 23)]]
    assert [each.function for each in second.frames[0].frames] == ["blend", "shade"]
    assert (first.fault and first.fault.meaning, len(first.waves), len(second.waves)) == ("address error", 2, 1)


def test_the_gpu_alone_with_the_file_of_its_code(engine: Engine) -> None:
    """The code object as loaded has no debug data and no sections: the file's is found by its segments."""
    data = (SAMPLES / "cores" / "bin" / "address_error.gpucore").read_bytes()
    alone = core(engine, data)
    assert [stack.frames[0].reason for stack in alone.stacks] == [Reason.NO_DEBUG_INFO] * 2
    code = (SAMPLES / "amdgpu" / "bin" / "v3-gfx906-xnack-off.co").read_bytes()
    whole = core(engine, (SAMPLES / "cores" / "bin" / "address_error.core").read_bytes())
    helped = core(engine, data, (SAMPLES / "amdgpu" / "bin" / "v5-gfx90a.co").read_bytes(), code)
    assert helped.images[0].answered_by == engine.add(code).sha256
    assert [stack.frames[0].frames for stack in helped.stacks] == [stack.frames[0].frames for stack in whole.stacks]


def test_a_compressed_dump_is_the_dump(engine: Engine) -> None:
    plain = core(engine, DUMP.read_bytes())
    packed = core(engine, DUMP.with_name("illegal_address.nvcudmp.gz").read_bytes())
    assert packed.stacks == plain.stacks
    assert [image.path for image in packed.images] == ["content/device0.module0"]
