"""What is decoded of a SPIR-V module, without NumPy, whose import takes longer than one answer: rows and scopes. An address is the byte offset of an instruction; a row
begins at the first instruction that a line statement governs, never at the statement itself, and ends where the block ends.

Source: SPIR-V 1.6, 3.52.2 (OpLine, OpNoLine); NonSemantic.Shader.DebugInfo.100, DebugLine and DebugNoLine."""

from __future__ import annotations

from symd.core import spirv_lines as core
from symd.debuginfo.spirv.debug import DebugData, StringNumbers
from symd.debuginfo.spirv.scopes import ScopeBuilder
from symd.model.named_tuples import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from symd.debuginfo.spirv.scopes import SpirvScopes
    from symd.formats.spirv.functions import SpirvModule


class SpirvRows(NamedTuple):
    """Columns, as ``model.debug_info.LineRows`` has them; all rows are of section 0."""

    offset: array[int]
    file: array[int]
    line: array[int]
    column: array[int]
    flags: array[int]


class DecodedSpirv(NamedTuple):
    """``files`` and ``names`` begin with ""; ``declared`` are file and line where functions are declared, in the order of their numbers."""

    rows: SpirvRows
    scopes: SpirvScopes
    files: list[str]
    names: list[str]
    warnings: list[str]
    declared: list[tuple[int, int]]


def decode(module: SpirvModule) -> DecodedSpirv:
    """Whatever is wrong with debug operands only leaves out what they would have said."""
    words, files, names = module.words, StringNumbers(), StringNumbers()
    data = DebugData(words)
    sets = {number: layout.numbers_are_ids for number, layout in words.debug_sets.items()}
    kinds, of_lines, of_debug_lines = core.kinds(words.columns, sets)
    line_files = {each: files(words.strings.get(each, "")) for each in sorted(of_lines)}
    debug_files = {each: files(data.file_of(each)) for each in sorted(of_debug_lines)}
    places, statements, are_scopes = core.in_force(kinds)
    constants = words.constants if of_debug_lines else {}
    location = core.locations(words.columns, kinds, statements, (line_files, debug_files), constants)
    builder = ScopeBuilder(data, files, names)
    scopes = builder.build(module.functions, core.scope_changes(words.columns, kinds))

    def stated_places() -> Iterator[tuple[int, int, int]]:
        return ((function, files(file), line) for function, file, line in data.stated_places())

    core.leave_out_foreign(words.opcode, (places, statements), location[:2], builder.segments(), stated_places)
    rows = core.rows(words.start, words.end // 4, (places, statements, are_scopes), location)
    return DecodedSpirv(SpirvRows(*rows), scopes, files.strings, names.strings, builder.warnings, [*builder.declared])
