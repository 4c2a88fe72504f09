"""Notes whose arguments are read apart against the same notes read by msgpack in one go."""

from __future__ import annotations

import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.formats.containers.amd import msgpack as amdgpu_msgpack
from tests.formats.containers.amd import objects

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False), st.text(), st.binary()
)
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


def read(data: bytes) -> amdgpu_msgpack.MetadataNote:
    note = amdgpu_msgpack.metadata_note(data, "note")
    assert note is not None
    return note


def joined(note: amdgpu_msgpack.MetadataNote) -> dict:
    """The maps put together again."""
    apart = [(own, amdgpu_msgpack.unpacked(arguments, "arguments")) for own, arguments in note.kernels]
    kernels = [{**own, **({".args": arguments} if arguments is not None else {})} for own, arguments in apart]
    return {**note.tree, "amdhsa.kernels": kernels}


def expected(tree: dict) -> dict:
    """What is no map among the kernels is left out, and arguments of None are none."""
    kernels = tree.get("amdhsa.kernels")
    maps = [kernel for kernel in kernels if isinstance(kernel, dict)] if isinstance(kernels, list) else []
    plain = [{key: item for key, item in kernel.items() if key != ".args" or item is not None} for kernel in maps]
    return {**tree, "amdhsa.kernels": plain}


@given(NOTES)
def test_the_parts_are_the_whole(tree):
    assert joined(read(msgpack.packb(tree))) == expected(tree)


@pytest.mark.parametrize("key", [".args", ".name", "amdhsa.kernels"])
def test_keys_with_a_longer_length_than_they_need_are_the_same_keys(key: str) -> None:
    """As no compiler writes them: one byte more says how long the text is."""
    kernels = [{".args": [1], ".name": "a", ".symbol": "a.kd", ".x": 1}]
    short, long = msgpack.packb(key), b"\xd9" + bytes([len(key)]) + key.encode()
    data = msgpack.packb({"amdhsa.kernels": kernels}).replace(short, long)
    assert joined(read(data)) == msgpack.unpackb(data) == {"amdhsa.kernels": kernels}


def test_of_a_repeated_key_the_last_one_counts():
    """As msgpack has it: a list of one map that has .args twice, and the list of kernels is there twice."""
    twice = b"\x82" + (msgpack.packb(".args") + msgpack.packb([1])) + (msgpack.packb(".args") + msgpack.packb([2]))
    key = msgpack.packb("amdhsa.kernels")
    data = b"\x82" + key + msgpack.packb([{".name": "first"}]) + key + b"\x91" + twice
    assert joined(read(data)) == msgpack.unpackb(data) == {"amdhsa.kernels": [{".args": [2]}]}


@pytest.mark.parametrize("header", [b"\x8f", b"\xde\x00\x0f", b"\xdf\x00\x00\x00\x0f"])
def test_every_spelling_of_a_map_is_read(header):
    pairs = {f".{number:02}": number for number in range(14)} | {".args": ["a"]}
    body = b"".join(msgpack.packb(key) + msgpack.packb(item) for key, item in pairs.items())
    data = msgpack.packb({"amdhsa.kernels": [0, 1]})[:-2].replace(b"\x92", b"\xdc\x00\x02") + (header + body) * 2
    assert joined(read(data)) == {"amdhsa.kernels": [pairs, pairs]}


@given(NOTES, st.data())
def test_what_msgpack_refuses_is_refused(tree, data):
    damaged = bytearray(msgpack.packb(tree))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    compare_outcomes(bytes(damaged))


@pytest.mark.parametrize("data", [b"\xd4\xaeamdhsa.kernels\x90", b"\x81\xd4\xff\x00\x00", b"\x81\xa1a\xd4\x80\x00"])
def test_extension_types_below_zero_are_values(data):
    compare_outcomes(data)


def compare_outcomes(data: bytes) -> None:
    # extension types below 0 are msgpack's own: its Python reader has no values for those, and is told of one
    try:
        said = msgpack.unpackb(data, strict_map_key=False, ext_hook=lambda kind, data: (kind, data))
    except (ValueError, TypeError):
        with pytest.raises(Malformed, match=r"^(note|arguments) is "):
            joined(read(data))
        return
    note = amdgpu_msgpack.metadata_note(data, "note")
    assert (note is None) == (not isinstance(said, dict))
    assert note is None or joined(note).keys() == expected(said).keys()


def test_lists_that_claim_more_than_there_is_take_no_memory():
    count = 200_000
    data = (b"\xdd" + struct.pack(">I", count // 2)) * 1000
    data += bytes(count - len(data))
    for head in (b"", b"\x81\xa1x"):
        assert (
            objects.survives(lambda head=head: amdgpu_msgpack.metadata_note(head + data, "note"), 2 << 20)
            == "Malformed"
        )


@pytest.mark.parametrize("data", [b"\xc1", b"\x81\xc1\x00", b"\x91" * 2000])
def test_an_error_of_the_library_without_words_is_told_in_words(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"note is not msgpack that can be read: [A-Z]"):
        amdgpu_msgpack.metadata_note(data, "note")
