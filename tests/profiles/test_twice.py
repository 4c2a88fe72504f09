"""Running it twice changes nothing, whatever the profile holds; and no profile upsets it."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symd import profiles
from symd.errors import SymdError
from tests.profiles.messages import Profile
from tests.profiles.modules import CUBIN_CRC, SAMPLES
from tests.profiles.test_table import OF, plain
from tests.wire import length_field, number_field

SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

offsets = st.one_of(st.integers(0, 0x480), st.integers(0, (1 << 64) - 1))
texts = st.text(st.characters(exclude_characters=';\n\r"', exclude_categories=["Cs"]), max_size=8)
kernels = st.sampled_from(["smooth", "denoise", "_Z5shadePfPKfi", "absent", "smooth[SIMD16 {1; 1; 1} {1; 1; 1}]"])
addresses = st.one_of(st.integers(0x18F0, 0x1E80), offsets)


@st.composite
def pprofs(draw):
    profile = Profile(
        string_table=[b"", b"gpu-shade", b"lost", *(text.encode() for text in draw(st.lists(texts, max_size=3)))]
    )
    for number in range(1, draw(st.integers(1, 3))):
        profile.mapping.add(
            id=number, build_id=draw(st.integers(0, 2)), memory_limit=draw(st.sampled_from([0, 0x2000]))
        )
    for number, address in enumerate(draw(st.lists(addresses, max_size=8)), 1):
        location = profile.location.add(id=number, mapping_id=draw(st.integers(0, 2)), address=address)
        if draw(st.booleans()):
            location.line.add(function_id=draw(st.integers(0, 2)), line=draw(st.integers(0, 9)))
    for number in range(1, draw(st.integers(1, 3))):
        profile.function.add(id=number, name=draw(st.integers(0, 2)))
    data = profile.SerializeToString()
    unknown = draw(st.binary(max_size=5))
    return length_field(200, unknown) + data + number_field(201, draw(st.integers(0, 1 << 63)))


def folded_lines(parts):
    return "".join(f"{';'.join(frames)} {count}\n" for frames, count in parts).encode()


frames = st.one_of(
    texts.filter(str.strip),
    st.builds("[{}+{:#x}]".format, kernels, offsets),
    st.builds("{}+{:#x}".format, st.sampled_from(["shade.co", "smooth", "absent"]), addresses),
)
foldeds = st.lists(st.tuples(st.lists(frames, min_size=1, max_size=4), st.integers(0, 99)), min_size=1, max_size=6).map(
    folded_lines
)
stalls = st.lists(st.tuples(kernels, offsets, st.integers(0, 99)), min_size=1, max_size=8).map(
    lambda rows: (
        "x\n   Kernel, IP[Address], Active[Events]\n" + "".join(f'"{name}", {at:x}, {n}\n' for name, at, n in rows)
    ).encode()
)
records = st.lists(
    st.fixed_dictionaries(
        {
            "cubinCrc": st.sampled_from([CUBIN_CRC, 5]),
            "functionName": st.sampled_from(["_Z5probePfPK6float3", "_Z7raycastPfi6float3", "f"]),
            "pcOffset": offsets,
        },
        optional={"x": texts, "frames": st.just([])},
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
pcs = st.fixed_dictionaries({"code_object_id": st.integers(0, 4), "code_object_offset": addresses})
samplings = st.lists(st.tuples(pcs, st.integers(-1, 4)), max_size=8)


@st.composite
def rocprofs(draw):
    document = json.loads((SAMPLES / "pc_sampling.json").read_text())
    rows = [{"record": {"pc": pc}, "inst_index": index} for pc, index in draw(samplings)]
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["pc_sample_stochastic"] = rows
    return json.dumps(document, indent=draw(st.sampled_from([None, 1]))).encode()


def twice(data, resolver, name):
    first = profiles.symbolize(data, resolver, name=name)
    second = profiles.symbolize(first.data, resolver, name=name)
    assert second.data is first.data
    assert second.report.resolved == 0
    assert second.report.unresolved == first.report.unresolved
    total = first.report
    assert total.total == total.already + total.resolved + sum(total.unresolved.values())
    if name != "folded":
        assert second.report.already == first.report.already + first.report.resolved
    return first


@SLOW
@given(pprofs())
def test_pprof_twice_is_once(resolver, data):
    done = twice(data, resolver, "pprof")
    old, new = Profile.FromString(data), Profile.FromString(done.data)
    assert list(old.sample) == list(new.sample)
    for before, after in zip(old.location, new.location, strict=True):
        assert not before.line or list(before.line) == list(after.line)


@SLOW
@given(foldeds)
def test_folded_twice_is_once(resolver, data):
    twice(data, resolver, "folded")


@SLOW
@given(stalls)
def test_unitrace_twice_is_once(resolver, data):
    twice(data, resolver, "unitrace")


@SLOW
@given(records)
def test_cupti_twice_is_once(resolver, data):
    done = twice(data, resolver, "cupti")
    before, after = ([json.loads(line) for line in text.splitlines()] for text in (data, done.data))
    assert before == [{key: one[key] for key in old} for old, one in zip(before, after, strict=True)]


@SLOW
@given(rocprofs())
def test_rocprofv3_twice_is_once(resolver, data):
    twice(data, resolver, "rocprofv3-json")


@pytest.mark.parametrize("name", sorted(set(OF) - {"pc_sampling.csv", "dispatches.db", "proton.hatchet"}))
def test_the_samples_twice_are_once(resolver, name):
    data = (SAMPLES / name).read_bytes()
    first = profiles.symbolize(data, resolver)
    assert first.data != data
    assert profiles.symbolize(first.data, resolver).data is first.data


@pytest.mark.parametrize("name", sorted(set(OF) - {"pc_sampling.csv", "dispatches.db", "proton.hatchet"}))
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_mutilated_sample_is_read_or_refused(resolver, name, data):
    """Bytes are flipped, cut out and doubled: an error of symd's own, or an answer that a second run leaves alone."""
    text = bytearray(plain(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "double"]))
        if kind == "flip":
            text[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del text[at : at + data.draw(st.integers(1, 20))]
        else:
            text[at:at] = text[at : at + 10]
        text = text or bytearray(b"x")
    try:
        first = profiles.symbolize(bytes(text), resolver, name=OF[name])
    except SymdError:
        return
    assert profiles.symbolize(first.data, resolver, name=OF[name]).data is first.data
