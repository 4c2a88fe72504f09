"""Modules that compilers really write break no rule but those that are known and named here."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from symd.formats.spirv import Opcode, parse
from symd.formats.spirv_rules import Device, check

SAMPLES = Path(__file__).parents[3] / "samples" / "spirv" / "bin"
KERNELS = SAMPLES.parents[1] / "kernels" / "bin"
NEWEST = Device(spirv_max=(1, 6))

BY_VALUE_AND_DOUBLE = {("kernel-param-pointer-class", True), ("kernel-param-float-width", True)}
VULKAN = {
    (rule, False)
    for rule in ("addressing-model", "memory-model", "exec-model", "int-signedness", "capability", "ext-inst-set")
}
KNOWN = {
    "arguments.O0.legacy.spv": {*BY_VALUE_AND_DOUBLE, ("capability", False)},  # SubgroupDispatch, for the subgroup size
    "arguments.O2.ocl-100.spv": {*BY_VALUE_AND_DOUBLE, ("capability", False)},
    "blend.dpcpp.spv": {
        ("capability", False),
        ("ext-inst-set", False),
    },  # OptNoneINTEL; a set that driver 22.43 dies of
    "outranked.spv": {("ext-inst-set", False)},
    "inline.O2.ocl-100.big-endian.spv": {("header", False)},
    "waves.g.spv": VULKAN,
    "waves.gV.spv": VULKAN,
    "waves.gVS.spv": VULKAN,
    "waves.gVS.big-endian.spv": {*VULKAN, ("header", False)},
}
"""A graphics module is no Level Zero module, and says so in every respect."""

FILES = sorted(SAMPLES.glob("*.spv"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_compilers_module_breaks_only_known_rules(path: Path) -> None:
    found = {(v.rule, v.accepted_in_practice) for v in check(path.read_bytes(), NEWEST).violations}
    assert found == KNOWN.get(path.name, set())


@pytest.mark.parametrize("path", sorted(KERNELS.rglob("*.spv")), ids=lambda path: "/".join(path.parts[-2:]))
def test_clangs_modules_of_the_sample_kernels_break_no_rule(path: Path) -> None:
    """But for OptNoneINTEL, which -cl-opt-disable makes llvm-spirv declare: a capability beyond the guaranteed ones."""
    report = check(path.read_bytes(), NEWEST)
    assert report.valid
    beyond = {violation.message for violation in report.violations}
    assert beyond <= ({"capability OptNoneINTEL is not one that this device must take"} if "O0" in path.name else set())


def test_there_are_samples_of_every_debug_kind() -> None:
    names = " ".join(path.name for path in FILES)
    assert all(kind in names for kind in ("ocl-100", "legacy", "line-tables", "none", ".g.", ".gV.", ".gVS."))


@pytest.mark.parametrize(
    "path", [path for path in FILES if "ocl-100.spv" in path.name or "legacy" in path.name], ids=lambda path: path.name
)
def test_debug_operands_are_never_judged(path: Path) -> None:
    """Everything but the word counts of the debug instructions may be nonsense."""
    data = bytearray(path.read_bytes())
    words = parse(bytes(data))
    luck = random.Random(7)
    before = check(bytes(data), NEWEST)
    for number in words.where(Opcode.ExtInst):
        if words.operands(number)[2] in words.debug_sets:
            start = words.offset(number)
            for at in range(start + 20, words.offset(number + 1)):
                data[at] = luck.randrange(256)
    assert check(bytes(data), NEWEST) == before


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_damaged_modules_are_judged_without_an_exception(path: Path) -> None:
    data = path.read_bytes()
    luck = random.Random(len(data))
    for _ in range(60):
        damaged = bytearray(data[: luck.randrange(len(data) + 1)])
        for _ in range(luck.randrange(8)):
            if damaged:
                damaged[luck.randrange(len(damaged))] = luck.randrange(256)
        assert isinstance(check(bytes(damaged), NEWEST).valid, bool)
