"""Notes read in elements against the same notes read by msgpack in one go."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.formats.containers.amd import metadata
from symd.formats.containers.amd import msgpack as amdgpu_msgpack
from tests.core.uncompiled import uncompiled
from tests.formats.containers.amd import objects

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False), st.text(), st.binary()
)
UNCOMPILED = uncompiled("kernel_maps")
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
KERNELS = st.dictionaries(
    st.sampled_from([".agpr_count", ".args", ".name", ".symbol", ".vgpr_count"]) | st.text(max_size=3),
    VALUES,
    max_size=20,
)
NOTES = st.fixed_dictionaries(
    {},
    optional={"amdhsa.kernels": st.lists(KERNELS | VALUES, max_size=20) | VALUES, "amdhsa.target": VALUES, "x": VALUES},
)


@pytest.fixture(scope="module", autouse=True, params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both readers of notes."""
    with pytest.MonkeyPatch.context() as changed:
        if request.param == "uncompiled":
            for name in ("KernelMaps", "UnknownNote"):
                changed.setattr(amdgpu_msgpack, name, getattr(UNCOMPILED, name))
        yield


def joined(note: amdgpu_msgpack.MetadataNote) -> dict:
    """The maps put together again."""
    found = note.kernels
    kernels = []
    for number, name, symbol in zip(found.kind, found.name, found.symbol, strict=True):
        own, signature = found.kinds[number]
        apart = {".args": found.signatures[signature], ".name": name, ".symbol": symbol}
        kernels.append({**own, **{key: item for key, item in apart.items() if item is not None}})
    return {**note.tree, "amdhsa.kernels": kernels}


def expected(tree: dict) -> dict:
    """What is no map among the kernels is left out, and arguments, a name or a symbol of None are none."""
    kernels = tree.get("amdhsa.kernels")
    maps = [kernel for kernel in kernels if isinstance(kernel, dict)] if isinstance(kernels, list) else []
    apart = (".args", ".name", ".symbol")
    plain = [{key: item for key, item in kernel.items() if key not in apart or item is not None} for kernel in maps]
    return {**tree, "amdhsa.kernels": plain}


@given(NOTES)
def test_the_parts_are_the_whole(tree):
    note = amdgpu_msgpack.load(msgpack.packb(tree))
    assert note is not None
    assert joined(note) == expected(tree)


def refuse(data: bytes) -> None:
    raise amdgpu_msgpack.UnknownNote


@given(NOTES.map(msgpack.packb) | st.binary(max_size=40))
def test_a_note_says_the_same_read_as_a_whole(data):
    found = [metadata.Metadata(), metadata.Metadata()]
    metadata._take_msgpack(data, found[0])
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(amdgpu_msgpack, "KernelMaps", refuse)
        metadata._take_msgpack(data, found[1])
    assert vars(found[0]) == vars(found[1])


def test_kernels_of_one_signature_share_it():
    arguments = [{".name": "x", ".size": 8}]
    kernels = [{".agpr_count": 1, ".args": arguments, ".name": name} for name in "abc"] + [{".name": "d"}]
    note = amdgpu_msgpack.load(msgpack.packb({"amdhsa.kernels": kernels}))
    assert note is not None
    assert note.kernels.name == ["a", "b", "c", "d"]
    assert note.kernels.kind == [0, 0, 0, 1]
    assert note.kernels.kinds == [({".agpr_count": 1}, 0), ({}, 1)]
    assert note.kernels.signatures == [arguments, None]


@given(
    st.lists(
        st.sampled_from(
            [
                {".args": [1], ".name": "a"},
                {".args": [1], **{f".{number}": number for number in range(20)}},
                {".args": [1, 2]},
                {".args": None, ".name": "b"},
                {".name": "c", ".args": [1]},
                {},
                ".args",
                [1],
                7,
            ]
        ),
        max_size=12,
    )
)
def test_arguments_like_those_before_are_told_from_others(kernels):
    """An empty map with the text ".args" behind it has no arguments."""
    tree = {"amdhsa.kernels": kernels}
    note = amdgpu_msgpack.load(msgpack.packb(tree))
    assert note is not None
    assert joined(note) == expected(tree)
    assert len(note.kernels.signatures) == len({str(one.get(".args")) for one in kernels if isinstance(one, dict)})


