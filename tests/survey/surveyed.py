"""One artefact surveyed: got, unpacked, asked, compared, measured; what is left is a `Row`."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

from tests.survey.artefacts import PROGRAMS, Artefact, Bound, Bounds
from tests.survey.case import Case, Compared, SurveyError, answered, symd
from tests.survey.compare import COMPARISONS, nvidia_tools
from tests.survey.compare.embedded_spirv import arrays
from tests.survey.compare.offloading import holds_device_code
from tests.survey.measured import Usage, run
from tests.survey.registries import Unreachable

SOUND = {"amdgpu", "cubin"}
"""Formats whose debug data was never found to contradict itself: where symd says so, somebody has to look."""
MIB = 1 << 20
REFUSED = 20
"""Files without device code of a package that symd is shown."""
HOST_FILES = "readelf: files without device code, which symd refuses"
INVALID = 2
"""The exit code for files that symd does not read."""


@dataclass
class Row:
    """What a run found out. ``compared`` counts by comparison; without ``problems`` everything agreed."""

    files: int = 0
    size: int = 0
    objects: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    compared: dict[str, int] = field(default_factory=dict)
    newer: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    contradicting: int = 0
    doubts: list[str] = field(default_factory=list)
    info: Usage = field(default_factory=Usage)
    one_address: Usage = field(default_factory=Usage)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        return {**vars(self), "info": asdict(self.info), "one_address": asdict(self.one_address)}


def survey(artefact: Artefact, folder: Path) -> Row:
    """``folder`` is emptied first; what lies in it afterwards is nobody's."""
    shutil.rmtree(folder, ignore_errors=True)
    row = Row()
    with_code, without = files(artefact, folder)
    for number, path in enumerate(with_code):
        try:
            case = Case(path, folder / "cases" / str(number))
            look(artefact, case, row)
            case.close()
        except SurveyError as error:
            row.problems.append(f"{path.name}: {error}")
    if len(row.doubts) == artefact.doubted:
        row.remarks += [artefact.why_doubted] if artefact.doubted else []
    else:
        row.problems += row.doubts
    refuse(without[:REFUSED], folder, row)
    if not row.files:
        row.problems.append("no file of the package holds device code")
    row.problems += [f"{name}: nothing to compare" for name, count in row.compared.items() if not count]
    return row


