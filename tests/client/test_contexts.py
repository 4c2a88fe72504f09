"""Device addresses as of a time, with real modules: in-process and over the channel, with the same answers."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.api import AliasVerbs, ContextVerbs
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import (
    AliasNotFound,
    BadQuery,
    ContextNotFound,
    KernelNotFound,
    LimitExceeded,
    ModuleNotFound,
    SymdError,
)
from symd.model.addresses import LATEST_TIME, ByAddress, ByKernel, BySection
from symd.model.answers import Reason
from symd.model.contexts import AddressForm, Alias, Context, Load, Segment, Unload
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.paging import to_token
from symd.server.server import build_daemon
from symd.store import Store
from symd.v1 import context_pb2 as messages
from symd.v1 import context_service_pb2
from symd.v1.context_pb2 import MapEvent
from symd.v1.query_pb2 import Origin, PackedQueries
from symd.v1.symbol_service_pb2 import SymbolizeRequest

SAMPLES = Path(__file__).parents[2] / "samples"
VADD = (SAMPLES / "kernels/bin/vadd/skl-O0.dbg").read_bytes()
RAYCAST = (SAMPLES / "kernels/bin/raycast/dg2-opt.dbg").read_bytes()
FILTERS = (SAMPLES / "kernels/bin/filters/igc2-dg2-opt.zebin").read_bytes()
DRIVER = (SAMPLES / "kernels/bin/filters/driver-l0-igc2-dg2-opt.debug-zebin").read_bytes()
AMD = (SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()
HEAP = 0xFFFF8000_FFBF0000


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(batch=300_000), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield {"engine": engine, "client": client}
            daemon.stop(1)


@pytest.fixture(params=["engine", "client"])
def symd(request, parts):
    return parts[request.param]


@pytest.fixture
def context(symd, request):
    """A context of the test's own; its addresses are canonical, as Intel's are."""
    return symd.contexts.add(Context(request.node.name, 1, "gpu 0", "test", 48))


def column(*numbers):
    return np.array(numbers, np.uint64)


def times(*numbers):
    return np.array(numbers, np.int64)


def at_kernel(address, kernel, size=0):
    return Segment(address, size, ByKernel(kernel, 0))


def kernels(answers):
    return [each.answer.kernel or each.answer.reason.name for each in answers]


@pytest.mark.parametrize(("verbs", "part"), [(ContextVerbs, "contexts"), (AliasVerbs, "aliases")])
def test_the_client_has_every_verb_with_the_same_parameters(parts, verbs, part):
    names = [name for name in vars(verbs) if not name.startswith("_")]
    assert len(names) >= 3
    for name in names:
        for each in parts.values():
            told, wanted = (
                inspect.signature(getattr(getattr(each, part), name)),
                inspect.signature(vars(verbs)[name]),
            )
            assert list(told.parameters.values()) == list(wanted.parameters.values())[1:], name


def test_a_time_that_is_absent_is_now_and_after_the_end_the_nanosecond_before_it(symd, context):
    """A load of which nobody knows where it is also lives."""
    vadd = symd.add(VADD).sha256
    here = Load(vadd, 100, (at_kernel(HEAP, "vadd"),), key="here", unload_time=200)
    symd.contexts.record(context, [here, Load(vadd, 100, key="somewhere")])
    assert kernels(symd.contexts.symbolize(context, HEAP)) == ["UNLOADED"]
    symd.contexts.record(context, [Unload("somewhere", 150)])
    assert kernels(symd.contexts.symbolize(context, HEAP)) == ["vadd"]
    assert kernels(symd.contexts.symbolize(context, HEAP, 200)) == ["UNLOADED"]
    mixed = symd.contexts.symbolize(context, column(HEAP, HEAP, HEAP), times(LATEST_TIME, 200, 99))
    assert kernels(mixed) == ["vadd", "UNLOADED", "UNLOADED"]
    symd.contexts.record(context, [Load(vadd, 300, (at_kernel(HEAP + 0x10000, "vadd"),), key="again")])
    assert kernels(symd.contexts.symbolize(context, column(HEAP, HEAP + 0x10000))) == ["UNLOADED", "vadd"]


def test_one_address_is_two_kernels_at_two_times(symd, context):
    """The first module goes, the second comes to the same memory; what is asked in one batch is answered as of its own
    time, with the frames that the module itself gives."""
    vadd, raycast = symd.add(VADD).sha256, symd.add(RAYCAST).sha256
    told = [
        Load(vadd, 100, (at_kernel(HEAP, "vadd"),), key="0x55aa"),
        Load(raycast, 300, (at_kernel(HEAP, "raycast"),), key="0x55aa"),
        Unload("0x55aa", 200),
        Unload("0x55aa", 400),
    ]
    assert symd.contexts.record(context, told) == ["0x55aa"] * 4
    where = HEAP + 0x368
    answers = symd.contexts.symbolize(context, column(*[where] * 7), times(99, 100, 199, 200, 300, 399, 400))
    assert kernels(answers) == ["UNLOADED", "vadd", "vadd", "UNLOADED", "raycast", "raycast", "UNLOADED"]
    assert [each.module for each in answers] == [None, vadd, vadd, None, raycast, raycast, None]
    assert answers[1].answer == symd.symbolize(vadd, [ByKernel("vadd", 0x368)])[0]
    assert answers[4].answer == symd.symbolize(raycast, [ByKernel("raycast", 0x368)])[0]
    assert [frame.function for frame in answers[4].answer.frames] == ["length_squared", "raycast"]
    assert kernels(symd.contexts.symbolize(context, column(where))) == ["raycast"]  # just before the last module went
    assert kernels(symd.contexts.symbolize(context, column(where), LATEST_TIME)) == ["raycast"]  # which is no time
    assert kernels(symd.contexts.symbolize(context, column(where), LATEST_TIME - 1)) == ["UNLOADED"]
    assert kernels(symd.contexts.symbolize(context, column(where, HEAP + 0x7C0, HEAP - 1), 150)) == [
        "vadd", "OUTSIDE_TEXT", "OUTSIDE_TEXT",
    ]  # fmt: skip


def test_a_load_over_a_part_of_another_takes_that_part(symd, context):
    vadd, raycast = symd.add(VADD).sha256, symd.add(RAYCAST).sha256
    symd.contexts.record(
        context,
        [
            Load(raycast, 20, (Segment(HEAP + 0x200, 0x100, ByKernel("raycast", 0x300)),), unload_time=30),
            Load(vadd, 10, (at_kernel(HEAP, "vadd"),)),
        ],
    )
    asked = [(0x1F8, 25), (0x200, 19), (0x200, 20), (0x2F8, 29), (0x300, 29), (0x200, 30), (0x1F8, 30)]
    answers = symd.contexts.symbolize(context, column(*(HEAP + at for at, _ in asked)), times(*(at for _, at in asked)))
    assert kernels(answers) == ["vadd", "vadd", "raycast", "raycast", "vadd", "UNLOADED", "vadd"]
    assert answers[2].answer.section_offset == 0x300


def test_every_text_of_a_zebin_has_an_address_of_its_own(symd, context):
    """Named by kernel, by section name and by section number; sizes come from the module."""
    module = symd.add(FILTERS)
    kernel, other = module.objects[0].kernels[:2]
    places = [ByKernel(kernel.name, 0), BySection(other.section, 0)]
    segments = tuple(Segment(HEAP + 0x10000 * at, 0, place) for at, place in enumerate(places))
    again = (Segment(HEAP + 0x90000, 0, BySection(other.section_index, 0x40)),)
    symd.contexts.record(context, [Load(module.sha256, 5, segments), Load(module.sha256, 5, again, path="")])
    offsets = np.arange(0, 0x340, 8, dtype=np.uint64)
    for start, name, skipped in ((0, kernel.name, 0), (0x10000, other.name, 0), (0x90000, other.name, 0x40)):
        answers = symd.contexts.symbolize(context, offsets + np.uint64(HEAP + start), 6)
        assert list(answers.answers) == list(
            symd.symbolize_column(module.sha256, offsets + np.uint64(skipped), kernel=name)
        )
    with pytest.raises(BadQuery, match="overlap"):
        symd.contexts.record(context, [Load(module.sha256, 5, load_base=HEAP)])


def test_an_amd_code_object_is_loaded_whole_at_its_delta(symd, context):
    module = symd.add(AMD)
    delta = 0x7F12_3450_0000
    symd.contexts.record(context, [Load(module.sha256, 5, load_base=delta)])
    kernel = module.objects[0].kernels[0]
    inside = symd.symbolize(module.sha256, [ByKernel(kernel.name, 16)])[0]
    (answer,) = symd.contexts.symbolize(context, column(delta + inside.address))
    assert answer.answer == inside
    assert (answer.module, answer.address) == (module.sha256, delta + inside.address)
    lower = symd.contexts.add(Context("a delta below zero"))
    symd.contexts.record(lower, [Load(module.sha256, 5, load_base=(1 << 64) - 0x100)])
    (answer,) = symd.contexts.symbolize(lower, column(inside.address - 0x100))
    assert answer.answer == inside


def test_an_elf_from_the_driver_already_has_the_addresses_of_the_device(symd, context):
    """Base 0; and whoever wrote the address without its sign gets the same answer."""
    module = symd.add(DRIVER)
    symd.contexts.record(context, [Load(module.sha256, 5, load_base=0)])
    kernel = module.objects[0].kernels[0]
    inside = symd.symbolize(module.sha256, [ByKernel(kernel.name, 0x80)])[0]
    assert inside.address >> 47 == 0x1FFFF
    answers = symd.contexts.symbolize(context, column(inside.address, inside.address & 0xFFFF_FFFF_FFFF, 1 << 50))
    assert answers[0].answer == answers[1].answer == inside
    assert [each.address for each in answers] == [inside.address, inside.address, 1 << 50]
    assert answers[2].answer.reason is Reason.OUTSIDE_TEXT


def test_truncated_addresses_are_completed_or_ambiguous(symd, context):
    """32 known bits, and the 29-bit pointers of EU-stall samples in units of 8 bytes."""
    vadd, raycast = symd.add(VADD).sha256, symd.add(RAYCAST).sha256
    other = HEAP + (3 << 32)
    told = [
        Load(vadd, 10, (at_kernel(HEAP, "vadd"),)),
        Load(raycast, 20, (at_kernel(other, "raycast"),), unload_time=30),
    ]
    symd.contexts.record(context, told)
    low = (HEAP + 0x368) & 0xFFFF_FFFF
    for form, number in ((AddressForm(0, 32), low), (AddressForm(3, 32), low >> 3)):
        answers = symd.contexts.symbolize(context, column(*[number] * 4), times(5, 15, 25, 35), form)
        assert kernels(answers) == ["UNLOADED", "vadd", "AMBIGUOUS", "vadd"]
        assert answers[1].address == HEAP + 0x368
        assert sorted((each.module, each.address, each.query) for each in answers[2].candidates) == sorted(
            [(vadd, HEAP + 0x368, ByKernel("vadd", 0x368)), (raycast, other + 0x368, ByKernel("raycast", 0x368))]
        )
    beyond = symd.contexts.symbolize(context, column(1 << 33, low + 0x10000), 15, AddressForm(0, 32))
    assert kernels(beyond) == ["OUTSIDE_TEXT", "OUTSIDE_TEXT"]
    wide = symd.contexts.symbolize(context, column((1 << 62) + 1), 15, AddressForm(3, 64))
    assert kernels(wide) == ["OUTSIDE_TEXT"], "what is shifted out of 64 bits is no address"


def test_loads_at_the_same_time_are_ambiguous_unless_they_say_the_same(symd, context):
    vadd, raycast = symd.add(VADD).sha256, symd.add(RAYCAST).sha256
    symd.contexts.record(
        context,
        [
            Load(vadd, 10, (at_kernel(HEAP, "vadd"),), key="a"),
            Load(vadd, 10, (at_kernel(HEAP, "vadd"),), key="b"),
            Load(raycast, 10, (at_kernel(HEAP + 0x100, "raycast"),), key="c"),
            Unload("c", 20),
        ],
    )
    answers = symd.contexts.symbolize(context, column(HEAP + 8, HEAP + 0x108, HEAP + 0x108), times(15, 15, 20))
    assert kernels(answers) == ["vadd", "AMBIGUOUS", "vadd"]
    assert {each.module for each in answers[1].candidates} == {vadd, raycast}
    assert (answers[1].module, answers[1].answer.frames) == (None, ())


def test_a_module_that_comes_later_or_cannot_be_read_is_said_so(symd, context):
    absent, broken = "12" * 32, hashlib.sha256(b"not a module").hexdigest()
    with pytest.raises(SymdError):
        symd.add(b"not a module")
    symd.contexts.record(
        context,
        [Load(digest, 1, (at_kernel(HEAP + 0x1000 * at, "k", 16),)) for at, digest in enumerate((absent, broken))],
    )
    answers = symd.contexts.symbolize(context, column(HEAP, HEAP + 0x1000))
    assert [each.answer.reason for each in answers] == [Reason.UNKNOWN_MODULE, Reason.MALFORMED]
    assert [each.module for each in answers] == [absent, broken]
    with pytest.raises(ModuleNotFound):
        symd.contexts.record(context, [Load(absent, 1, (at_kernel(HEAP, "k"),))])


def test_a_batch_over_many_modules_is_what_each_module_says(symd, context):
    """Every instruction of five modules, shuffled, beside an answer from each module for itself."""
    chance, asked, expected = np.random.default_rng(4), [], []
    for number, data in enumerate((VADD, RAYCAST, FILTERS, AMD, DRIVER)):
        module = symd.add(data)
        for at, kernel in enumerate(module.objects[0].kernels):
            start = HEAP + (number << 24) + (at << 16)
            offsets = np.arange(0, max(kernel.size, 8), 8, dtype=np.uint64)
            path = module.objects[0].path
            place = Segment(start, 1 << 16, ByKernel(kernel.name, 0), path)
            symd.contexts.record(context, [Load(module.sha256, number, (place,))])
            asked.append(offsets + np.uint64(start))
            expected += symd.symbolize_column(module.sha256, offsets, kernel=kernel.name, path=path)
    order = chance.permutation(len(expected))
    answers = symd.contexts.symbolize(context, np.concatenate(asked)[order])
    assert [each.answer for each in answers] == [expected[number] for number in order]


def test_a_batch_that_is_larger_than_a_call_is_answered_whole(symd, context):
    vadd, raycast = symd.add(VADD).sha256, symd.add(RAYCAST).sha256
    places = (at_kernel(HEAP, "vadd"),), (at_kernel(HEAP + 0x10000, "raycast"),)
    symd.contexts.record(
        context, [Load(digest, 1, place) for digest, place in zip((vadd, raycast), places, strict=True)]
    )
    values = np.tile(column(HEAP, HEAP + 0x10368, 5), 200_000)[:500_000]
    answers = symd.contexts.symbolize(context, values, times(*range(5)).repeat(100_000))
    assert len(answers) == 500_000
    assert kernels(answers[99_999:100_002]) == ["UNLOADED", "raycast", "OUTSIDE_TEXT"]
    assert [each.module for each in answers[-3:]] == [None, vadd, raycast]
    assert len(answers.modules) == 2


def test_contexts_and_loads_are_listed(symd, context):
    vadd = symd.add(VADD).sha256
    record = symd.contexts.get(context)
    assert (record.id, record.context.address_bits, record.context.clock) == (context, 48, "test")
    listed = [each.id for each in symd.contexts.all()]
    assert context in listed
    assert [each.id for each in symd.contexts.all(after=context)] == listed[listed.index(context) + 1 :]
    told = [Load(vadd, at, (at_kernel(HEAP, "vadd", 8),), key=str(at)) for at in range(2500)]
    symd.contexts.record(context, told)
    loads = list(symd.contexts.loads(context))
    assert [each for _, each in loads] == told
    assert list(symd.contexts.loads(context, after=loads[-3][0])) == loads[-2:]
    symd.contexts.remove(context)
    for ask in (
        symd.contexts.get,
        symd.contexts.remove,
        lambda name: list(symd.contexts.loads(name)),
    ):
        with pytest.raises(ContextNotFound):
            ask(context)
    with pytest.raises(ContextNotFound):
        symd.contexts.symbolize(context, column(1))


def test_names_lead_to_modules_and_back(symd, context):
    vadd = symd.add(VADD).sha256
    everywhere = Alias("cupti-crc", "1234567890123", vadd)
    here = Alias("handle", context, vadd, "vadd", context)
    symd.aliases.add([everywhere, here])
    assert symd.aliases.resolve("cupti-crc", "1234567890123") == everywhere
    assert symd.aliases.resolve("handle", context, context) == here
    assert symd.aliases.resolve("handle", context) is None
    assert {everywhere, here} <= set(symd.aliases.of(vadd))
    assert everywhere not in set(symd.aliases.of(vadd, after=everywhere))
    with pytest.raises(ModuleNotFound):
        symd.aliases.add([Alias("build-id", "1", "0" * 64)])
    with pytest.raises(ContextNotFound):
        symd.aliases.add([Alias("build-id", "1", vadd, context="0" * 32)])
    symd.aliases.remove("cupti-crc", "1234567890123")
    assert symd.aliases.resolve("cupti-crc", "1234567890123") is None
    for kind, key, where in (("cupti-crc", "1234567890123", ""), ("handle", context, ""), ("build-id", "x", context)):
        with pytest.raises(AliasNotFound):
            symd.aliases.remove(kind, key, where)
    symd.aliases.remove("handle", context, context)
    assert here not in set(symd.aliases.of(vadd))
    for wrong in (Alias("", "1", vadd), Alias("build-id", "", vadd), Alias("build-id", "1", vadd, "x" * 5000)):
        with pytest.raises(BadQuery):
            symd.aliases.add([wrong])
    with pytest.raises(LimitExceeded, match="at most 1024 are taken"):
        symd.aliases.add([Alias("build-id", "x" * 8192, vadd)])


TOP = 1 << 64
WRONG = {
    "an end before the beginning": Load("ab" * 32, 10, (at_kernel(1, "k", 8),), unload_time=10),
    "a time below 0": Load("ab" * 32, -1, (at_kernel(1, "k", 8),)),
    "a time of 2^63 - 1": Load("ab" * 32, (1 << 63) - 1, (at_kernel(1, "k", 8),)),
    "a time of 2^64": Load("ab" * 32, TOP, (at_kernel(1, "k", 8),)),
    "an end of 2^64": Load("ab" * 32, 1, (at_kernel(1, "k", 8),), unload_time=TOP),
    "an address of 2^64": Load("ab" * 32, 1, (at_kernel(TOP, "k", 8),)),
    "an address below 0": Load("ab" * 32, 1, (at_kernel(-8, "k", 8),)),
    "an end behind 2^64": Load("ab" * 32, 1, (at_kernel(TOP - 8, "k", 9),)),
    "an address that is not canonical": Load("ab" * 32, 1, (at_kernel(1 << 50, "k", 9),)),
    "an end behind 2^48": Load("ab" * 32, 1, (at_kernel((1 << 48) - 8, "k", 9),)),
    "more than 4 GiB": Load("ab" * 32, 1, (at_kernel(1, "k", (1 << 32) + 1),)),
    "a size below 0": Load("ab" * 32, 1, (at_kernel(1, "k", -1),)),
    "an offset of 2^64": Load("ab" * 32, 1, (Segment(1, 8, ByKernel("k", TOP)),)),
    "a section of 2^32": Load("ab" * 32, 1, (Segment(1, 8, BySection(1 << 32, 0)),)),
    "an object address below 0": Load("ab" * 32, 1, (Segment(1, 8, ByAddress(-1)),)),
    "segments that overlap": Load("ab" * 32, 1, (at_kernel(16, "k", 9), at_kernel(8, "j", 9))),
    "segments and a base": Load("ab" * 32, 1, (at_kernel(1, "k", 8),), load_base=0),
    "a base of 2^64": Load("ab" * 32, 1, load_base=TOP),
    "no digest": Load("xy" * 32, 1, (at_kernel(1, "k", 8),)),
    "a huge key": Load("ab" * 32, 1, (at_kernel(1, "k", 8),), key="k" * 5000),
    "a huge name": Load("ab" * 32, 1, (at_kernel(1, "k" * 5000, 8),)),
    "a huge number of segments": Load("ab" * 32, 1, tuple(at_kernel(8 * at, "k", 8) for at in range(100_001))),
    "an unload of nothing": Unload("", 1),
    "an unload below 0": Unload("k", -1),
    "an unload at 2^64": Unload("k", TOP),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_is_refused_and_nothing_of_the_call_is_kept(symd, context, wrong):
    good = Load("ab" * 32, 1, (at_kernel(0x100, "k", 8),))
    with pytest.raises((BadQuery, ModuleNotFound)):
        symd.contexts.record(context, [good, wrong])
    assert list(symd.contexts.loads(context)) == []


def test_a_kernel_or_a_text_that_is_not_there_has_no_size(symd, context):
    vadd = symd.add(VADD).sha256
    for place in (ByKernel("nobody", 0), BySection(".nothing", 0), BySection(77, 0), ByAddress(1 << 40)):
        with pytest.raises(KernelNotFound):
            symd.contexts.record(context, [Load(vadd, 1, (Segment(HEAP, 0, place),))])
    with pytest.raises(BadQuery):
        symd.contexts.record(context, [Load(vadd, 1, (Segment(HEAP, 0, ByKernel("vadd", 0x7C0)),))])


def test_questions_that_cannot_be_are_refused(symd, context):
    ask = symd.contexts.symbolize
    for times_, form in (
        (-1, AddressForm()), (1 << 64, AddressForm()), (times(1, 2), AddressForm()), (times(-1), AddressForm()),
        (1, AddressForm(32, 64)), (1, AddressForm(0, 31)), (1, AddressForm(0, 65)), (1, AddressForm(-1, 64)),
    ):  # fmt: skip
        with pytest.raises(BadQuery):
            ask(context, column(1), times_, form)
    for name in ("", "0" * 31, "../../etc"):
        with pytest.raises(BadQuery):
            ask(name, column(1))
    with pytest.raises(BadQuery):
        symd.contexts.add(Context(address_bits=47))
    with pytest.raises(BadQuery):
        symd.contexts.add(Context(process=-1))
    with pytest.raises(BadQuery):
        symd.contexts.add(Context(attributes={str(number): "" for number in range(101)}))
    assert len(ask(context, column())) == 0


def test_truncated_addresses_that_could_stand_for_too_many_places_are_refused(symd, context):
    far = [Load("ab" * 32, 1, (at_kernel(at << 32, "k", 8),)) for at in range(2000)]
    symd.contexts.record(context, far)
    with pytest.raises(LimitExceeded, match="2000 places"):
        symd.contexts.symbolize(context, np.zeros(60_000, np.uint64), 1, AddressForm(0, 32))
    answers = symd.contexts.symbolize(context, column(4), 1, AddressForm(0, 32))
    assert (kernels(answers), len(answers[0].candidates)) == (["AMBIGUOUS"], 64)


def test_the_map_is_there_after_a_restart_and_follows_another_process(tmp_path):
    """Two engines over one folder: each sees what the other was told."""
    with Engine(Store(tmp_path)) as one, Engine(Store(tmp_path)) as other:
        vadd = one.add(VADD).sha256
        name = one.contexts.add(Context())
        one.contexts.record(name, [Load(vadd, 10, (at_kernel(HEAP, "vadd"),), key="k")])
        assert kernels(other.contexts.symbolize(name, column(HEAP), 15)) == ["vadd"]
        one.contexts.record(name, [Unload("k", 14)])
        assert kernels(other.contexts.symbolize(name, column(HEAP), 15)) == ["UNLOADED"]
        other.contexts.record(name, [Load(vadd, 12, (at_kernel(HEAP + 0x1000, "vadd"),), key="k")])
        asked = column(HEAP, HEAP, HEAP + 0x1000), times(11, 12, 13)
        assert kernels(one.contexts.symbolize(name, *asked)) == ["vadd", "UNLOADED", "vadd"]
        other.contexts.remove(name)
        with pytest.raises(ContextNotFound):
            one.contexts.symbolize(name, column(HEAP))
        assert other.contexts.add(Context()) == name
        assert kernels(one.contexts.symbolize(name, column(HEAP), 15)) == ["OUTSIDE_TEXT"]
        one.contexts.record(name, [Load(vadd, 10, (at_kernel(HEAP, "vadd"),))])
    with Engine(Store(tmp_path)) as again:
        assert kernels(again.contexts.symbolize(name, column(HEAP))) == ["vadd"]


MESSAGES = {
    "an event that says nothing": ("RecordEvents", {"events": [MapEvent()]}),
    "a module without a name": ("RecordEvents", {"events": [MapEvent(load=messages.Load(time_ns=1))]}),
    "a segment without a place": (
        "RecordEvents",
        {
            "events": [
                MapEvent(load=messages.Load(module="modules/" + "a" * 64, segments=[messages.Segment(size_bytes=1)]))
            ]
        },
    ),
}


@pytest.mark.parametrize(("method", "fields"), MESSAGES.values(), ids=MESSAGES.keys())
def test_messages_that_no_client_of_ours_sends_are_refused(parts, method, fields):
    client = parts["client"]
    name = "contexts/" + client.contexts.add(Context("hostile"))
    request = getattr(context_service_pb2, f"{method}Request")(context=name, **fields)
    with pytest.raises(BadQuery):
        client._calls.unary(getattr(client._calls.stubs.contexts, method), request)


COLUMNS = {
    "addresses of 3 bytes": {"values": b"abc", "count": 1},
    "half an address": {"values": b"abcdefghi", "count": 1},
    "half a time": {"values": bytes(8), "count": 1, "times_ns": bytes(7)},
    "fewer times than addresses": {"values": bytes(24), "count": 3, "times_ns": bytes(16)},
    "a time of 2^64 - 1 in a column": {"values": bytes(8), "count": 1, "times_ns": b"\xff" * 8},
    "a time of 2^64 - 1": {"values": bytes(8), "count": 1, "time_ns": (1 << 64) - 1},
    "a shift of 2^32 - 1": {"values": bytes(8), "count": 1, "shift": (1 << 32) - 1},
    "an origin that is not there": {"values": bytes(8), "count": 1, "origin": b"\1"},
    "half a number of an origin": {"values": bytes(16), "count": 2, "origin": b"\0"},
    "another context's name": {"values": bytes(8), "count": 1, "context": "contexts/x"},
}


@pytest.mark.parametrize("fields", COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_that_no_client_of_ours_sends_are_refused(parts, fields):
    client = parts["client"]
    origin = Origin(context="contexts/" + client.contexts.add(Context("hostile")))
    for name in ("shift", "context"):
        if name in fields:
            setattr(origin, name, fields[name])
    rest = {name: value for name, value in fields.items() if name not in ("shift", "context")}
    request = SymbolizeRequest(packed_queries=PackedQueries(origins=[origin], **rest))
    with pytest.raises(BadQuery):
        client._calls.unary(client._calls.stubs.symbols.Symbolize, request)


def test_more_addresses_than_the_limit_and_wrong_tokens_are_refused(parts):
    client = parts["client"]
    name = "contexts/" + client.contexts.add(Context("hostile"))
    request = SymbolizeRequest(
        packed_queries=PackedQueries(origins=[Origin(context=name)], count=300_001, values=bytes(300_001))
    )
    with pytest.raises(LimitExceeded, match="300001"):
        client._calls.unary(client._calls.stubs.symbols.Symbolize, request)
    other_list = context_service_pb2.ListLoadsRequest(context=name)
    other_list.page_token = to_token("modules", 1)
    with pytest.raises(BadQuery):
        client._calls.unary(client._calls.stubs.contexts.ListLoads, other_list)
    with pytest.raises(BadQuery):
        list(client.contexts.loads(name.removeprefix("contexts/"), after=(1 << 64) - 1))


def test_a_page_of_contexts_follows_one_whose_last_is_gone(parts):
    client = parts["client"]
    names = [client.contexts.add(Context(f"page {number}")) for number in range(4)]
    ask = context_service_pb2.ListContextsRequest(page_size=len(list(client.contexts.all())) - 2)
    page = client._calls.unary(client._calls.stubs.contexts.ListContexts, ask)
    assert page.contexts[-1].name == f"contexts/{names[1]}"
    client.contexts.remove(names[1])
    ask.page_token = page.next_page_token
    rest = client._calls.unary(client._calls.stubs.contexts.ListContexts, ask)
    assert [each.name for each in rest.contexts] == [f"contexts/{name}" for name in names[2:]]
    for wrong in ("x", [1, 2], ["x"], ["x", "y"]):
        ask.page_token = to_token("contexts", wrong)
        with pytest.raises(BadQuery):
            client._calls.unary(client._calls.stubs.contexts.ListContexts, ask)
