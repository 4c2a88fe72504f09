"""The tables of numbers against spirv-as and spirv-dis."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from symd.formats.spirv import StorageClass, parse
from symd.formats.spirv_rules.grammar import Capability, Scope
from symd.formats.spirv_rules.module import CheckedModule
from tests import tools
from tests.formats.spirv_rules.assembly import assemble
from tests.formats.spirv_rules.cases import CASES

SAMPLES = Path(__file__).parents[3] / "samples" / "spirv" / "bin"
UNREADABLE = ("legacy", "ocl-100", "big-endian", "line-tables")
"""spirv-dis refuses pointers without a storage class in llvm-spirv's debug data, and the legacy set."""


def test_capabilities_have_the_numbers_that_spirv_as_gives_them() -> None:
    """Names that it does not know, which are newer, are left out; it tells of one at a time."""
    names = list(Capability.__members__)
    command = [tools.require("spirv-as"), "--target-env", "spv1.6", "-o", "-", "-"]
    while True:
        text = "\n".join(f"OpCapability {name}" for name in names)
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        unknown = re.search(r"Invalid capability '(\w+)'", done.stderr.decode())
        if unknown is None:
            break
        names.remove(unknown[1])
    assert [word for _, word in struct.iter_unpack("<2I", done.stdout[20:])] == [Capability[name] for name in names]
    assert len(names) > 90
    assert {"VectorComputeINTEL", "KernelAttributesINTEL"} <= {*names}


def test_storage_classes_have_the_numbers_that_spirv_as_gives_them() -> None:
    lines = [f"%p{number:d} = OpTypePointer {name} %void" for name, number in StorageClass.__members__.items()]
    data = assemble("\n".join(("%void = OpTypeVoid", *lines)))
    assert [word for _, _, word, _ in struct.iter_unpack("<4I", data[28:])] == list(StorageClass)
    assert list(Scope) == list(range(7))


def declared(listing: str) -> dict[int, int]:
    """Type id by value id, from the text of spirv-dis --raw-id."""
    types = set(re.findall(r"^\s*(%\d+) = OpType", listing, re.MULTILINE))
    values = re.findall(r"^\s*(%\d+) = Op(?!Type)\w+ (%\d+)", listing, re.MULTILINE)
    return {int(value[1:]): int(kind[1:]) for value, kind in values if kind in types}


def modules() -> list[tuple[str, bytes]]:
    samples = [path for path in sorted(SAMPLES.glob("*.spv")) if not any(word in path.name for word in UNREADABLE)]
    return [(path.name, path.read_bytes()) for path in samples]


@pytest.mark.parametrize(("name", "data"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_values_have_the_types_that_spirv_dis_shows(name: str, data: bytes, tmp_path: Path) -> None:
    check_types(data, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_the_cases_have_the_types_that_spirv_dis_shows(case, tmp_path: Path) -> None:
    check_types(assemble(case.broken), tmp_path)


def check_types(data: bytes, folder: Path) -> None:
    path = folder / "module.spv"
    path.write_bytes(data)
    expected = declared(tools.output(tools.require("spirv-dis"), "--no-color", "--raw-id", path))
    ours = CheckedModule(parse(data))
    found = {value: kind.id for value in range(int(ours.words.words[3])) if (kind := ours.type_of(value))}
    assert found == expected
