"""Notes that are read kernel by kernel against the same notes read by msgpack in one go."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable

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
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.binary(max_size=4), inner, max_size=3)
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


NAMES = (".symbol", ".name")


def note_reader() -> amdgpu_msgpack.NoteReader:
    """Reads of each kernel its symbol, and what is said of it besides its names."""

    def facts(own: dict, arguments: tuple[object]) -> dict:
        return unnamed({**own, **({".args": arguments[0]} if arguments[0] is not None else {})})

    return amdgpu_msgpack.NoteReader(facts, lambda arguments: (arguments,), "note")


def read(data: bytes) -> dict | None:
    return note_reader().read(data)


def unnamed(facts: dict) -> dict:
    return {key: value for key, value in facts.items() if key not in NAMES}


def expected(tree: dict) -> dict:
    """What is no map among the kernels is left out, and arguments of None are none."""
    if "amdhsa.kernels" not in tree:
        return tree
    kernels = tree["amdhsa.kernels"]
    maps = [kernel for kernel in kernels if isinstance(kernel, dict)] if isinstance(kernels, list) else []
    plain = [{key: item for key, item in kernel.items() if key != ".args" or item is not None} for kernel in maps]
    return {**tree, "amdhsa.kernels": [(one.get(".symbol") or one.get(".name"), unnamed(one)) for one in plain]}


@given(NOTES)
def test_the_parts_are_the_whole(tree):
    assert read(msgpack.packb(tree)) == expected(tree)


@pytest.mark.parametrize("key", [".args", ".name", "amdhsa.kernels"])
def test_keys_with_a_longer_length_than_they_need_are_the_same_keys(key: str) -> None:
    """As no compiler writes them: one byte more says how long the text is."""
    kernels = [{".args": [1], ".name": "a", ".symbol": "a.kd", ".x": 1}]
    short, long = msgpack.packb(key), b"\xd9" + bytes([len(key)]) + key.encode()
    data = msgpack.packb({"amdhsa.kernels": kernels}).replace(short, long)
    assert msgpack.unpackb(data) == {"amdhsa.kernels": kernels}
    assert read(data) == expected({"amdhsa.kernels": kernels})


def test_of_a_repeated_key_the_last_one_counts():
    """As msgpack has it: a list of one map that has .args twice, and the list of kernels is there twice."""
    twice = b"\x82" + (msgpack.packb(".args") + msgpack.packb([1])) + (msgpack.packb(".args") + msgpack.packb([2]))
    key = msgpack.packb("amdhsa.kernels")
    data = b"\x82" + key + msgpack.packb([{".name": "first"}]) + key + b"\x91" + twice
    assert msgpack.unpackb(data) == {"amdhsa.kernels": [{".args": [2]}]}
    assert read(data) == {"amdhsa.kernels": [(None, {".args": [2]})]}


@pytest.mark.parametrize("header", [b"\x8f", b"\xde\x00\x0f", b"\xdf\x00\x00\x00\x0f"])
def test_every_spelling_of_a_map_is_read(header):
    pairs = {f".{number:02}": number for number in range(14)} | {".args": ["a"]}
    body = b"".join(msgpack.packb(key) + msgpack.packb(item) for key, item in pairs.items())
    data = msgpack.packb({"amdhsa.kernels": [0, 1]})[:-2].replace(b"\x92", b"\xdc\x00\x02") + (header + body) * 2
    assert read(data) == {"amdhsa.kernels": [(None, pairs), (None, pairs)]}


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
        said = msgpack.unpackb(data, ext_hook=lambda kind, data: (kind, data))
    except (ValueError, TypeError):
        with pytest.raises(Malformed, match=r"^note is "):
            read(data)
        return
    assert comparable(read(data)) == comparable(expected(said) if isinstance(said, dict) else None)


def comparable(value: object) -> object:
    """The value with a text for numbers that are not equal to themselves."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [comparable(item) for item in value]
    return "nan" if value != value else value


@pytest.mark.parametrize("key", [7, None, 1.5, (), msgpack.Timestamp(1, 2)])
@pytest.mark.parametrize("place", [lambda one: one, lambda one: {"amdhsa.kernels": [one]}, lambda one: {"x": [one]}])
def test_keys_that_are_no_text_are_refused(key: object, place: Callable[[dict], dict]) -> None:
    """As msgpack refuses them unless it is told otherwise; compilers write none."""
    with pytest.raises(Malformed, match=r"not msgpack that can be read: .* is not allowed for map key"):
        read(msgpack.packb(place({key: 1})))


