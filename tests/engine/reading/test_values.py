"""What goes to a reading process and comes back: every class that may travel does, and nothing else can be named."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import EmbeddedSources, IndexFor
from symd.engine.reading.served import CLASSES, decode, encode
from symd.errors import DataLoss
from symd.model.answers import TextSection
from symd.model.code import CodeObject, Kernel, Section, Vendor
from symd.model.line_tables import LineTable
from symd.model.sources import SourceText, TextOrigin
from symd.model.variables import (
    LocationPiece,
    LocationRegister,
    Member,
    PieceKind,
    TypeInfo,
    Variable,
    VariableLocation,
    Visible,
)

VISIBLE = Visible(
    variables=(
        Variable(
            *("i", "int", "local", "vadd", False, False, "r3"),
            live=((0, 1 << 63), (1 << 64, 1 << 70)),
            locations=(
                VariableLocation(
                    (LocationPiece(PieceKind.REGISTER, register=LocationRegister(3, "r3"), data=b"\0\xff"),),
                    lanes=(0, 8),
                ),
            ),
        ),
    ),
    types=(TypeInfo("int", "base", 4, members=(Member("x", None, -8),), enumerators=(("A", -(1 << 80)),)),),
    notes=("half a pair: \ud800",),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.text() | st.binary(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "value",
    [
        VISIBLE,
        (SourceText("a.cl", "text", TextOrigin.MODULE, md5=bytes(16)), SourceText("b.cl")),
        (ModuleFile("0" * 64, "/store"), EmbeddedSources(("a",), None)),
        IndexFor(()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_equal_and_of_its_class(value) -> None:
    assert decode(encode(value)) == value
    assert type(decode(encode(value))) is type(value)


@given(PLAIN)
def test_what_has_no_class_comes_back(value) -> None:
    assert decode(encode(value)) == value


def test_a_code_object_comes_back_with_its_bytes() -> None:
    code = CodeObject(
        *("a/b", "zebin", "dg2", b"bytes"),
        sections=(Section(1, ".text", 1, 4, 0, 8, b"12345678"),),
        kernels=(Kernel("k", 1, 0, 8, {"simd_width": 16}),),
        vendor=Vendor.INTEL,
    )
    back = decode(encode(code))
    assert back == code
    assert back.sections[0].data == b"12345678"
    assert back.vendor is Vendor.INTEL


def test_columns_come_back_as_columns() -> None:
    column = np.arange(3, dtype=np.uint32)
    text = TextSection("", ".text", 1, 0)
    table = LineTable(
        "", None, column, column.astype(np.uint64), *[column] * 5, column.astype(np.uint8), [text], ["", "a"], column
    )
    back = decode(encode(table))
    assert back.offset.dtype == np.uint64
    assert back.flags.tolist() == [0, 1, 2]
    assert tuple(back.strings) == ("", "a")


def test_a_value_of_another_class_does_not_travel() -> None:
    for value in (object(), {1, 2}, OSError("no"), print):
        with pytest.raises(TypeError):
            encode(value)


@pytest.mark.parametrize(
    "plain",
    [
        [len(CLASSES) + 2],
        [-1, "os.system", "true"],
        ["builtins.eval", "1"],
        [1, "|O", bytes(8)],
        [1, "<u4", b"odd"],
        [2],
        [2, *range(40)],
        [],
        msgpack.ExtType(5, b"code"),
    ],
    ids=repr,
)
def test_what_nobody_encodes_is_refused(plain) -> None:
    with pytest.raises(DataLoss):
        decode(msgpack.packb(plain))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        decode(data)
    except DataLoss:
        return
