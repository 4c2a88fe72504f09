"""Every byte of the abbreviations of two small samples, changed: an answer or one of symd's own errors, by every question. One such
byte once let an exception of a library out of a reader, and that ended the daemon.

All changes take minutes: one is tried for each byte, and all of them with ``SYMD_EVERY_CHANGE=1`` in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from symd.debuginfo.verify import verify
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.query.source_files import from_module
from tests.hostile.test_addresses import ask_everything

SAMPLES = Path(__file__).parents[2] / "samples"
NAMES = ["kernels/bin/vadd/dg2-opt.zebin", "amdgpu/bin/v4-gfx900.co"]
VALUES = (0x00, 0x01, 0x7F, 0x80, 0xFF, None)
"""What stands there instead; None: one more than before."""


def changes(data: bytes) -> Iterator[bytes]:
    """The image with one byte of .debug_abbrev changed."""
    every = bool(os.environ.get("SYMD_EVERY_CHANGE"))
    header = elf.parse_header(data)
    headers = elf.section_headers(data, header)
    names = elf.section_names(data, header, headers)
    section = headers[names.index(".debug_abbrev")]
    for number, at in enumerate(range(section.offset, section.offset + section.size)):
        for value in VALUES if every else [VALUES[number % len(VALUES)]]:
            changed = (data[at] + 1) % 256 if value is None else value
            if changed != data[at]:
                yield data[:at] + bytes([changed]) + data[at + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_abbreviation_is_an_answer_or_an_error_of_symd(name: str) -> None:
    for data in changes((SAMPLES / name).read_bytes()):
        with suppress(SymdError):
            ask_everything(data)
            objects = containers.unpack(data).objects
            list(from_module(objects, ("kernel.cl",), None))
            verify(objects)