def test_lists_that_claim_more_than_there_is_take_no_memory():
    count = 200_000
    data = (b"\xdd" + struct.pack(">I", count // 2)) * 1000
    data += bytes(count - len(data))
    for head in (b"", b"\x81\xa1x"):
        assert objects.survives(lambda head=head: read(head + data), 2 << 20) == "Malformed"


@pytest.mark.parametrize("data", [b"\xc1", b"\x81\xc1\x00", b"\x91" * 2000])
def test_an_error_of_the_library_without_words_is_told_in_words(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"note is not msgpack that can be read: [A-Z]"):
        read(data)


def kernel(name: str, **more: object) -> bytes:
    facts = {".args": [{".size": 8}], ".name": name, ".sgpr_count": 9, ".symbol": f"{name}.kd", ".vgpr_count": 21}
    return msgpack.packb(facts | more)


def note(*kernels: bytes) -> bytes:
    listed = b"".join([b"\xdd", struct.pack(">I", len(kernels)), *kernels])
    return b"\x81" + msgpack.packb("amdhsa.kernels") + listed


def read_behind(reader: amdgpu_msgpack.NoteReader, before: bytes, kernel: bytes) -> tuple[object, dict]:
    """A kernel as it is read behind another one, in its note and in a note of its own."""
    together = reader.read(note(before, kernel))
    alone = reader.read(note(kernel))
    assert together is not None
    assert alone is not None
    assert comparable(together["amdhsa.kernels"][1:]) == comparable(alone["amdhsa.kernels"])
    return alone["amdhsa.kernels"][0]


def as_msgpack_reads(kernel: bytes) -> tuple[object, dict]:
    return expected(msgpack.unpackb(note(kernel)))["amdhsa.kernels"][0]


@pytest.mark.parametrize(
    "name",
    ["b", "a" * 28, "a" * 32, "a" * 255, "a" * 300, "a" * 65_532, "\u00e9", ".symbol", "\u00e5.name", "\u00e7.symbo"],
)
def test_a_kernel_that_differs_in_its_names_alone_is_described_as_the_one_before(name: str) -> None:
    made: list[object] = []
    reader = amdgpu_msgpack.NoteReader(lambda *asked: made.append(asked) or len(made), lambda _: (), "note")
    assert read_behind(reader, kernel("a"), kernel(name)) == (f"{name}.kd", 1 if len(name) < 3000 else len(made))


@pytest.mark.parametrize(
    "text", ["", "a" * 65_536, "\u00e7.symbol", "\u00e7.symbol\u0084a.kd", "\u00e5.name", "\u00e5.name "]
)
@pytest.mark.parametrize("keys", [(".name",), (".symbol",), (".name", ".symbol"), (".symbol", ".name"), ("x", "y")])
def test_whatever_a_kernel_is_called_it_is_described_as_it_is(text: str, keys: tuple[str, ...]) -> None:
    reader, names = note_reader(), dict.fromkeys(keys, text)
    for number in range(2):
        with_arguments = {".args": [{".name": text}], ".vgpr_count": number} | names
        for own in (names, with_arguments, with_arguments | {".x": {".name": text, ".symbol": text}}):
            encoded = msgpack.packb(own)
            assert read_behind(reader, kernel("a"), encoded) == as_msgpack_reads(encoded)


@pytest.mark.parametrize(
    "other",
    [
        kernel("b", **{".vgpr_count": 22}),
        kernel("b", **{".sgpr_count": 8}),
        kernel("b", **{".args": [{".size": 9}]}),
        kernel("b", **{".symbol": 7}),
        kernel("b", **{".symbol": ""}),
        kernel("b", **{".x": 7}),
        msgpack.packb({".name": "b"}),
        msgpack.packb({".symbol": "b"}),
        msgpack.packb({}),
        b"\x82" + b"".join(map(msgpack.packb, (".symbol", "a.kd", ".symbol", "b.kd"))),
        b"\x83" + b"".join(map(msgpack.packb, (".name", "a", ".symbol", "b", ".symbol", "c"))),
        b"\x83" + b"".join(map(msgpack.packb, (".name", 7, "k", {}, ".symbol", "z"))),
        b"\x83\xa5.name\x07\xa1k\xa7.symbol\xa1z\x01",  # the key "k" has the value ".symbol", and "z" has 1
        b"\x83\xa5.name\xc4\x01x\xa1k\xa7.symbol\xa1z\x01",  # as above
        msgpack.packb({".name": "a", ".symbol": "a.kd", ".x": b"\xa5.name\xa1z\xa7.symbol\xa1z"}),
    ],
)
def test_a_kernel_of_which_something_else_is_said_is_described_anew(other: bytes) -> None:
    for first in (kernel("a"), kernel("a", **{".symbol": ""}), msgpack.packb({".name": "a"})):
        assert read_behind(note_reader(), first, other) == as_msgpack_reads(other)


def test_a_name_that_is_no_text_is_refused_behind_one_that_is() -> None:
    with pytest.raises(Malformed, match=r"^note is not msgpack"):
        read(note(kernel("a"), kernel("b").replace(b"\xa1b", b"\xa1\xff")))


class Kept(list):
    """Something of which can be told whether anybody keeps it."""


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (200, lambda number: {".args": [{}] * 4000 + [number]}),
        (200, lambda number: {".args": [{".offset": number + at, ".size": 8} for at in range(2000)]}),
        (2, lambda number: {".args": [{}] * 300_000 + [number]}),
        (200, lambda number: {".x": ["x" * 200_000, number]}),
        (2, lambda number: {".x": ["x" * (17 << 20), number]}),
    ],
    ids=["empty arguments", "arguments", "too many arguments", "other facts", "too large facts"],
)
def test_what_is_kept_for_kernels_to_come_is_bounded(count: int, said: Callable[[int], dict]) -> None:
    made: list[weakref.ref[Kept]] = []

    def kept(cost: int) -> Kept:
        made.append(weakref.ref(found := Kept([None] * cost)))
        return found

    reader = amdgpu_msgpack.NoteReader(
        lambda own, arguments: (arguments, kept(len(str(own)) // 64)), lambda value: kept(len(value)), "note"
    )
    for number in range(count):
        reader.read(note(kernel(f"k{number}", **said(number))))
    gc.collect()
    assert sum(len(there) for each in made if (there := each()) is not None) <= amdgpu_msgpack.MAX_COST // 64
