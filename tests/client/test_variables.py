"""Variables over the channel are those of the engine: names, types as structure, places, notes and reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from symd.errors import ModuleNotFound, ObjectNotFound
from symd.model.addresses import ByKernel, BySection, KernelOffset, SectionOffset
from symd.model.answers import Answer, Reason
from symd.model.variables import (
    InScope,
    LocationDoubt,
    LocationPiece,
    LocationRegister,
    Member,
    PieceKind,
    TypeInfo,
    Variable,
    VariableLocation,
    Visible,
)
from symd.rpc.wire.variables import from_place, to_place
from symd.v1.variable_service_pb2 import VariablesInScope
from tests.client.test_end_to_end import both  # noqa: F401 - the fixture: an engine and a client of its daemon

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = [
    "kernels/bin/blur/dg2-opt.dbg",
    "kernels/bin/particles/skl-O0.dbg",
    "kernels/bin/filters/igc2-dg2-opt.zebin",
    "amdgpu/bin/v4-gfx900-O0.co",
    "cuda/bin/raycast.sm_90.debug.cubin",
]


@pytest.mark.parametrize("file", FILES)
def test_every_place_has_the_engines_variables(both, file):  # noqa: F811
    engine, client = both
    module = client.add((SAMPLES / file).read_bytes())
    seen = 0
    for each in module.objects:
        for kernel in each.kernels:
            for offset in range(0, kernel.size, max(8, kernel.size // 8 // 8 * 8)):
                query = ByKernel(kernel.name, KernelOffset(offset))
                mine = engine.variables(module.sha256, query, each.path)
                assert client.variables(module.sha256, query, each.path) == mine
                seen += len(mine.visible.variables)
    assert seen > 0


def test_several_places_are_answered_in_order(both):  # noqa: F811
    engine, client = both
    module = client.add((SAMPLES / FILES[0]).read_bytes())
    [kernel] = [each for one in module.objects for each in one.kernels][:1]
    queries = [ByKernel(kernel.name, KernelOffset(offset)) for offset in range(0, 300 * 16, 16)]
    queries.insert(1, ByKernel("nobody", KernelOffset(0)))
    each = [engine.variables(module.sha256, query) for query in queries]
    assert engine.variables(module.sha256, queries) == each
    assert client.variables(module.sha256, queries) == each, "more than one request has"
    assert client.variables(module.sha256, ()) == []


def test_a_query_without_a_place_has_its_reason(both):  # noqa: F811
    engine, client = both
    digest = client.add((SAMPLES / FILES[0]).read_bytes()).sha256
    for query in (ByKernel("nobody", KernelOffset(0)), BySection(".text", SectionOffset(1 << 40))):
        found = client.variables(digest, query)
        assert found == engine.variables(digest, query)
        assert found.at.reason in {Reason.UNKNOWN_KERNEL, Reason.OUTSIDE_TEXT}
        assert not found.visible.variables


def test_what_is_not_there_is_said_so(both):  # noqa: F811
    _, client = both
    digest = client.add((SAMPLES / FILES[0]).read_bytes()).sha256
    query = ByKernel("blur", KernelOffset(0))
    with pytest.raises(ModuleNotFound):
        client.variables("0" * 64, query)
    with pytest.raises(ObjectNotFound):
        client.variables(digest, query, "nowhere")


def test_every_field_comes_back():
    info = TypeInfo(
        "struct s [3][]", "array", 12, "signed", 0, (3, None), (Member("a", 0, 4, 33, 7), Member("", None, None)),
        (0, None), (("red", -1), ("big", 7)), "local",
    )  # fmt: skip
    live, block = ((0, 8), (16, 2**64 - 1)), ((8, 16), (24, 32))
    variable = Variable("v", "int", "local", "f", True, False, "r1", live, 0, (), 0, "_Zf", 2, block, "/k.cl", 7)
    gone = Variable("", "", "local", "f", True, True, None)
    found = InScope(Answer(Reason.GAP), Visible((variable, gone), (info,), 16, ("a note",)))
    assert from_place(to_place(found)) == found


REGISTER = LocationRegister(29, "r29")
PIECES = {
    "a register": LocationPiece(PieceKind.REGISTER, register=REGISTER),
    "bits of a register a lane": LocationPiece(
        PieceKind.REGISTER, 8, 24, register=LocationRegister(5, "v5", 16, 8, (), 32, 1, 256), per_lane=True
    ),
    "a machine's registers": LocationPiece(
        PieceKind.REGISTER, register=LocationRegister(7, "%rd1", machine_registers=("R4", "R5"))
    ),
    "memory at a register": LocationPiece(
        PieceKind.MEMORY, 0, 32, 3, REGISTER, -16, 5, "private", per_lane=True, lane_stride=-4
    ),
    "memory at the frame": LocationPiece(PieceKind.MEMORY, offset=-(1 << 63), text="CFA"),
    "memory at the top": LocationPiece(PieceKind.MEMORY, offset=(1 << 64) - 8, address_space=0),
    "a constant": LocationPiece(PieceKind.CONSTANT, value=-3, per_lane=True, lane_stride=1),
    "bytes": LocationPiece(PieceKind.IMPLICIT, data=b"\1\0"),
    "no bytes": LocationPiece(PieceKind.IMPLICIT, data=b""),
    "nothing": LocationPiece(PieceKind.OPTIMIZED_OUT, 32, 32),
    "words": LocationPiece(PieceKind.EXPRESSION, text="r1 * lane"),
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES.keys())
def test_a_location_comes_back_as_structure(piece):
    locations = (
        VariableLocation((piece,), doubt=LocationDoubt("VALUE_NOT_ADDRESS", "it is the value")),
        VariableLocation((piece, PIECES["nothing"]), (8, 16)),
    )
    variable = Variable("v", "int", "local", "f", False, False, "somewhere", locations=locations)
    found = InScope(Answer(Reason.GAP), Visible((variable,)))
    message = VariablesInScope.FromString(to_place(found).SerializeToString())
    assert from_place(message) == found


KINDS = [
    "base",
    "pointer",
    "reference",
    "rvalue_reference",
    "member_pointer",
    "array",
    "vector",
    "structure",
    "class",
    "union",
    "enumeration",
    "typedef",
    "const",
    "volatile",
    "restrict",
    "atomic",
    "function",
    "unspecified",
    "string",
]


@pytest.mark.parametrize("kind", [*KINDS, "tag 0x4109"])
@pytest.mark.parametrize("encoding", [None, "signed_char", "UTF", "ASCII", "encoding 0x80"])
def test_a_types_words_come_back(kind, encoding):
    info = TypeInfo("t", kind, encoding=encoding)
    found = InScope(Answer(Reason.GAP), Visible((), (info,)))
    assert from_place(to_place(found)) == found


def test_numbers_that_no_field_holds_travel_as_not_known():
    huge = TypeInfo("t", "base", 1 << 70, counts=(1 << 65,), members=(Member("m", None, 1 << 64),))
    back = from_place(to_place(InScope(Answer(Reason.GAP), Visible((), (huge,))))).visible.types[0]
    assert (back.size, back.counts, back.members[0].offset) == (None, (None,), None)


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("offset", -(1 << 63), (1 << 63) - 1),
        ("bit_offset", -(1 << 63), (1 << 63) - 1),
        ("discriminant", -(1 << 63), (1 << 63) - 1),
        ("bit_size", 0, (1 << 64) - 1),
    ],
)
def test_a_members_numbers_come_back_as_far_as_their_fields_hold_them(field, least, most):
    def back(value):
        member = replace(Member("m", None, None), **{field: value})
        place = to_place(InScope(Answer(Reason.GAP), Visible((), (TypeInfo("t", "base", members=(member,)),))))
        return getattr(from_place(place).visible.types[0].members[0], field)

    assert [back(value) for value in (least - 1, least, most, most + 1)] == [None, least, most, None]


LOCAL = Variable("v", "int", "local", "f", False, False, "somewhere")


@pytest.mark.parametrize("field", ["number", "first_bit", "bits", "lane_bits", "lane_registers"])
def test_a_registers_numbers_travel_as_nothing_where_their_fields_do_not_hold_them(field):
    def sent(value):
        register = replace(LocationRegister(1, "r1"), **{field: value})
        piece = LocationPiece(PieceKind.REGISTER, register=register)
        variable = replace(LOCAL, locations=(VariableLocation((piece,)),))
        message = to_place(InScope(Answer(Reason.GAP), Visible((variable,), ()))).variables[0]
        return getattr(message.locations[0].pieces[0].in_register, field)

    assert [sent(value) for value in (-1, 0, (1 << 64) - 1, 1 << 64)] == [0, 0, (1 << 64) - 1, 0]


@pytest.mark.parametrize(("line", "told"), [(7, 7), (-1, 0), (1 << 64, 0)])
def test_a_declarations_line_that_no_field_holds_is_not_known(line, told):
    place = to_place(InScope(Answer(Reason.GAP), Visible((replace(LOCAL, declared_line=line),), ())))
    assert place.variables[0].declared_line == told
