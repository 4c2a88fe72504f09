"""The variables in scope: names, types, functions and live ranges equal what llvm-dwarfdump prints, for every function of
every sample, at the first and the last byte of each range that the debug data mentions."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.debuginfo.variables.visible import VariableReader
from symd.formats import containers
from symd.model.code import CodeObject, Section, Vendor
from symd.model.variables import Variable
from tests.agreement import dwarfdump_dies, dwarfdump_locations, oracle_cubin, oracle_elf
from tests.agreement.comparison import IGC_LINE
from tests.agreement.dwarfdump_dies import Die, Shown, Tree
from tests.agreement.samples import Sample, samples
from tests.agreement.test_intel import dumps_of
from tests.formats.containers.amd import objects
from tests.golden.cuda import samples as cuda


class Comparison:
    """A code object beside LLVM's reading of it. ``counted`` collects how many variables were compared, by whether they
    live somewhere; ``structured`` and ``not_read`` how many locations were compared as structure, or could not be."""

    def __init__(self, code: CodeObject, elf: bytes, folder: Path) -> None:
        path = folder / "dwarfdump.elf"
        path.write_bytes(elf)
        self.tree, self.code = Tree(path), code
        self.reader = VariableReader(code)
        self.counted = {True: 0, False: 0}
        self.structured = self.not_read = 0

    def section(self, functions: list[Die], section: Section, base: int) -> None:
        """Compare everywhere in the functions of one section; ``base`` is the address that LLVM gives its first byte."""
        text = (base, base + section.size)
        for address in sorted({at for function in functions for at in self._probes(function, text)}):
            theirs = dwarfdump_dies.visible(self.tree, functions, address, text)
            mine = self.reader.at(section.index, address - base)
            assert [self._shown(variable, base) for variable in mine.variables] == theirs, hex(address)
            for variable, other in zip(mine.variables, theirs, strict=True):
                self.counted[bool(other.live)] += 1
                here = any(start <= address < end for start, end in other.live)
                assert variable.optimized_out == (variable.location is None) == (not here), (hex(address), variable)
                self._structure(variable, other, address, self._is_without_private(section.index, address - base))

    def _structure(self, variable: Variable, other: Shown, address: int, without_private: bool) -> None:
        """The structured locations are those of the expressions that LLVM prints for the address."""
        texts = [text for start, end, text in other.places if start <= address < end and text]
        if without_private:
            texts = list(map(dwarfdump_locations.without_marks, texts))
        if not texts:
            return
        if not all(map(dwarfdump_locations.can_be_read, texts)):
            self.not_read += 1
            return
        assert len(variable.locations) == len(texts), (variable, texts)
        for location, text in zip(variable.locations, texts, strict=True):
            dwarfdump_locations.assert_same(location, text, other.frame_base)
        self.structured += 1

    def _is_without_private(self, section: int, offset: int) -> bool:
        """Whether the kernels at a place say so, and where there is none, those of the whole linked object."""
        here = [
            one for one in self.code.kernels if one.section_index == section and 0 <= offset - one.offset < one.size
        ]
        known = here or (self.code.kernels if self.code.linked else ())
        return self.code.vendor is Vendor.AMD and bool(known) and all(one.facts["scratch"] == 0 for one in known)

    def _probes(self, function: Die, text: tuple[int, int]) -> list[int]:
        ends = set()
        for scope in dwarfdump_dies.scopes_below(function):
            ranges = scope.ranges()
            for child in scope.children:
                ranges += [(start, end) for start, end, _ in child.lists.get("DW_AT_location", ())]
            ends |= {at for start, end in ranges for at in (start, end - 1, end)}
        held = function.ranges()
        return sorted(at for at in ends if at < text[1] and any(start <= at < end for start, end in held))

    def _shown(self, variable, base: int) -> Shown:
        live = tuple((start + base, end + base) for start, end in variable.live)
        return Shown(variable.name, variable.type, variable.kind, variable.function, variable.inlined, live)


def code_objects(data: bytes) -> list[CodeObject]:
    return [code for code in containers.unpack(data).objects if code.debug.startswith("dwarf")]


def text_of(code: CodeObject, name: str) -> Section:
    [found] = [section for section in code.sections if section.name == name and section.executable]
    return found


def compare_one_text(code: CodeObject, elf: bytes, folder: Path, section: Section) -> dict[bool, int]:
    """An object that LLVM sees as one text at 0."""
    comparison = Comparison(code, elf, folder)
    comparison.section(comparison.tree.functions(), section, 0)
    return comparison.counted


@pytest.mark.parametrize("sample", samples("igc-debug"), ids=str)
def test_variables_of_a_debug_container_are_those_of_dwarfdump(sample: Sample, tmp_path: Path) -> None:
    images = oracle_elf.split_container(sample.data)
    counted = [
        compare_one_text(code, oracle_elf.addends_stored(images[code.path], IGC_LINE), tmp_path, text_of(code, ".text"))
        for code in code_objects(sample.data)
    ]
    assert sum(one[True] for one in counted) > 3


ZEBINS = [one for one in samples("zebin", "debug-zebin") if one.debug != "none"]


@pytest.mark.parametrize("sample", ZEBINS, ids=str)
def test_variables_of_a_zebin_are_those_of_dwarfdump(sample: Sample, tmp_path: Path) -> None:
    """With the addends stored as if the kernels lay far apart, for LLVM does not know these relocations."""
    [code] = code_objects(sample.data)
    elf, kernels = oracle_elf.linked(sample.data)
    comparison = Comparison(code, elf, tmp_path)
    for number, kernel in enumerate(kernels):
        mine = [one for one in comparison.tree.functions() if one.ranges()[0][0] // oracle_elf.APART == number]
        comparison.section(mine, text_of(code, f".text.{kernel}"), number * oracle_elf.APART)
    assert comparison.counted[True] > 0


@pytest.mark.parametrize("sample", [one for one in ZEBINS if dumps_of(one)], ids=str)
def test_variables_of_a_zebin_are_those_of_what_the_same_compilation_dumped(sample: Sample, tmp_path: Path) -> None:
    """One ELF a kernel, which LLVM relocates by itself."""
    [code] = code_objects(sample.data)
    for kernel, elf in dumps_of(sample).items():
        if kernel in sample.kernels:
            compare_one_text(code, elf, tmp_path, text_of(code, f".text.{kernel}"))


@pytest.mark.parametrize("sample", samples("igc-elf"), ids=str)
def test_variables_of_a_dumped_kernel_are_those_of_dwarfdump(sample: Sample, tmp_path: Path) -> None:
    for code in code_objects(sample.data):
        patched = int.from_bytes(sample.data[18:20], "little") == 182
        elf = oracle_elf.addends_stored(sample.data, IGC_LINE) if patched else sample.data
        [text] = [section for section in code.sections if section.executable and section.size]
        compare_one_text(code, elf, tmp_path, text)


@pytest.mark.parametrize("name", objects.OBJECTS)
def test_variables_of_an_amd_object_are_those_of_dwarfdump(name: str, tmp_path: Path) -> None:
    """LLVM relocates the relocatable ones; with a section a function each begins at 0, named after its function."""
    code = objects.code(name)
    if not code.debug.startswith("dwarf"):
        return
    comparison = Comparison(code, objects.sample(name), tmp_path)
    texts = [section for section in code.sections if section.executable and section.size]
    for text in texts:
        mine = [
            one
            for one in comparison.tree.functions()
            if len(texts) == 1 or text.name == f".text.{comparison.tree.linkage_name(one)}"
        ]
        comparison.section(mine, text, text.address if code.linked else 0)
    assert comparison.structured > 1 or not any(comparison.counted.values())


@pytest.mark.parametrize("name", [name for name in cuda.CUBINS if ".debug" in name])
def test_variables_of_a_cuda_debug_build_are_those_of_dwarfdump(name: str, tmp_path: Path) -> None:
    """Every function has a section of its own; with the relocations stored by hand each begins at 0."""
    code = cuda.code(name)
    comparison = Comparison(code, oracle_cubin.relocated(cuda.data(name)), tmp_path)
    texts = {section.name: section for section in code.sections if section.executable}
    compared = 0
    for function in comparison.tree.functions():
        section = texts.get(f".text.{comparison.tree.linkage_name(function)}")
        if section is not None:  # the linker leaves the debug data of functions that it strips
            comparison.section([function], section, 0)
            compared += 1
    assert compared > 1
    assert comparison.counted[True] > 10
    assert comparison.structured > 10
    assert not comparison.not_read
