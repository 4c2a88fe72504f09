"""What NVIDIA's tools and elfutils say about the files of samples/cuda/bin, condensed to text that tests compare with.

    SYMD_NVDISASM=... SYMD_CUOBJDUMP=... python -m tests.golden.cuda.make

Without the variables the tools are looked for on PATH. Every golden file begins with the tool's name and version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
SAMPLES = HERE.parents[2] / "samples" / "cuda" / "bin"
SECTION = re.compile(r"//-+ (\.text\S+)\s+-+")
POSITION = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at )?')
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+\S")


def tool(name: str) -> str | None:
    """The program that SYMD_<NAME> or PATH gives."""
    return os.environ.get(f"SYMD_{name.upper().replace('-', '_')}") or shutil.which(name)


def version(name: str) -> str:
    text = _run(tool(name) or name, "--version")
    found = re.search(r"V(\d+\.\d+\.\d+)", text) or re.search(r"(\d+\.\d+)", text)
    return f"{name} {found[1] if found else '?'}"


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=SAMPLES)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def cubins() -> list[str]:
    return sorted(path.name for path in SAMPLES.glob("*.cubin"))


def lines(cubin: str, option: str) -> Iterator[str]:
    """nvdisasm's positions: a file table, then for each section its name and size and, where the printed position
    changes, offset and chain (file:line, innermost first)."""
    files: dict[str, int] = {}
    body: list[str] = []
    chain: list[tuple[str, int, bool]] = []
    end = 0
    for line in _run(tool("nvdisasm") or "nvdisasm", option, "-c", cubin).splitlines():
        section, position, instruction = SECTION.match(line), POSITION.search(line), INSTRUCTION.match(line)
        if section:
            body.append(f"= {section[1]}")
        elif position:
            if chain and not chain[-1][2]:
                chain = []
            chain.append((position[1], int(position[2]), bool(position[3])))
        elif instruction:
            end = int(instruction[1], 16) + 16
            if chain:
                frames = "<".join(f"{files.setdefault(file, len(files))}:{number}" for file, number, _ in chain)
                body.append(f"{end - 16:04x} {frames}")
            chain = []
            if body[-1].startswith("= "):
                body.append(f"{end - 16:04x} -")
    return iter([*(f"f {number} {file}" for file, number in files.items()), *body])


def resources(cubin: str) -> Iterator[str]:
    """cuobjdump -res-usage, without the blank lines."""
    text = _run(tool("cuobjdump") or "cuobjdump", "-res-usage", cubin)
    return (line.strip() for line in text.splitlines() if line.strip() and "Resource usage" not in line)


def attributes(cubin: str) -> Iterator[str]:
    """cuobjdump -elf: the records of .nv.info and .nv.compat sections as section, name, format, value."""
    text = _run(tool("cuobjdump") or "cuobjdump", "-elf", cubin)
    for name, content in re.findall(r"^(\.nv\.(?:info|compat)\S*)\n(.*?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
        for record in content.split("\t<0x")[1:]:
            fields = re.search(
                r"Attribute:\s*(unknown Attribute|\S+)\s+Format:\s*(\S+)(?:\s+Value:(.*))?", record, re.DOTALL
            )
            assert fields, record
            value = " ".join((fields[3] or "").split())
            yield f"{name}\t{fields[1]}\t{fields[2]}\t{value}"


def extracted(name: str) -> Iterator[str]:
    """cuobjdump -xelf all: size and SHA-256 of every cubin, in the order of the names it chose."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tool("cuobjdump") or "cuobjdump", "-xelf", "all", str(SAMPLES / name)]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        for path in sorted(Path(folder).iterdir()):
            data = path.read_bytes()
            yield f"{path.name} {len(data)} {hashlib.sha256(data).hexdigest()}"