ALIKE = st.fixed_dictionaries(
    {},
    optional={
        ".args": st.sampled_from([[], [{".name": "x"}], [{".name": "x", ".symbol": "y"}], None]),
        ".kernarg": st.sampled_from([8, ".name", ".symbol"]),
        ".name": st.sampled_from(
            ["", "k", ".symbol", "\xa7.symbol", "n" * 31, "n" * 32, "n" * 300, "n" * 70_000, 7, None]
        ),
        ".sgpr_count": st.sampled_from([1, 2]),
        ".symbol": st.sampled_from(["", "k.kd", ".name", "s" * 40, ["s"], b"s"]),
        ".vgpr_count": st.sampled_from([1, 200, 70_000]),
    },
)
"""Maps in the order in which LLVM writes them."""


@given(st.lists(st.tuples(ALIKE, st.booleans()), max_size=20))
def test_kernels_that_differ_in_their_names_only_are_told_apart(kernels):
    """Some of them with their entries in another order."""
    maps = [dict(reversed(one.items())) if turned else one for one, turned in kernels]
    tree = {"amdhsa.kernels": maps}
    note = amdgpu_msgpack.load(msgpack.packb(tree))
    assert note is not None
    assert joined(note) == expected(tree)
    assert len(note.kernels.kind) == len(maps)


def test_what_many_kernels_have_in_common_is_there_once():
    kernels = [{".args": [1], ".name": f"k{at}", ".symbol": f"k{at}.kd", ".vgpr_count": at // 50} for at in range(100)]
    note = amdgpu_msgpack.load(msgpack.packb({"amdhsa.kernels": kernels}))
    assert note is not None
    assert [own for own, _ in note.kernels.kinds] == [{".vgpr_count": 0}, {".vgpr_count": 1}]
    assert joined(note) == {"amdhsa.kernels": kernels}


@pytest.mark.parametrize(("alone", "apart"), [(0, 12), (100, 112)])
def test_kernels_of_a_dozen_kinds_in_turn_are_taken_apart_once_each(
    monkeypatch: pytest.MonkeyPatch, alone: int, apart: int
) -> None:
    """Also behind others that are each of a kind of its own, once something is like one of the last few again."""
    taken: list[int] = []
    take_apart = UNCOMPILED.KernelMaps._take_apart

    def counted(self, begin: int) -> int:
        taken.append(begin)
        return take_apart(self, begin)

    monkeypatch.setattr(UNCOMPILED.KernelMaps, "_take_apart", counted)
    monkeypatch.setattr(amdgpu_msgpack, "KernelMaps", UNCOMPILED.KernelMaps)
    kinds = [*range(1000, 1000 + alone), *(at % 12 for at in range(240))]
    if alone:
        kinds[alone : alone + 12] = [pair for at in range(12) for pair in (at, at)]
    kernels = [{".args": [kind], ".name": f"k{at}", ".symbol": f"k{at}.kd"} for at, kind in enumerate(kinds)]
    note = amdgpu_msgpack.load(msgpack.packb({"amdhsa.kernels": kernels}))
    assert note is not None
    assert joined(note) == {"amdhsa.kernels": kernels}
    assert len(taken) == apart


@pytest.mark.parametrize("key", [".args", ".name", ".symbol", "amdhsa.kernels"])
def test_keys_with_a_longer_length_than_they_need_are_the_same_keys(key: str) -> None:
    """As no compiler writes them: one byte more says how long the text is."""
    kernels = [{".args": [1], ".name": "a", ".symbol": "a.kd", ".x": 1}]
    short, long = msgpack.packb(key), b"\xd9" + bytes([len(key)]) + key.encode()
    data = msgpack.packb({"amdhsa.kernels": kernels}).replace(short, long)
    note = amdgpu_msgpack.load(data)
    assert note is not None
    assert joined(note) == msgpack.unpackb(data) == {"amdhsa.kernels": kernels}


def test_values_of_every_type_are_passed_over() -> None:
    """The packer takes the shortest form, so that these are written by hand."""
    forms = [
        *(bytes([head]) for head in (0x00, 0x7F, 0xE0, 0xFF, 0xC0, 0xC2, 0xC3)),
        *(
            bytes([head]) + bytes(size)
            for head, size in zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True)
        ),
        *(
            bytes([head]) + b"\x05" + bytes(size)
            for head, size in zip(range(0xD4, 0xD9), (1, 2, 4, 8, 16), strict=True)
        ),
        *(
            bytes([head]) + (3).to_bytes(size, "big") + b"abc"
            for head, size in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4))
        ),
        *(bytes([head]) + (3).to_bytes(size, "big") + b"\x05abc" for head, size in ((0xC7, 1), (0xC8, 2), (0xC9, 4))),
        *(head + b"\x01" * 4 for head in (b"\x94", b"\xdc\0\4", b"\xdd\0\0\0\4", b"\xde\0\2", b"\xdf\0\0\0\2")),
    ]
    body = b"".join(msgpack.packb(f".{number}") + form for number, form in enumerate(forms))
    kernel = b"\xde" + (len(forms) + 1).to_bytes(2, "big") + body + msgpack.packb(".name") + msgpack.packb("k")
    data = b"\x82\xa1x" + forms[-1] + msgpack.packb("amdhsa.kernels") + b"\x92" + kernel + kernel
    found = amdgpu_msgpack.KernelMaps(data)
    assert len(found.rests) == len(found.kinds) == 1
    note = amdgpu_msgpack.load(data)
    assert note is not None
    whole = msgpack.unpackb(data, strict_map_key=False, ext_hook=amdgpu_msgpack.extension)
    assert joined(note) == whole
    for end in range(len(data)):
        with pytest.raises(amdgpu_msgpack.UnknownNote):
            amdgpu_msgpack.KernelMaps(data[:end])


