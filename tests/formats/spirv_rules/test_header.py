"""The header rules, on modules whose words are changed by hand: no assembler writes them."""

from __future__ import annotations

import struct

import pytest

from symd.formats.spirv_rules import Device, check

HEADER = struct.pack("<5I", 0x07230203, 0x00010000, 0, 10, 0)
MEMORY_MODEL = struct.pack("<3I", 3 << 16 | 14, 2, 2)
GOOD = HEADER + MEMORY_MODEL


def headers(data: bytes) -> list[tuple[int, str]]:
    report = check(data)
    assert not report.valid
    return [(violation.offset, violation.message) for violation in report.violations if violation.rule == "header"]


def test_a_header_and_a_memory_model_are_valid() -> None:
    assert check(GOOD).valid
    assert check(GOOD).violations == ()


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"\x03\x02", 0),
        (b"\x7fELF" + GOOD[4:], 0),
        (GOOD[:16], 16),
        (GOOD + b"\0\0\0", 32),
        (GOOD + struct.pack("<I", 0 << 16 | 17), 32),
        (GOOD + struct.pack("<2I", 3 << 16 | 17, 4), 32),
        (GOOD + struct.pack("<I", 1 << 16 | 17), 32),
        (GOOD + struct.pack("<2I", 2 << 16 | 21, 4), 32),
    ],
    ids=[
        "empty",
        "two bytes",
        "another magic number",
        "half a header",
        "a broken word at the end",
        "word count 0",
        "word count past the end",
        "OpCapability without a capability",
        "OpTypeInt without a width",
    ],
)
def test_a_damaged_module_breaks_the_header_rule_where_the_damage_is(data: bytes, offset: int) -> None:
    assert [found for found, _ in headers(data)] == [offset]


def test_the_other_byte_order_breaks_the_header_rule_and_the_rest_is_judged_all_the_same() -> None:
    swapped = b"".join(GOOD[at : at + 4][::-1] for at in range(0, len(GOOD), 4))
    assert [offset for offset, _ in headers(swapped)] == [0]
    assert [violation.rule for violation in check(swapped).violations] == ["header"]


def test_what_precedes_the_damage_is_judged() -> None:
    data = HEADER + struct.pack("<3I", 3 << 16 | 14, 1, 2) + struct.pack("<I", 0)
    assert [(violation.rule, violation.offset) for violation in check(data).violations] == [
        ("addressing-model", 20),
        ("header", 32),
    ]


@pytest.mark.parametrize(
    ("version", "highest", "broken"),
    [(0x10200, (1, 2), 0), (0x10300, (1, 2), 1), (0x10400, (1, 4), 0), (0x20000, (1, 6), 1)],
)
def test_the_version_is_compared_with_the_highest_that_the_device_takes(
    version: int, highest: tuple[int, int], broken: int
) -> None:
    data = struct.pack("<5I", 0x07230203, version, 0, 10, 0) + MEMORY_MODEL
    rules = [violation.rule for violation in check(data, Device(spirv_max=highest)).violations]
    assert rules == ["spirv-version"] * broken


def test_a_module_without_a_memory_model_breaks_the_memory_model_rule() -> None:
    assert [violation.rule for violation in check(HEADER).violations] == ["memory-model"]
