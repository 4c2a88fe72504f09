"""Random programs whose source text says which answers are true: nested calls, two calls in one line, lambdas, templates, recursion,
macros, functions that stay calls.

    python -m tests.agreement.generated COUNT [CU_COMPILER]

judges so many programs for each compiler that is here; CU_COMPILER is nvcc where it is not on PATH."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from symd.index import Index
from tests import tools
from tests.agreement import ours
from tests.agreement.source_text import SourceText, Tally, answers

Call = Callable[[str], str]
Command = Callable[[Path, Path], Sequence[str]]
"""What compiles a source to a binary."""
AMD, INTEL, NVIDIA = "AMD", "Intel", "NVIDIA"
STEP = {AMD: 4, INTEL: 8, NVIDIA: 16}
HEADS = {
    AMD: (
        "#define INLINE static inline __attribute__((always_inline))",
        "#define STAYS static __attribute__((noinline))",
        '#define KERNEL extern "C" __attribute__((amdgpu_kernel))',
        "#define AT __builtin_amdgcn_workitem_id_x()",
    ),
    INTEL: (
        "#define INLINE inline",
        "#define STAYS __attribute__((noinline))",
        "#define KERNEL kernel",
        "#define AT get_global_id(0)",
    ),
    NVIDIA: (
        "#define INLINE static __device__ __forceinline__",
        "#define STAYS static __device__ __noinline__",
        '#define KERNEL extern "C" __global__',
        "#define AT (blockIdx.x * blockDim.x + threadIdx.x)",
    ),
}


class Program:
    """A program that follows from a seed. In OpenCL C, which is Intel's, there are no lambdas, templates and recursion."""

    def __init__(self, vendor: str, seed: int) -> None:
        self._dice = random.Random(f"{vendor}/{seed}")
        self._is_c = vendor == INTEL
        self._calls: list[Call] = []
        self.lines = [*HEADS[vendor], "#define HALF_MORE(x) ((x) + (x) * 0.5f)"]
        for number in range(self._dice.randint(4, 10)):
            self._function(f"f{number}")
        memory = "global " if self._is_c else ""
        self.lines += [
            f"KERNEL void k({memory}float *out, const {memory}float *in) {{",
            "    int i = AT;",
            "    float x = in[i];",
        ]
        for number in range(self._dice.randint(3, 8)):
            self.lines += [f"    x = {self._value('x')};", f"    out[i + {number}] = x;"]
        self.lines.append("}")

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, ""])

    def _function(self, name: str) -> None:
        dice = self._dice
        body = [line for number in range(dice.randint(1, 4)) for line in self._statement(number)]
        kind = 1.0 if self._is_c else dice.random()
        if kind < 0.25:
            instance = f"{name}<{dice.randint(1, 9)}>"
            head, call = ["template <int N>"], lambda value: f"{instance}({value})"
            body = ["    x += N;", *body]
        elif kind < 0.35:
            self.lines += [
                f"STAYS float {name}(float x, int depth) {{",
                "    if (depth <= 0)",
                "        return x;",
                *body,
            ]
            self.lines += [f"    return {name}(x, depth - 1) + x;", "}"]
            self._calls.append(lambda value: f"{name}({value}, 3)")
            return
        else:
            head, call = [], lambda value: f"{name}({value})"
        how = "STAYS" if dice.random() < 0.25 else "INLINE"
        self.lines += [*head, f"{how} float {name}(float x) {{", *body, "    return x;", "}"]
        self._calls.append(call)

    def _statement(self, number: int) -> Sequence[str]:
        kind = self._dice.random()
        if kind < 0.15:
            return f"    if (x > {self._dice.randint(1, 50)}.0f)", f"        x = {self._value('x')};"
        if kind < 0.3:
            return f"    for (int n = 0; n < {self._dice.randint(2, 3)}; n++)", f"        x = {self._value('x')};"
        if kind < 0.4 and not self._is_c:
            name = f"lambda{number}"
            return (
                f"    auto {name} = [&](float v) {{",
                f"        return {self._value('v')};",
                "    };",
                f"    x += {name}(x);",
            )
        if kind < 0.45:
            return (f"    x = x / {self._value('x')};",)
        return (f"    x = {self._value('x')};",)

    def _value(self, of: str) -> str:
        dice = self._dice
        kind = dice.random()
        if not self._calls or kind < 0.2:
            number = dice.randint(2, 99)
            return dice.choice([f"{of} * {number}.25f", f"HALF_MORE({of})", f"{of} + {number}.5f"])
        one, other = dice.choice(self._calls), dice.choice(self._calls)
        if kind < 0.45:
            return one(of)
        if kind < 0.65:
            return f"{one(of)} + {other(of)}"
        return one(other(of)) if kind < 0.8 else f"{one(of)} * {dice.randint(2, 9)}.0f"


