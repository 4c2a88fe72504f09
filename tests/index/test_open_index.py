"""What an open index says of itself: its module's name, and the bytes that it takes."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from pathlib import Path

from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from tests.query.small import E, Object, S, Scope, index

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"


def test_a_summary_names_its_module_by_the_text_that_opened_the_index() -> None:
    """So who asks by it is found without a look at its letters."""
    data = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert Index.open_checked(build_index(data, Limits()), digest).summary.sha256 is digest


def test_a_description_counts_as_it_is_expanded() -> None:
    """Notes repeat the name of what they are about, so that a kilobyte of index may expand to megabytes of them."""
    image = (BIN.parents[1] / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
    bundle = _bundle(("n" * 50_000, _bundle(*((f"{number}", b"damaged") for number in range(40)), ("good", image))))
    index = Index.open_checked(build_index(bundle, Limits()))
    notes = sum(map(len, index.summary.notes))
    assert notes > 10 * index.size
    assert index.weight > notes


def test_what_is_worked_out_for_answers_as_written_counts() -> None:
    """They are answered by a second view of the index, which has tables of its own."""
    sound, contradictory = _many_rows((0x20, 5, S)), _many_rows()
    assert sound.view(as_written=True) is sound
    view = contradictory.view(as_written=True)
    assert view is not contradictory
    tracemalloc.start()
    try:
        assert len(view.derived.locations.reason) > ROWS
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken > 10 * ROWS
    assert contradictory.weight - contradictory.size - (sound.weight - sound.size) > taken


ROWS = 10_000


def _many_rows(*of_call: tuple[int, int, int]) -> Index:
    """A function of lines 20 to 39 with a call of one of lines 1 to 9 inlined into it, whose rows are ``of_call``."""
    rows = [(0, 21, S), *of_call, *((4 * at, 20 + at % 2, S) for at in range(16, ROWS)), (4 * ROWS, 20, E)]
    scopes = [
        Scope("outer", 0, 4 * ROWS, lines=(20, 40)),
        Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=(1, 10)),
    ]
    return Index.open_checked(
        index(Object(rows=rows, scopes=scopes, size=4 * ROWS, kernels=[("k", 0, 4 * ROWS)])).buffer
    )


def _bundle(*entries: tuple[str, bytes]) -> bytes:
    table, content = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    begin = len(table) + sum(24 + len(name) for name, _ in entries)
    for name, data in entries:
        table += struct.pack("<QQQ", begin + len(content), len(data), len(name)) + name.encode()
        content += data
    return table + content
