"""Attribute records of cubins: names against cuobjdump, values against cuobjdump's reading of every sample."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.core import records as compiled
from symd.errors import Malformed
from symd.formats.containers.nvidia import cubin_facts
from tests.core.uncompiled import uncompiled
from tests.golden.cuda import make, samples

UNKNOWN_TO_CUOBJDUMP = {"unknown Attribute", "EICOMPAT_ATTR_ERROR_LAST"}
"""What it prints for ids that ptxas 13.4 writes and 13.1 does not know; the second is its mark for the end of its table."""
NOT_SHOWN_AS_NUMBERS = {"EIATTR_KPARAM_INFO", "EIATTR_INDIRECT_BRANCH_TARGETS"}


def test_every_name_is_the_one_that_cuobjdump_prints_for_the_id():
    text = (make.HERE / "attributes.txt").read_text()
    expected = {int(number, 16): name for number, name in re.findall(r"^(0x\w+) EIATTR_(\w+)$", text, re.MULTILINE)}
    assert len(expected) == 96
    assert dict(cubin_facts.NAMES) == expected


def _numbers(name: str, value: str) -> list[int]:
    """The numbers of a value as cuobjdump prints it, in the order they are stored."""
    version = re.fullmatch(r"(\d+)\.(\d+)", value)
    if version:
        return [int(version[1]) << 8 | int(version[2])]
    about = re.fullmatch(r"function: \S*?\(0x(\w+)\) [a-z ]+: (\w+)", value)
    if about:
        return [int(about[1], 16), int(about[2], 0)]
    symbols = re.fullmatch(r"externs:(?: \S*?\(0x\w+\))+", value)
    if symbols:
        return [int(number, 16) for number in re.findall(r"\(0x(\w+)\)", value)]
    return [int(word, 16) for word in value.split()]


def _own(name: str) -> dict[str, list[cubin_facts.NvInfoAttribute]]:
    """The samples' records by section name; a linked image repeats no such name."""
    result: dict[str, list[cubin_facts.NvInfoAttribute]] = {}
    for section in samples.code(name).sections:
        if section.name.startswith(".nv.info"):
            result.setdefault(section.name, []).extend(cubin_facts.read(section.data, section.name))
        elif section.name == ".nv.compat":
            result[section.name] = cubin_facts.read(section.data, section.name, cubin_facts.COMPATIBILITY_NAMES)
    return result


@pytest.mark.parametrize("name", samples.CUBINS)
def test_records_are_those_that_cuobjdump_reads(name):
    own = {section: iter(records) for section, records in _own(name).items()}
    golden = [line.split("\t") for line in make.read("info.txt")[name]]
    assert len(golden) > 5
    for section, attribute, kind, value in golden:
        record = next(own[section])
        if attribute in UNKNOWN_TO_CUOBJDUMP:
            assert record.name == f"{record.id:#04x}"
        else:
            assert record.name == attribute.removeprefix("EIATTR_").removeprefix("EICOMPAT_ATTR_")
        if attribute not in NOT_SHOWN_AS_NUMBERS:
            found = record.value if isinstance(record.value, tuple) else (record.value,)
            assert [number for number in found if number is not None] == _numbers(attribute, value), attribute
        assert (kind == "EIFMT_NVAL") == (record.value is None)
    assert [section for section, rest in own.items() if next(rest, None)] == []


@pytest.mark.parametrize("name", samples.CUBINS)
def test_parameters_are_those_that_cuobjdump_reads(name):
    golden: dict[str, list[dict[str, object]]] = {}
    for line in make.read("info.txt")[name]:
        section, attribute, _, value = line.split("\t")
        if attribute == "EIATTR_KPARAM_INFO":
            found = re.search(r"Ordinal : (\w+) Offset : (\w+) Size : (\w+)", value)
            assert found
            assert value.endswith("Parameter Space : CBANK")
            ordinal, offset, size = (int(word, 16) for word in found.groups())
            row = {"ordinal": ordinal, "offset": offset, "size": size, "space": "constant"}
            golden.setdefault(section.removeprefix(".nv.info."), []).append(row)
    kernels = {kernel.name: kernel.facts["arguments"] for kernel in samples.code(name).kernels}
    assert golden
    assert kernels == {kernel: sorted(rows, key=lambda row: row["ordinal"]) for kernel, rows in golden.items()}


