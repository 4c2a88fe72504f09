"""Line programs made up from one number, for property tests: header, tables, rows and encoding all follow from it."""

from __future__ import annotations

import random
from typing import Any

from .line_header import Formats
from .line_program import File, LineProgram, Row, Shape, build_line_program

PATH_FORMS = ("string", "line_strp")
NUMBER_FORMS = ("udata", "data1", "data2")


def random_program(seed: int, *, rows: int = 40, files: int = 4, **shape: Any) -> LineProgram:
    """A line program with about ``rows`` rows; fields of ``Shape`` that are given are not made up."""
    chance = random.Random(seed)
    made = random_shape(chance, **shape)
    first = 0 if made.version >= 5 else 1
    directories = ["/src", "/src/include", "lib"][: chance.randint(1, 3)]
    table = [File(f"file{number}.cl", chance.randrange(len(directories))) for number in range(chance.randint(1, files))]
    late = [File(f"late{number}.h") for number in range(chance.randint(0, 2))] if made.version < 5 else []
    numbers = range(first, first + len(table) + len(late))
    sequences = [random_sequence(chance, made, numbers, rows // 2) for _ in range(chance.randint(1, 3))]
    return build_line_program(
        sequences, shape=made, files=table, directories=directories, late_files=late, seed=chance.getrandbits(32)
    )


def random_shape(chance: random.Random, **given: Any) -> Shape:
    """A header. Without VLIW and with a usual opcode_base unless that is given: not every reader knows them."""
    version = given.get("version", chance.choice((2, 3, 4, 5)))
    path = chance.choice(PATH_FORMS)
    formats: Formats = (("path", path), ("directory", chance.choice(NUMBER_FORMS)))
    formats += (("md5", "data16"),) if chance.random() < 0.5 else ()
    line_range = chance.randint(1, 30)
    made: dict[str, Any] = {
        "version": version,
        "dwarf64": version >= 3 and chance.random() < 0.3,
        "min_inst_length": chance.choice((1, 1, 2, 4, 8, 16)),
        "default_is_stmt": chance.random() < 0.7,
        "line_base": -chance.randint(0, line_range - 1),
        "line_range": line_range,
        "extra_operands": tuple(chance.randint(0, 4) for _ in range(chance.choice((0, 0, 1, 3)))),
        "directory_formats": (("path", path),),
        "file_formats": formats,
    }
    return Shape(**made | given)


def random_sequence(chance: random.Random, shape: Shape, files: range, count: int) -> list[Row]:
    """Rows whose addresses never fall, closed by an end_sequence row."""
    step = shape.min_inst_length
    limit = 1 << 8 * shape.address_size - 2
    address, line, row = chance.choice((0, 0x100, limit)) // step * step, chance.randint(1, 500), Row(0, files[0])
    rows = []
    for _ in range(chance.randint(1, count)):
        address += step * chance.choice((0, 1, 1, 2, 3, 8, 17, 40, 5000))
        line = max(0, line + chance.choice((-300, -7, -1, 0, 1, 1, 1, 2, 3, 60)))
        row = _random_row(chance, shape, address, line, chance.choice(files), row)
        rows.append(row)
    end = row._replace(basic_block=False, prologue_end=False, epilogue_begin=False, discriminator=0)
    return [*rows, end._replace(address=address + step * chance.randint(0, 30), op_index=0, end_sequence=True)]


def _random_row(chance: random.Random, shape: Shape, address: int, line: int, file: int, before: Row) -> Row:
    def sometimes(share: float) -> bool:
        return chance.random() < share

    same_place = address == before.address
    op_index = chance.randrange(before.op_index if same_place else 0, shape.max_ops)
    return Row(
        address,
        file if sometimes(0.3) else before.file,
        line,
        chance.choice((0, 1, 5, 80, 200)) if sometimes(0.6) else before.column,
        is_stmt=before.is_stmt != sometimes(0.3),
        basic_block=sometimes(0.1),
        prologue_end=shape.base > 10 and sometimes(0.1),
        epilogue_begin=shape.base > 11 and sometimes(0.1),
        isa=chance.randint(0, 3) if shape.base > 12 and sometimes(0.2) else before.isa,
        discriminator=chance.randint(1, 300) if sometimes(0.1) else 0,
        op_index=op_index,
    )
