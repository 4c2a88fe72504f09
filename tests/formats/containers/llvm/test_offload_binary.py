"""LLVM offload binaries against llvm-offload-binary's extraction by hash, compressed ones made by hand, hostile ones."""

from __future__ import annotations

import hashlib
import struct
import zlib

import pytest
import zstandard

from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.formats.containers import offload_binary
from tests import tools
from tests.formats.containers.amd import objects

SAMPLES = ["images.offload", "images-19.offload"]


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_are_the_bytes_that_went_in(name):
    found = objects.contents(offload_binary, objects.sample(name))
    assert [(element.target, element.data) for element in found.elements] == [
        ("gfx900", objects.sample("v4-gfx900.co")),
        ("gfx1100", objects.sample("v5-gfx1100.co")),
    ]
    assert found.notes == ()


@pytest.mark.parametrize("arch", ["gfx900", "gfx1100"])
def test_parts_are_the_bytes_that_llvm_extracts(arch, tmp_path):
    out = tmp_path / arch
    tool = tools.require("llvm-offload-binary-22")
    tools.output(tool, objects.path("images.offload"), f"--image=file={out},arch={arch}")
    elements = {
        element.target: element.data
        for element in objects.contents(offload_binary, objects.sample("images.offload")).elements
    }
    assert hashlib.sha256(elements[arch]).digest() == hashlib.sha256(out.read_bytes()).digest()


def test_a_part_is_named_by_producer_triple_and_processor():
    names = [element.name for element in objects.contents(offload_binary, objects.sample("images.offload")).elements]
    assert names == ["hip-amdgcn-amd-amdhsa-gfx900", "openmp-amdgcn-amd-amdhsa-gfx1100"]


def binary(
    *contents: bytes, version: int = 2, kind: int = 1, count: int | None = None, size: int | None = None
) -> bytes:
    """One offload binary with entries of one kind and one string, arch=gfx900, each."""
    head = 40 if version == 3 else 32
    step = 16 if version == 1 else 24
    strings = b"arch\0gfx900\0"
    table, maps = head, head + 40 * len(contents)
    texts = maps + step * len(contents)
    at = texts + len(strings)
    rows = maps_data = b""
    for number, content in enumerate(contents):
        rows += struct.pack("<HHIQQQQ", kind, 4, 0, maps + step * number, 1, at, len(content))
        maps_data += struct.pack("<QQQ", texts, texts + 5, 6)[:step]
        at += len(content)
    body = rows + maps_data + strings + b"".join(contents)
    total = head + len(body) if size is None else size
    start = struct.pack(
        "<4sIQQQ", offload_binary.MAGIC, version, total, table, len(contents) if count is None else count
    )
    return start + bytes(head - 32) + body


def compressed(whole: bytes, method: str, expanded: int | None = None) -> bytes:
    body = zlib.compress(whole[40:]) if method == "zlib" else zstandard.compress(whole[40:])
    head = whole[:8] + struct.pack("<Q", 40 + len(body)) + whole[16:32]
    return head + struct.pack("<Q", len(whole) if expanded is None else expanded) + body


@pytest.mark.parametrize("version", [2, 3])
def test_one_binary_may_hold_several_images(version):
    found = objects.contents(offload_binary, binary(b"first", b"second", version=version))
    assert [(element.data, element.target) for element in found.elements] == [
        (b"first", "gfx900"),
        (b"second", "gfx900"),
    ]


def test_version_1_counts_one_whatever_it_says():
    assert len(objects.contents(offload_binary, binary(b"first", version=1, count=40)).elements) == 1


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_version_3_may_be_compressed(method):
    found = objects.contents(offload_binary, compressed(binary(b"image", version=3), method))
    assert [element.data for element in found.elements] == [b"image"]


@pytest.mark.parametrize(("kind", "what"), [(2, "bitcode"), (5, "PTX")])
def test_what_is_no_code_object_is_named_and_left_out(kind, what):
    found = objects.contents(offload_binary, binary(b"text", kind=kind))
    assert found.elements == ()
    assert what in found.notes[0]


def test_a_sick_binary_behind_a_healthy_one_is_a_note():
    data = objects.sample("images.offload")
    broken = data + binary(b"x", size=1 << 40)
    found = objects.contents(offload_binary, broken)
    assert len(found.elements) == 2
    assert "are there" in found.notes[0]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (binary(b"x", count=1 << 60), Malformed),
        (binary(b"x", size=1), Malformed),
        (binary(b"x", version=9), Unsupported),
        (offload_binary.MAGIC, Malformed),
        (compressed(binary(b"x", version=3), "zlib", 1 << 50), LimitExceeded),
        (compressed(binary(b"x", version=3), "zstd", 45), Malformed),
        (compressed(binary(b"x", version=3), "zlib", 20), Malformed),
    ],
)
def test_binaries_that_lie_are_refused(data, error):
    with pytest.raises(error):
        objects.contents(offload_binary, data)


def test_images_that_overlap_do_not_multiply_memory():
    whole = bytearray(binary(*[b"x" * 10] * 500, b"y" * 100_000))
    for number in range(500):
        struct.pack_into("<QQ", whole, 32 + 40 * number + 24, 0, len(whole))
    assert objects.survives(lambda: objects.contents(offload_binary, bytes(whole)), 4 << 20) == "Malformed"


@pytest.mark.parametrize("name", SAMPLES)
def test_truncated_binaries_cost_an_error_or_what_is_left(name):
    for data in objects.truncations(objects.sample(name)):
        objects.survives(lambda data=data: objects.contents(offload_binary, data))