def files(artefact: Artefact, folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of the artefact that hold device code, and the others. Host programs are told apart by readelf: by their sections, and by variables
    that are SPIR-V modules."""
    source = fetched(artefact, folder)
    found = sorted({path.resolve() for pattern in artefact.files for path in source.glob(pattern) if path.is_file()})
    if artefact.program or artefact.checkout:
        return found, []
    holding = [holds_device_code(path) or bool(arrays(path)) for path in found]
    return list(compress(found, holding)), [path for path, holds in zip(found, holding, strict=True) if not holds]


def refuse(paths: Sequence[Path], folder: Path, row: Row) -> None:
    """symd finds no device code where readelf lists none."""
    for path in paths:
        done = symd(["info", path], folder)
        row.compared[HOST_FILES] = row.compared.get(HOST_FILES, 0) + 1
        if done.code != INVALID:
            row.problems.append(f"{path.name}: no device code, and symd info exits with {done.code}")


def fetched(artefact: Artefact, folder: Path) -> Path:
    """The folder with the artefact's files."""
    if artefact.checkout:
        if artefact.checkout not in os.environ:
            raise Unreachable(f"no registry has it: {artefact.checkout} names a checkout")
        return Path(os.environ[artefact.checkout])
    packages = folder / "packages"
    for package in artefact.packages:
        package.unpack(packages)
    if not artefact.program:
        return packages
    made = folder / "made"
    made.mkdir()
    done = run([sys.executable, PROGRAMS / f"{artefact.program}.py", packages, made], made)
    if done.code:
        raise SurveyError(f"{artefact.program}: exit code {done.code}: {' '.join(done.errors.split())[-500:]}")
    return made


def look(artefact: Artefact, case: Case, row: Row) -> None:
    """Count, ask, compare and measure one file."""
    entries = case.info["objects"]
    row.files += 1
    row.size += case.path.stat().st_size
    row.objects.update(kind(entry) for entry in entries)
    row.kernels += sum(len(entry["kernels"]) for entry in entries)
    row.contradicting += sum("contradict" in note for entry in entries for note in entry["notes"])
    row.info = row.info.then(case.info_usage)
    for name in artefact.compare:
        compared = COMPARISONS[name](case)
        row.compared[compared.what] = row.compared.get(compared.what, 0) + compared.count
        row.newer[compared.what] += compared.newer
        row.problems += few(case, compared)
    row.reasons += case.reasons()
    row.doubts += doubts(case)
    row.one_address = row.one_address.then(case.one_address)
    row.problems += over(artefact.bounds, case, row) if artefact.bounds else []


def kind(entry: Mapping[str, Any]) -> str:
    debug = f" with {entry['debug']}" if entry["debug"] != "none" else ""
    return f"{entry['format']}{debug}"


def few(case: Case, compared: Compared, most: int = 5) -> list[str]:
    """The first differences, and how many there are."""
    told = [f"{case.path.name}: {compared.what}: {difference}" for difference in compared.differences[:most]]
    more = len(compared.differences) - most
    return [*told, f"{case.path.name}: {compared.what}: {more} more"] if more > 0 else told


def doubts(case: Case) -> list[str]:
    """Answers that say a contradiction in formats whose debug data has none."""
    return [
        f"{case.path.name}: {each.name} {query}: {answer['reason']}"
        for each in case.asked
        if each.format in SOUND
        for query, answer in zip(each.queries, each.answers(), strict=True)
        if answer["reason"] in {"CONTRADICTORY", "INFERRED"}
    ]


def over(bounds: Bounds, case: Case, row: Row) -> list[str]:
    """What costs more than it may. What was measured beyond the table's columns becomes a remark."""
    problems = []
    if bounds.info:
        row.info = least(row.info, lambda: answered(["info", "--json", case.path], case.folder).usage, bounds.info)
        problems += _above("info", row.info, bounds.info)
    if bounds.address_of_object:
        row.one_address = least(row.one_address, case.address_of_object, bounds.address_of_object)
        problems += _above("one address with --object", row.one_address, bounds.address_of_object)
    if bounds.address:
        usage = least(address_of_any_object(case), lambda: address_of_any_object(case), bounds.address)
        row.remarks.append(f"one address without `--object`: {shown(usage)}")
        problems += _above("one address", usage, bounds.address)
    if bounds.beside_cuobjdump:
        other = nvidia_tools.list_usage(case)
        bound = (3 * other.processor, other.peak)
        row.info = least(row.info, lambda: answered(["info", "--json", case.path], case.folder).usage, bound)
        row.remarks.append(f"`cuobjdump -lelf`: {shown(other)}")
        problems += _above("info", row.info, bound)
    return problems


def least(usage: Usage, measure: Callable[[], Usage], bound: Bound, turns: int = 3) -> Usage:
    """``usage``, or where it is above the bound the one of some turns that took the least time: other programs of the machine
    disturb."""
    for _ in range(turns - 1):
        if not _above("", usage, bound):
            break
        usage = min(usage, measure(), key=lambda each: each.processor)
    return usage


def address_of_any_object(case: Case) -> Usage:
    """What one address of a kernel costs when symd has to find out which code objects have the kernel."""
    each = next(each for each in case.asked if each.entry["kernels"])
    query = f"{each.entry['kernels'][0]['name']}+0"
    return answered(["symbolize", "--json", case.path, query], case.folder).usage


def _above(what: str, usage: Usage, bound: Bound) -> list[str]:
    if usage.processor <= bound[0] and usage.peak <= bound[1]:
        return []
    return [f"{what}: {shown(usage)}; {bound[0]:.1f} s and {bound[1] // MIB} MB are allowed"]


def shown(usage: Usage) -> str:
    return f"{usage.processor:.1f} s, {usage.peak // MIB:,} MB"
