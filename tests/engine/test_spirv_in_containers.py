"""SPIR-V inside a container: where there is no machine code its names, lines and listings are told as of the bare file; offsets in it always take its path."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from symd.engine.engine import Engine
from symd.engine.files.module import kernel_names
from symd.errors import KernelNotFound
from symd.formats import containers
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, Query
from symd.model.answers import Reason
from symd.model.names import parse_name_query
from symd.query.line_tables import chosen
from symd.store import Store

SAMPLES = Path(__file__).parents[2] / "samples"
INLINE = (SAMPLES / "spirv/bin/inline.O2.ocl-100.spv").read_bytes()
METHODS = (SAMPLES / "spirv/bin/methods.O2.ocl-100.spv").read_bytes()
MACHINE = (SAMPLES / "kernels/bin/raycast/dg2-opt.dbg").read_bytes()
WEIGH = ByAddress(ObjectAddress(0xC34))
"""An instruction that spirv-dis shows below the OpLine of weigh.h:3."""
FADE = ByKernel("fade", KernelOffset(0x20))
ALL = parse_name_query("*")


def archive(*members: bytes) -> bytes:
    """As ``ar`` writes it, of members m0, m1, …"""
    written = io.BytesIO()
    written.write(b"!<arch>\n")
    for number, member in enumerate(members):
        written.write(f"{f'm{number}/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(member):<10}`\n".encode() + member)
        written.write(b"\n" * (len(member) % 2))
    return written.getvalue()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Store(tmp_path)) as made:
        yield made


def plain(items: Any) -> list[Any]:
    """Values without the paths of their code objects."""
    return [replace(each, path="") for each in items]


def test_one_module_in_an_archive_has_the_names_and_lines_of_the_bare_file(engine: Engine) -> None:
    bare, inside = engine.add(INLINE).sha256, engine.add(archive(INLINE)).sha256
    assert plain(engine.names(inside, ALL)) == plain(engine.names(bare, ALL)) != []
    (table,), (expected,) = engine.lines(inside), engine.lines(bare)
    assert table.path == "m0"
    assert table.line.tolist() == expected.line.tolist() != []
    assert table.offset.tolist() == expected.offset.tolist()


@pytest.mark.parametrize("query", [WEIGH, FADE])
def test_an_offset_is_one_of_spirv_only_where_that_is_named(engine: Engine, query: Query) -> None:
    """A profile of a program has offsets of what a driver made of the SPIR-V: those have other lines."""
    bare, inside = engine.add(INLINE).sha256, engine.add(archive(INLINE)).sha256
    assert engine.symbolize_one(inside, query).frames == ()
    assert engine.symbolize_one(inside, query, "m0").frames == engine.symbolize_one(bare, query).frames != ()


def test_its_listing_needs_no_path() -> None:
    codes = containers.unpack(archive(INLINE)).objects
    assert [code.path for code in chosen(codes, None, None, None)] == ["m0"]


def test_a_function_of_it_needs_no_path(engine: Engine) -> None:
    digest = engine.add(archive(INLINE)).sha256
    assert {each.path for each in engine.lines(digest, within="fade")} == {"m0"}


def test_two_modules_have_the_names_of_both(engine: Engine) -> None:
    digest = engine.add(archive(INLINE, METHODS)).sha256
    assert {each.path for each in engine.names(digest, ALL)} == {"m0", "m1"}


def test_beside_machine_code_it_is_asked_by_its_path_alone(engine: Engine) -> None:
    digest = engine.add(archive(MACHINE, INLINE)).sha256
    assert engine.symbolize_one(digest, FADE).reason == Reason.UNKNOWN_KERNEL
    assert engine.symbolize_one(digest, FADE, "m1").frames
    assert "m1" not in {each.path for each in engine.names(digest, ALL)}
    assert "m1" not in {each.path for each in engine.lines(digest)}
    assert "m1" not in {
        code.path for code in chosen(containers.unpack(archive(MACHINE, INLINE)).objects, None, None, None)
    }


def test_a_kernel_that_only_the_spirv_beside_machine_code_has_is_told_with_its_path(engine: Engine) -> None:
    digest = engine.add(archive(MACHINE, INLINE)).sha256
    with pytest.raises(KernelNotFound, match="fade") as raised:
        engine.lines(digest, within="fade")
    assert raised.value.hint == "the SPIR-V has it: ask for the code object 'm1'"


def test_the_verbs_name_the_object_that_has_a_kernel(engine: Engine) -> None:
    digest = engine.add(archive(MACHINE, INLINE)).sha256
    with pytest.raises(KernelNotFound) as raised:
        kernel_names(engine, digest, "fade")
    assert "--object m1" in (raised.value.hint or "")
    assert kernel_names(engine, digest, "fade", "m1") == {"fade"}