def test_each_format_has_its_own_length():
    data = bytes([1, 0x53, 0, 0, 2, 0x4C, 7, 9, 3, 0x1B, 0xFF, 1, 4, 0x11, 8, 0]) + struct.pack("<II", 5, 64)
    assert [(one.name, one.value) for one in cubin_facts.read(data, "x")] == [
        ("GEN_ERRBAR_AT_EXIT", None),
        ("NUM_BARRIERS", 7),
        ("MAXREG_COUNT", 0x1FF),
        ("FRAME_SIZE", (5, 64)),
    ]


def test_an_id_without_a_name_is_its_number_and_odd_bytes_are_hexadecimal():
    (one,) = cubin_facts.read(bytes([4, 0xEE, 3, 0, 1, 2, 3]), "x")
    assert (one.name, one.value) == ("0xee", "010203")


def test_large_parameters_use_the_second_record_layout():
    record = struct.pack("<BBHIHHHBB", 4, 0x45, 12, 0, 2, 0x18, 0x8004, 0, 0)
    assert cubin_facts.parameters(cubin_facts.read(record, "x")) == [
        {"ordinal": 2, "offset": 0x18, "size": 0x8004, "space": "constant"}
    ]


RECORDS = st.one_of(
    st.tuples(st.integers(1, 3), st.sampled_from(sorted(cubin_facts.NAMES)), st.binary(min_size=2, max_size=2)).map(
        lambda fields: bytes(fields[:2]) + fields[2]
    ),
    st.tuples(st.sampled_from(sorted(cubin_facts.NAMES)), st.binary(max_size=24)).map(
        lambda fields: struct.pack("<BBH", cubin_facts.SVAL, fields[0], len(fields[1])) + fields[1]
    ),
)


@given(st.lists(RECORDS, max_size=12), st.binary(max_size=5))
def test_packed_records_say_what_they_say_unpacked(records, rest):
    """Compiled and as it stands; the other reading is the definition of each function, over records whose ends are known."""
    data, table = b"".join(records), bytes(number in cubin_facts.OF_SYMBOL for number in range(256))
    wanted = [record for record in records if table[record[1]]]
    said: dict[int, dict[int, int]] = {}
    for record in wanted:
        if record[0] == cubin_facts.SVAL and len(record) >= 12 and len(record) % 4 == 0:
            symbol, number = struct.unpack_from("<II", record, 4)
            said.setdefault(symbol, {})[record[1]] = number
    for core in (compiled, uncompiled("records")):
        assert core.chosen(data, table) == (b"".join(wanted), len(records), len(data))
        assert core.numbers_by_symbol(data, table) == said
        starts, end = core.starts(data)
        assert ([data[at + 1] for at in starts], end) == ([record[1] for record in records], len(data))
        assert core.starts(data + rest) == compiled.starts(data + rest)
    packed = cubin_facts.PackedAttributes(data, "x")
    assert len(packed) == len(packed.value()) == len(records)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes([4, 0x11, 9, 0]), "ends past"),
        (bytes([4, 0x11, 0]), "ends inside the record at byte 0"),
        (bytes([9, 0x11, 0, 0]), "format 9 is not known"),
    ],
)
def test_damaged_records_are_refused_with_their_place(data, message):
    with pytest.raises(Malformed, match=message) as caught:
        cubin_facts.read(data, ".nv.info.k")
    assert caught.value.where.startswith(".nv.info.k")
    with pytest.raises(Malformed) as packed:
        cubin_facts.PackedAttributes(data, ".nv.info.k")
    assert str(packed.value) == str(caught.value)
