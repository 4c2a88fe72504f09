"""Offload bundles, raw and compressed, against clang-offload-bundler's extraction by hash, and hostile ones."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib

import pytest
import zstandard

from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.formats.containers import compressed_bundle, offload_bundle
from symd.formats.containers.format import Element
from tests import tools
from tests.formats.containers.amd import objects

RAW = ["odd.bundle", "aligned.bundle"]
PACKED = ["v1-zlib.ccob", "v1-zstd.ccob", "v2-zlib.ccob", "v2-zstd.ccob", "v3-zlib.ccob", "v3-zstd.ccob"]
HOST = "host-x86_64-unknown-linux--"
DEVICE = "hipv4-amdgcn-amd-amdhsa--gfx900"


def reader(name):
    return compressed_bundle if name.endswith(".ccob") else offload_bundle


def bundle(*entries: tuple[str, int, int], body: bytes = b"") -> bytes:
    """(ID, offset, size) as they stand, lies included."""
    table = b"".join(struct.pack("<QQQ", at, size, len(name)) + name.encode() for name, at, size in entries)
    return offload_bundle.MAGIC + struct.pack("<Q", len(entries)) + table + body


def packed(raw: bytes, version: int = 2, method: int = 0, **lies: int) -> bytes:
    payload = zlib.compress(raw) if method == 0 else zstandard.compress(raw)
    digest = int.from_bytes(hashlib.md5(raw, usedforsecurity=False).digest()[:8], "little")
    length = {1: 20, 2: 24, 3: 32}[version]
    fields = {"size": length + len(payload), "expanded": len(raw), "hash": digest} | lies
    sizes = struct.pack({1: "", 2: "<I", 3: "<Q"}[version], *([fields["size"]] if version > 1 else []))
    wide = struct.pack("<QQ" if version == 3 else "<IQ", fields["expanded"], fields["hash"])
    return b"CCOB" + struct.pack("<HH", version, method) + sizes + wide + payload


def fake_object(size: int = 64) -> bytes:
    return b"\x7fELF" + bytes(size - 4)


def sound(body: bytes) -> bytes:
    start = 32 + 24 + len(DEVICE)
    return bundle((DEVICE, start, len(body)), body=body)


@pytest.mark.parametrize("name", RAW + PACKED)
def test_one_reader_claims_it(name):
    data = objects.sample(name)
    assert [offload_bundle.claims(data), compressed_bundle.claims(data)] == [name in RAW, name in PACKED]


@pytest.mark.parametrize(
    ("name", "bundler"),
    [
        *((name, "clang-offload-bundler-22") for name in ["aligned.bundle", "v3-zlib.ccob", "v3-zstd.ccob"]),
        *(
            (name, "clang-offload-bundler-19")
            for name in ["v1-zlib.ccob", "v1-zstd.ccob", "v2-zlib.ccob", "v2-zstd.ccob"]
        ),
        ("odd.bundle", "clang-offload-bundler-14"),
    ],
)
def test_parts_are_the_bytes_that_the_bundler_extracts(name, bundler, tmp_path):
    tool = tools.require(bundler)
    for element in objects.contents(reader(name), objects.sample(name)).elements:
        target = element.name
        out = tmp_path / "out"
        flags = ["-inputs", "-outputs"] if bundler.endswith("14") else ["-input", "-output"]
        command = [
            tool,
            "-unbundle",
            "-type=o",
            f"-targets={target}",
            f"{flags[0]}={objects.path(name)}",
            f"{flags[1]}={out}",
        ]
        tools.output(*command)
        assert hashlib.sha256(element.data).digest() == hashlib.sha256(out.read_bytes()).digest()


@pytest.mark.parametrize("name", RAW + PACKED)
def test_the_host_entry_is_no_part_and_is_listed(name):
    found = objects.contents(reader(name), objects.sample(name))
    assert len(found.elements) == 2
    assert found.facts["entries"][0].startswith("host-x86_64")
    assert found.notes == ()


def test_an_entry_names_its_target():
    names = [
        (element.name, element.target)
        for element in objects.contents(offload_bundle, objects.sample("odd.bundle")).elements
    ]
    assert names == [
        ("hipv4-amdgcn-amd-amdhsa--gfx900", "gfx900"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
    ]


def test_entries_at_odd_offsets_are_read():
    listed, _ = offload_bundle.entries(objects.sample("odd.bundle"), objects.budget())
    assert any(one.offset % 2 for one in listed)


def test_the_manifest_names_the_compiler_of_each_bundle():
    manifest = json.loads((objects.BIN.parent / "manifest.json").read_text())
    for path in objects.BIN.iterdir():
        assert manifest[path.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest(), path.name


@pytest.mark.parametrize("name", PACKED)
def test_a_compressed_bundle_is_bounded_by_its_recorded_size(name):
    found = objects.contents(compressed_bundle, objects.sample(name) + b"CCOB" * 100)
    assert len(found.elements) == 2
    assert found.format == "offload-bundle"
    assert (found.facts["bundle_version"], found.facts["compression"]) == (int(name[1]), name[3:7])


def test_a_sick_entry_costs_a_note_and_the_healthy_one_is_read():
    body = fake_object()
    start = 32 + 2 * (24 + len(DEVICE))
    found = objects.contents(offload_bundle, bundle((DEVICE, start, 64), (DEVICE, start, 1 << 40), body=body))
    assert [element.data for element in found.elements] == [body]
    assert "past the bundle" in found.notes[0]


def test_entries_that_overlap_are_not_multiplied():
    body = fake_object(4096)
    start = 32 + 100 * (24 + len(DEVICE))
    data = bundle(*[(DEVICE, start, 4096)] * 100, body=body)
    found = objects.contents(offload_bundle, data)
    assert len(found.elements) == 1
    assert len(found.notes) == 99


def test_a_bundle_inside_itself_is_refused():
    with pytest.raises(Malformed, match="inside what stands before it"):
        objects.contents(offload_bundle, bundle((DEVICE, 0, 32 + 24 + len(DEVICE))))


@pytest.mark.parametrize("count", [1 << 63, 2**64 - 1, 1000])
def test_a_count_that_cannot_be_true_is_refused(count):
    data = offload_bundle.MAGIC + struct.pack("<Q", count) + bytes(100)
    with pytest.raises(Malformed, match="entries"):
        objects.contents(offload_bundle, data)


def test_an_id_that_leaves_the_bundle_is_refused():
    data = offload_bundle.MAGIC + struct.pack("<QQQQ", 1, 0, 0, 1 << 60) + bytes(64)
    with pytest.raises(Malformed, match="ID of entry 0"):
        objects.contents(offload_bundle, data)


def test_more_entries_than_the_budget_are_refused():
    data = sound(fake_object())
    with pytest.raises(LimitExceeded, match="object_count"):
        offload_bundle.read(Element("", data), objects.budget(object_count=0))


def test_bitcode_is_named_and_left_out():
    found = objects.contents(offload_bundle, sound(b"BC\xc0\xde" + bytes(60)))
    assert found.elements == ()
    assert "bitcode" in found.notes[0]


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (packed(sound(fake_object()), size=1 << 30), Malformed, "are there"),
        (packed(sound(fake_object()), size=3), Malformed, "are there"),
        (packed(sound(fake_object()), expanded=10), Malformed, "should expand"),
        (packed(sound(fake_object()), expanded=4000), Malformed, "should expand"),
        (packed(sound(fake_object()), expanded=(1 << 32) - 1), LimitExceeded, "expan"),
        (packed(sound(fake_object()), 3, 1, expanded=1 << 62), LimitExceeded, "expansion"),
        (packed(b"no bundle at all"), Malformed, "does not expand to"),
        (packed(packed(sound(fake_object()))), Malformed, "does not expand to"),
        (b"CCOB" + struct.pack("<HH", 4, 0) + bytes(64), Unsupported, "version 4"),
        (b"CCOB" + struct.pack("<HH", 2, 9) + bytes(64), Unsupported, "method 9"),
        (b"CCOB\x02\x00\x00\x00\x00", Malformed, "header"),
        (b"CCOB\x02\x00", Malformed, "header"),
    ],
)
def test_compressed_bundles_that_lie_are_refused(data, error, says):
    with pytest.raises(error, match=says):
        objects.contents(compressed_bundle, data)


def test_a_wrong_hash_is_a_note():
    found = objects.contents(compressed_bundle, packed(sound(fake_object()), hash=1))
    assert len(found.elements) == 1
    assert "hash" in found.notes[0]


def test_a_bomb_is_refused_before_it_expands():
    bomb = packed(bytes(200 << 20))
    assert objects.survives(lambda: objects.contents(compressed_bundle, bomb), 2 << 20) == "LimitExceeded"


@pytest.mark.parametrize("name", RAW + PACKED)
def test_truncated_bundles_cost_an_error_or_what_is_left(name):
    for data in objects.truncations(objects.sample(name)):
        objects.survives(lambda data=data: objects.contents(reader(name), data))
