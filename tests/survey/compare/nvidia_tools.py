"""NVIDIA's own tools, as their wheels carry them: nvdisasm's positions of instructions, cuobjdump's lists of cubins."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.survey.case import Case, CodeFile, Compared, SurveyError, answered
from tests.survey.measured import Usage, run
from tests.survey.toolbox import tool

Chain = list[tuple[str, int]]
"""File and line, innermost first."""

_SECTION = re.compile(r"//-+ (\.text\S+)\s+-+")
_POSITION = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at )?')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+\S")
_MAGIC = struct.pack("<I", 0xBA55ED50)
CUOBJDUMPS = ("cuobjdump", "cuobjdump-12.4")
"""Version 13 takes some cubins of toolkit 12.1 for no ELF images."""
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_OLDEST = 75
"""The oldest architecture that nvdisasm 13 reads."""
_STEP = 16


def positions(case: Case) -> Compared:
    """File and line of every instruction, and the chain of inlined calls wherever nvdisasm prints it."""
    count, differences = 0, []
    for each in case.asked:
        if each.format == "cubin" and each.has_lines and architecture(each) >= _OLDEST:
            found = compare_positions(each)
            count += found.count
            differences += found.differences
    return Compared("nvdisasm: position of every instruction", count, differences)


def architecture(each: CodeFile) -> int:
    found = re.search(r"\d+", str(each.entry["target"]))
    return int(found[0]) if found else 0


def compare_positions(each: CodeFile) -> Compared:
    printed = {name: dict(chains) for name, chains in disassembled(each.path)}
    whole = each.entry["debug"] != "line-only"
    queries = [f"({name})+{offset:#x}" for name, chains in printed.items() for offset in chains]
    stdin = "".join(f"{query}\n" for query in queries).encode()
    done = answered(["symbolize", "--json", "--as-written", each.path, "-"], each.path.parent, stdin, codes=(0, 1))
    answers = map(json.loads, done.output.splitlines())
    differences = []
    innermost: tuple[str, int] | None = None
    expected = [(name, offset, chain) for name, chains in printed.items() for offset, chain in chains.items()]
    for (name, offset, chain), answer in zip(expected, answers, strict=True):
        if not chain and is_of_the_assembler(answer):  # nvdisasm goes on with the last position
            continue
        mine = [(frame["file"] or "", frame["line"]) for frame in answer["frames"]]
        placed = mine[:1] if mine and mine[0][1] else []
        if chain:
            innermost = chain[0]
        elif offset == 0 and placed != [
            innermost
        ]:  # a position that the section before ended with is not printed again
            innermost = None
        if placed != ([innermost] if innermost else []) or (chain and not whole and mine != chain):
            differences.append(f"{each.name} {name}+{offset:#x}: symd {answer['reason']} {mine}, nvdisasm {chain}")
    return Compared("nvdisasm", len(expected), differences)


def is_of_the_assembler(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is that the code is of a function of ptxas' own, of which nobody says where it comes from."""
    return answer["reason"] == "NO_LINE" and any("__cuda_sm" in (each["function"] or "") for each in answer["frames"])


def disassembled(cubin: Path) -> Iterator[tuple[str, Iterator[tuple[int, Chain]]]]:
    """Each text section with the chain printed in front of each instruction; empty where none is."""
    done = run([tool("nvdisasm"), "-gi", "-c", cubin], cubin.parent)
    if done.code:
        raise SurveyError(f"nvdisasm on {cubin.name}: exit code {done.code}: {done.errors[-300:]}")
    parts = _SECTION.split(done.output.decode(errors="replace"))
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        yield name, _chains(text)


def _chains(text: str) -> Iterator[tuple[int, Chain]]:
    chain: list[tuple[str, int, bool]] = []
    for line in text.splitlines():
        position, instruction = _POSITION.search(line), _INSTRUCTION.match(line)
        if position:
            if chain and not chain[-1][2]:
                chain = []
            chain.append((position[1], int(position[2]), bool(position[3])))
        elif instruction:
            yield int(instruction[1], 16), [(file, number) for file, number, _ in chain]
            chain = []


def cubins(case: Case) -> Compared:
    """The bytes of every cubin are those that cuobjdump extracts, container by container: of a host program it looks at one
    section only, and it refuses some programs."""
    theirs: Counter[str] = Counter()
    for name in SECTIONS:
        section = case.folder / "section"
        copy = [tool("llvm-objcopy-22"), f"--dump-section={name}={section}", case.path, "/dev/null"]
        if not run(copy, case.folder).code:
            theirs += sum(map(partial(_extracted, case.folder), containers(section)), Counter())
            section.unlink()
    return compare_cubins(theirs, [each for each in case.objects if each.format == "cubin"])


def containers(section: Path) -> Iterator[bytes]:
    """The fat binaries in a section: each begins with its magic number and says its size."""
    data, at = section.read_bytes(), 0
    while (at := data.find(_MAGIC, at)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        yield data[at : at + header + size]
        at += header + size


def _extracted(folder: Path, container: bytes) -> Counter[str]:
    """Digests of the cubins, as the first cuobjdump that takes the container extracts them."""
    target = folder / "cuobjdump"
    said = ""
    for name in CUOBJDUMPS:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        packed = target / "container.fatbin"
        packed.write_bytes(container)
        done = run([tool(name), "-xelf", "all", packed], target)
        packed.unlink()
        if not done.code:
            return Counter(hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir())
        said = done.errors[-300:]
    raise SurveyError(f"cuobjdump: {said}")


def compare_cubins(theirs: Counter[str], objects: list[CodeFile]) -> Compared:
    """What cuobjdump leaves out has no functions: the cubin that the host linker adds in a container of its own."""
    mine = Counter(str(each.entry["sha256"]) for each in objects)
    differences = [f"cuobjdump has {count} cubins {digest[:12]}… more" for digest, count in (theirs - mine).items()]
    more = mine - theirs
    named = [each for each in objects if more[str(each.entry["sha256"])] and each.entry["kernels"]]
    differences += [f"{each.name}: cuobjdump has not this cubin" for each in named]
    return Compared("cuobjdump: bytes of every cubin", sum(theirs.values()), differences)


def list_usage(case: Case) -> Usage:
    """What it costs to list all cubins with `cuobjdump -lelf`: those of the program, and those of the section that it leaves
    out there."""
    usage = run([tool("cuobjdump"), "-lelf", case.path], case.folder).usage
    section = case.folder / "section.fatbin"
    copy = [tool("llvm-objcopy-22"), f"--dump-section={SECTIONS[1]}={section}", case.path, "/dev/null"]
    if not run(copy, case.folder).code:
        usage = usage.then(run([tool("cuobjdump"), "-lelf", section], case.folder).usage)
        section.unlink()
    return usage