def test_a_name_that_is_no_text_in_utf_8_is_called_damage():
    kernels = [{".name": name, ".symbol": "s"} for name in ("abc", "abd")]
    data = msgpack.packb({"amdhsa.kernels": kernels}).replace(b"abd", b"ab\xff")
    with pytest.raises(Malformed):
        amdgpu_msgpack.load(data)


def test_of_a_repeated_key_the_last_one_counts():
    """As msgpack has it: a list of one map that has .args twice, and the list of kernels is there twice."""
    twice = b"\x82" + (msgpack.packb(".args") + msgpack.packb([1])) + (msgpack.packb(".args") + msgpack.packb([2]))
    key = msgpack.packb("amdhsa.kernels")
    data = b"\x82" + key + msgpack.packb([{".name": "first"}]) + key + b"\x91" + twice
    note = amdgpu_msgpack.load(data)
    assert note is not None
    assert joined(note) == msgpack.unpackb(data) == {"amdhsa.kernels": [{".args": [2]}]}


@pytest.mark.parametrize("header", [b"\x8f", b"\xde\x00\x0f", b"\xdf\x00\x00\x00\x0f"])
def test_every_spelling_of_a_map_is_read(header):
    pairs = {f".{number:02}": number for number in range(14)} | {".args": ["a"]}
    body = b"".join(msgpack.packb(key) + msgpack.packb(item) for key, item in pairs.items())
    data = msgpack.packb({"amdhsa.kernels": [0, 1]})[:-2].replace(b"\x92", b"\xdc\x00\x02") + (header + body) * 2
    note = amdgpu_msgpack.load(data)
    assert note is not None
    assert joined(note) == {"amdhsa.kernels": [pairs, pairs]}


@given(NOTES, st.data())
def test_damage_is_called_what_msgpack_calls_it(tree, data):
    damaged = bytearray(msgpack.packb(tree))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    compare_outcomes(bytes(damaged))


@pytest.mark.parametrize("data", [b"\xd4\xaeamdhsa.kernels\x90", b"\x81\xd4\xff\x00\x00", b"\x81\xa1a\xd4\x80\x00"])
def test_extension_types_below_zero_are_values(data):
    compare_outcomes(data)


def compare_outcomes(data: bytes) -> None:
    # extension types below 0 are msgpack's own: its Python reader has no values for those, and is told of one
    said = outcome(lambda: msgpack.unpackb(data, strict_map_key=False, ext_hook=lambda kind, data: (kind, data)))
    ours = outcome(lambda: amdgpu_msgpack.load(data))
    assert ours == said or (ours == "Unpack failed: incomplete input" and said not in ("a map", "no map"))


def outcome(read: Callable[[], object]) -> str:
    """Whether a map was read, or what was wrong."""
    try:
        found = read()
    except (Malformed, ValueError, TypeError) as error:
        return str(error) or f"is not readable msgpack: {type(error).__name__}"
    return "a map" if isinstance(found, dict | amdgpu_msgpack.MetadataNote) else "no map"


def test_lists_that_claim_more_than_there_is_take_no_memory():
    count = 200_000
    data = (b"\xdd" + struct.pack(">I", count // 2)) * 1000
    data += bytes(count - len(data))
    assert objects.survives(lambda: amdgpu_msgpack.load(data), 2 << 20) == "Malformed"


@pytest.mark.parametrize("data", [b"\xc1", b"\x81\xc1\x00", b"\x91" * 2000])
def test_an_error_of_the_library_without_words_is_told_in_words(data: bytes) -> None:
    with pytest.raises(Malformed, match="not readable msgpack"):
        amdgpu_msgpack.load(data)