def rows(cubin: str) -> Iterator[str]:
    """eu-readelf's reading of the line programs, as rows: sequence, address (without relocation), file, line, context,
    name ("-" where none is set)."""
    text = _run(tool("eu-readelf") or "eu-readelf", "-N", "--debug-dump=line", cubin)
    sequence = 0
    state = start = {"address": 0, "file": 1, "line": 1, "context": 0, "name": "-"}
    for line in text.splitlines():
        state = _step(line, state)
        if "special opcode" in line or line.endswith("] copy"):
            yield "{} {address:x} {file} {line} {context} {name}".format(sequence, **state)
        elif "end of sequence" in line:
            yield "{} {address:x} end".format(sequence, **state)
            sequence, state = sequence + 1, start


_EFFECTS: list[tuple[str, Callable[[dict, re.Match], dict]]] = [
    (r"special opcode \d+: .*, line[+-]\d+ = (\d+)", lambda s, m: {"line": int(m[1])}),
    (r"special opcode \d+: address\+(\d+)", lambda s, m: {"address": s["address"] + int(m[1])}),
    (r"advance line by constant -?\d+ to (\d+)", lambda s, m: {"line": int(m[1])}),
    (r"advance address by (\d+) to", lambda s, m: {"address": s["address"] + int(m[1])}),
    (r"advance address by constant (\d+) to", lambda s, m: {"address": s["address"] + int(m[1])}),
    (r"advance address by fixed value (\d+) to", lambda s, m: {"address": s["address"] + int(m[1])}),
    (r"set address to ", lambda s, m: {"address": 0}),
    (r"set file to (\d+)", lambda s, m: {"file": int(m[1])}),
    (
        r"set inlined context (\d+), function name (.*) \(0x[0-9a-f]+\)",
        lambda s, m: {"context": int(m[1]), "name": (m[2] or "-") if int(m[1]) else "-"},
    ),
]


def _step(line: str, state: dict) -> dict:
    """The registers after one line of eu-readelf's output; its absolute addresses are not used, they are not relocated."""
    for pattern, effect in _EFFECTS:
        found = re.search(pattern, line)
        if found:
            state = state | effect(state, found)
    return state


def host_files() -> list[str]:
    """nvcc's, and clang's but for those whose device code is in ``.llvm.offloading``, of which cuobjdump knows nothing."""
    ours = sorted(path.name for path in SAMPLES.iterdir() if path.name.startswith("program"))
    return [*ours, "clang/fatbin-14.o", "clang/fatbin-22.o", "clang/linked-22.so", "clang/module-22.o"]


def fatbins() -> list[str]:
    return sorted(path.name for path in SAMPLES.glob("*.fatbin"))


def with_code(names: list[str]) -> list[str]:
    """cuobjdump -xelf fails on fat binaries without a cubin."""
    return [name for name in names if name not in {"saxpy.lto.fatbin", "saxpy.ptx.fatbin"}]


GOLDEN: dict[str, tuple[str, str, Callable[[], list[str]], Callable[[str], Iterator[str]]]] = {
    "lines.txt": ("nvdisasm", "-gi -c", cubins, lambda name: lines(name, "-gi")),
    "ptx_lines.txt": ("nvdisasm", "-gp -c", cubins, lambda name: lines(name, "-gp")),
    "resources.txt": ("cuobjdump", "-res-usage", cubins, resources),
    "info.txt": ("cuobjdump", "-elf", cubins, attributes),
    "extracted.txt": ("cuobjdump", "-xelf all", lambda: with_code([*fatbins(), *host_files()]), extracted),
    "rows.txt": ("eu-readelf", "-N --debug-dump=line", cubins, rows),
}


def content(name: str) -> str:
    """What the golden file ``name`` should hold."""
    program, options, inputs, condense = GOLDEN[name]
    result = [f"# {version(program)}, options {options}; made by python -m tests.golden.cuda.make"]
    for sample in inputs():
        result += [f"@ {sample}", *condense(sample)]
    return "\n".join(result) + "\n"


def read(name: str) -> dict[str, list[str]]:
    """A golden file as sample -> lines."""
    result: dict[str, list[str]] = {}
    for line in (HERE / name).read_text().splitlines()[1:]:
        if line.startswith("@ "):
            result[line[2:]] = []
        else:
            result[list(result)[-1]].append(line)
    return result


def main() -> int:
    for name in sys.argv[1:] or GOLDEN:
        (HERE / name).write_text(content(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