def compilers(nvcc: str | None = None) -> Iterator[tuple[str, str, Command]]:
    """(vendor, what is told of it, the command that compiles a source to a binary) of each compiler that is here."""
    for version in ("14", "19", "22"):
        clang = tools.find(f"clang-{version}")
        for target in ("gfx900", "gfx1030") if clang else ():

            def amd(source: Path, binary: Path, clang: str = str(clang), target: str = target) -> Sequence[str]:
                options = ["-x", "c++", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", "-O2", "-g", "-c"]
                return [clang, *options, str(source), "-o", str(binary)]

            yield AMD, f"clang {version}, {target}", amd
    ocloc = tools.find("ocloc")
    for target in ("skl", "dg2") if ocloc else ():

        def intel(source: Path, binary: Path, target: str = target) -> Sequence[str]:
            options = ["-device", target, "-options", "-g", "-output_no_suffix", "-output", binary.stem]
            return [str(ocloc), "compile", "-file", str(source), *options, "-out_dir", str(binary.parent)]

        yield INTEL, f"ocloc, {target}", intel
    nvcc = nvcc or tools.find("nvcc")
    for target in ("sm_80", "sm_90", "sm_120") if nvcc else ():

        def nvidia(source: Path, binary: Path, target: str = target) -> Sequence[str]:
            return [str(nvcc), f"-arch={target}", "-lineinfo", "-cubin", str(source), "-o", str(binary)]

        yield NVIDIA, f"nvcc, {target}", nvidia


_SUFFIXES = {AMD: ".cpp", INTEL: ".cl", NVIDIA: ".cu"}


def compiled(vendor: str, command: Command, text: str, folder: Path) -> tuple[Path, bytes]:
    """(source, binary) of a program's text; the debug container where Intel's compiler makes one."""
    source, binary = folder / f"p{_SUFFIXES[vendor]}", folder / "p.bin"
    for each in folder.glob("p*"):
        each.unlink()
    source.write_text(text)
    subprocess.run(command(source, binary), check=True, capture_output=True, cwd=folder)
    made = min(folder.glob("p*.dbg"), default=next(iter(folder.glob("p*.bin")), binary))
    return source, made.read_bytes()


def judged(vendor: str, command: Command, seed: int, folder: Path, *, as_written: bool = False) -> Tally:
    """What the answers about one program come to."""
    text = Program(vendor, seed).text
    source, binary = compiled(vendor, command, text, folder)
    found: Index = ours.index(binary)
    tally = Tally({source.name: SourceText(text)})
    for answer in answers(found.view(as_written=as_written), STEP[vendor]):
        tally.add(answer)
    return tally


def main(count: str, nvcc: str | None = None) -> None:
    for vendor, told, command in compilers(nvcc):
        sums: Tally | None = None
        with TemporaryDirectory() as folder:
            for seed in range(int(count)):
                tally = judged(vendor, command, seed, Path(folder))
                if +tally.wrong or +tally.wrong_calls:
                    print(f"{told}, seed {seed}: {dict(+tally.wrong)}, calls {dict(+tally.wrong_calls)}")
                if sums is None:
                    sums = tally
                else:
                    sums.counts += tally.counts
        print(f"{told:<20} {dict(sums.counts) if sums else {}}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
