"""A file together with split debug data of what is inside it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, SymdError
from symd.formats import containers
from symd.formats.containers import with_dwo
from tests.formats.containers.amd import objects


def bundle_of(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A bundle of code objects with their identities."""
    at = 32 + sum(24 + len(name) for name, _ in entries)
    table, body = b"", b""
    for name, content in entries:
        table += struct.pack("<QQQ", at + len(body), len(content), len(name)) + name
        body += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + body


NAME = "split-19-dwarf5"
CODE, DWO = objects.sample(f"{NAME}.co"), objects.sample(f"{NAME}.dwo")
ID = b"hipv4-amdgcn-amd-amdhsa--gfx900"
BUNDLE = bundle_of([(ID, CODE)])
(PATH,) = (str(code.path) for code in containers.unpack(BUNDLE).objects)


def test_code_objects_keep_their_paths_and_bytes_and_get_sections() -> None:
    module = containers.unpack(with_dwo.joined(BUNDLE, {PATH: [DWO]}))
    (code,) = module.objects
    assert (module.format, code.path, code.data) == ("offload-bundle", PATH, CODE)
    names = [section.name for section in code.sections]
    assert names.index(".debug_info.dwo") == len(containers.unpack(CODE).objects[0].sections)
    assert [section.index for section in code.sections] == list(range(len(names)))


def test_files_of_other_paths_are_nobodys() -> None:
    (code,) = containers.unpack(with_dwo.joined(BUNDLE, {"elsewhere": [DWO]})).objects
    assert not any(section.name.endswith(".dwo") for section in code.sections)


def test_inside_another_container_it_says_nothing_of_the_others() -> None:
    inner = with_dwo.joined(CODE, {"": [DWO]})
    module = containers.unpack(bundle_of([(ID, inner)]))
    assert not any(section.name.endswith(".dwo") for code in module.objects for section in code.sections)


@pytest.mark.parametrize("length", [8, 11, 14, 20, 40, 100])
def test_what_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(Malformed):
        containers.unpack(with_dwo.joined(BUNDLE, {PATH: [DWO]})[:length])


def test_a_damaged_file_leaves_its_object_out_and_is_named() -> None:
    with pytest.raises(SymdError):
        containers.unpack(with_dwo.joined(BUNDLE, {PATH: [b"\x7fELF"]}))
    two = bundle_of([(ID, CODE), (b"hipv4-amdgcn-amd-amdhsa--gfx906", CODE)])
    paths = [str(code.path) for code in containers.unpack(two).objects]
    module = containers.unpack(with_dwo.joined(two, {paths[0]: [b"\x7fELF"]}))
    assert [str(code.path) for code in module.objects] == paths[1:]
    assert "left out" in module.notes[0]


def test_more_entries_than_a_module_may_have() -> None:
    with pytest.raises((LimitExceeded, Malformed)):
        containers.unpack(with_dwo.MAGIC + struct.pack("<III", 1 << 30, 0, 1 << 31), Limits())


def test_one_in_another_without_end() -> None:
    data = CODE
    for _ in range(100):
        data = with_dwo.joined(data, {})
    with pytest.raises(LimitExceeded):
        containers.unpack(data)
