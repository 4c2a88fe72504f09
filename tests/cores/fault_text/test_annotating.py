"""Fault text of every tool: what stands under a line, and that all else stays as it was."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from symd.cores.fault_text import (
    MAX_LOADED,
    MAX_OPENED,
    Annotator,
    AtAddress,
    CodeObjectNamed,
    GivenModule,
    InFunction,
    LoadedAt,
    references,
)
from symd.model.addresses import Query
from symd.model.answers import Answer, Frame, Reason

ROOT = Path(__file__).parents[3]
CODE = ROOT / "samples" / "amdgpu" / "bin" / "v3-gfx906-xnack-off.co"
CUBIN = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
SYMD = [sys.executable, "-c", "from symd.cli.command_line import main; main()", "annotate"]
AGENT = f"""\
wave_1: pc=0x7f1200001940 (kernel_code_entry=0x7f1200001900 <shade>, kernargs=0x0) (stopped, reason: MEMORY_VIOLATION)

system registers:
        m0: 00000000   status: 00012061   trapsts: 0x20000100

Disassembly for function shade:
    code object: file://{CODE}#offset=0&size={CODE.stat().st_size}
    loaded at: [0x7f1200000000-0x7f1200003000]

    0x7f120000193c <+60>:    v_mov_b32_e32 v0, s0
 => 0x7f1200001940 <+64>:    v_add_u32_e32 v1, v1, v0

End of disassembly.
wave_2: pc=0x7f1200001980 (stopped, reason: ASSERT_TRAP)
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "=========     at probe(float *, const float3 *)+0x160 in raycast.cu:41",
            InFunction("probe(float *, const float3 *)", 0x160),
        ),
        ("=========     at probe(float *):0x160", InFunction("probe(float *)", 0x160)),
        ("=========     at <unnamed>::f<(int)4>(T1 *)+0x160", InFunction("<unnamed>::f<(int)4>(T1 *)", 0x160)),
        ("=> 0x7f10 <void fill<ns::Foo<int> >(int)+16>: nop", InFunction("void fill<ns::Foo<int> >(int)", 16)),
        ("0x7f10 <a::operator-><int>(a*)>: nop", InFunction("a::operator-><int>(a*)", 0)),
        ("in fill<ns::Foo<int> >(ns::Foo<int>*)+0x10 (b)", InFunction("fill<ns::Foo<int> >(ns::Foo<int>*)", 0x10)),
        ("frame: (anonymous namespace)::f(int)+0x10", InFunction("(anonymous namespace)::f(int)", 0x10)),
        (
            "=========     at reduce<float, Sum>(const float *)+0x40",
            InFunction("reduce<float, Sum>(const float *)", 0x40),
        ),
        ("=========     at [clone probe] distance_to(float)+0x40", InFunction("distance_to(float)", 0x40)),
        ("=========     at 0x00000068 in /src/a b.cu:6:probe(float*)", InFunction("probe(float*)", 0x68)),
        ("=========     at 0x68 in probe(float*)", InFunction("probe(float*)", 0x68)),
        ("=========     Device Frame: squared(float)+0x20 in raycast.cu:3", InFunction("squared(float)", 0x20)),
        (
            "=========     Device Frame:/src/a.cu:6:probe(float*) (probe(float*) : 0x68)",
            InFunction("probe(float*)", 0x68),
        ),
        ("=> 0x7fffd6f8e1b0 <_Z5probePf+432>:  EXIT", InFunction("_Z5probePf", 432)),
        (
            "   0x7fffd6f8e1b0 <reduce<float, Sum>(float const*)+16>:",
            InFunction("reduce<float, Sum>(float const*)", 16),
        ),
        ("warp at 0x7fffd6f8e1b0 <probe(float*)>, stopped", InFunction("probe(float*)", 0)),
        ("#1 0x55 in _Z7squaredfff+0x80 (libfoo.so+0x1234)", InFunction("_Z7squaredfff", 0x80)),
        ("kernel_name+0x1F0", InFunction("kernel_name", 0x1F0)),
        ("ns::kernel+0x10", InFunction("ns::kernel", 0x10)),
        ("The exception was triggered at PC 0x7f5a10 (a.cu:3)", AtAddress(0x7F5A10)),
        ("Triggered by thread <0,0,0> block <0,0,0> PC 0x0000155550a0", AtAddress(0x155550A0)),
        ("==1==ERROR: AddressSanitizer: heap-buffer-overflow on amdgpu device 0 at pc 0x7f12 ", AtAddress(0x7F12)),
        ("  #0 0x7f12 in shade at /src/shade.cl:3:4", AtAddress(0x7F12)),
        ("wave_12: pc=0x7f1200001940 (stopped, reason: NONE)", AtAddress(0x7F1200001940, waits=True)),
        (" => 0x7f1200001940 <+64>:    v_add", AtAddress(0x7F1200001940)),
        ("    code object: file:///a%20b#offset=1&size=2", CodeObjectNamed("file:///a%20b#offset=1&size=2")),
        ("    code object: memory://12#offset=0x1&size=2", CodeObjectNamed("memory://12#offset=0x1&size=2")),
        ("    loaded at: [0x10-0x20]", LoadedAt(0x10, 0x20)),
    ],
)
def test_what_lines_name(line: str, said: object) -> None:
    assert said in references(line)


def test_a_line_may_name_several_places_behind_an_at() -> None:
    assert references("stopped at blur+0x44 and größe+0x10") == [InFunction("blur", 0x44), InFunction("größe", 0x10)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nothing",
        "=========     by thread (0,0,0) in block (0,0,0)",
        "=========     Host Frame: [0x20d6ea] in /usr/lib/libcuda.so",
        "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f5ae7504000. Reason: Unknown.",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=1, Ch 00000008, intr 00000000. MMU Fault: faulted @ 0x7f5a_e7504000",
        "    0x7f120000193c <+60>:    v_mov_b32",
        "v0: [0] 0x00000001 [1] 0x00000002",
        "Segmentation fault from GPU at 0xff00ff00, ctx_id: 1 (CCS) type: 0 (NotPresent)",
        "0x" + "f" * 20,
    ],
)
def test_lines_without_a_place_in_code(line: str) -> None:
    assert references(line) == []


class OneModule:
    """Answers every address and function with a frame of that name, and says what it was asked."""

    def __init__(self, *functions: str) -> None:
        self.functions = functions
        self.asked: list[Query] = []
        self.opened: list[str] = []

    def symbolize(self, digest: str, query: Query, path: str | None = None) -> Answer:
        self.asked.append(query)
        name = getattr(query, "kernel", None)
        if name is not None and name not in self.functions:
            return Answer(Reason.UNKNOWN_KERNEL)
        return Answer(Reason.EXACT, frames=(Frame(name or "at", None, f"{digest}.cl", 1, 0, False),))

    def open(self, uri: str) -> str | None:
        self.opened.append(uri)
        return None if "gone" in uri else uri


def test_the_agents_waves() -> None:
    modules = OneModule()
    annotator = Annotator(modules, ())
    found = [(line.strip()[:10], [each.subject for each in annotator.line(line)]) for line in AGENT.splitlines()]
    assert [each for each in found if each[1]] == [
        ("loaded at:", ["0x7f1200001940"]),
        ("wave_2: pc", ["0x7f1200001980"]),
    ]
    assert [getattr(query, "address", None) for query in modules.asked] == [0x1940, 0x1980]


def test_code_that_is_loaded_where_other_code_was() -> None:
    annotator = Annotator(OneModule(), ())
    for uri in ("file:///first", "file:///second"):
        annotator.line(f"code object: {uri}")
        annotator.line("loaded at: [0x1000-0x2000]")
    (found,) = annotator.line("at PC 0x1010")
    assert found.answer.frames[0].file == "file:///second.cl"
    assert annotator.line("at PC 0x2000") == []
    annotator.line("loaded at: [0x1000-0x3000]")
    assert len(annotator.line("at PC 0x1010")) == 1


def test_code_that_cannot_be_had() -> None:
    modules = OneModule()
    annotator = Annotator(modules, ())
    for _ in range(2):
        annotator.line("code object: file:///gone")
        annotator.line("loaded at: [0x1000-0x2000]")
    assert annotator.line("at PC 0x1010") == []
    assert modules.opened == ["file:///gone"]


def test_a_text_that_names_very_much() -> None:
    modules = OneModule()
    annotator = Annotator(modules, ())
    for number in range(MAX_OPENED + 10):
        annotator.line(f"wave_1: pc={0x10_0000 + number:#x}")
        annotator.line(f"code object: file:///{number}")
        annotator.line(f"loaded at: [{0x1000 * number:#x}-{0x1000 * (number + 1):#x}]")
    assert len(modules.opened) == MAX_OPENED
    assert len(annotator._loaded) <= MAX_LOADED


def test_modules_that_are_given() -> None:
    modules = OneModule("kernel")
    annotator = Annotator(modules, [GivenModule("a", "1", 0x7000), GivenModule("b", "2")])
    (found,) = annotator.line("at PC 0x7010")
    assert (found.answer.frames[0].file, getattr(modules.asked[-1], "address", None)) == ("1.cl", 0x10)
    assert [each.answer.frames[0].file for each in annotator.line("kernel+0x10")] == ["1.cl", "2.cl"]
    assert annotator.line("other+0x10") == []


def test_the_same_answer_of_several_modules_is_told_once() -> None:
    class Same(OneModule):
        def symbolize(self, digest: str, query: Query, path: str | None = None) -> Answer:
            return super().symbolize("same", query)

    assert len(Annotator(Same("k"), [GivenModule("a", "1"), GivenModule("b", "2")]).line("k+0x1")) == 1


def run(*arguments: object, text: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*SYMD, *map(str, arguments)], input=text, capture_output=True, timeout=120, check=False)


def added(out: bytes) -> list[str]:
    return [line.decode() for line in out.splitlines() if line.startswith(b"    symd: ")]


def without_added(out: bytes) -> bytes:
    return b"".join(line for line in out.splitlines(keepends=True) if not line.startswith(b"    symd: "))


def test_the_command() -> None:
    done = run(text=AGENT.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert added(done.stdout) == [
        "    symd: 0x7f1200001940: shade at /src/shade.cl:23:41",
        "    symd: 0x7f1200001980: blend at /src/shade.cl:13:30",
        "    symd:   (inlined by) shade at /src/shade.cl:23:18",
    ]
    assert without_added(done.stdout) == AGENT.encode()
    assert run("--no-files", text=AGENT.encode()).stdout == AGENT.encode()


def test_names_in_a_sanitizers_text() -> None:
    text = b"=========     at probe(float *, const float3 *)+0x160 in raycast.cu:41\r\n\xff\xfe squared+0x80\n\n"
    done = run("-m", CUBIN, text=text)
    assert added(done.stdout) == [
        "    symd: probe(float *, const float3 *)+0x160: probe at /tmp/symd-cuda/raycast.cu:38",
        "    symd: squared+0x80: squared at /tmp/symd-cuda/raycast.cu:13",
    ]
    assert without_added(done.stdout) == text


FAT = ROOT / "samples" / "cuda" / "bin" / "tonemap.zstd.fatbin"


def of_architecture(name: str, offset: int) -> str:
    """Where that architecture's code is from, by the cubin alone that nvcc made for it of the same source."""
    cubin = FAT.with_name(f"tonemap.{name}.lines.cubin")
    (line,) = added(run("-m", cubin, text=f"tonemap+{offset:#x}\n".encode()).stdout)
    return line.partition(": tonemap at ")[2]


def test_a_function_of_several_architectures_is_answered_for_each_once_where_they_agree() -> None:
    """compute-sanitizer does not say for which one the code ran."""
    same, other = (of_architecture("sm_80", 0x20), of_architecture("sm_90a", 0x20))
    assert same != other
    done = run("-m", FAT, text=b"=========     at tonemap+0x20\nat tonemap+0x10\n")
    assert added(done.stdout) == [
        f"    symd: tonemap+0x20 of sm_80: tonemap at {same}",
        f"    symd: tonemap+0x20 of sm_90a: tonemap at {other}",
        f"    symd: tonemap+0x10: tonemap at {of_architecture('sm_80', 0x10)}",
    ]
    assert of_architecture("sm_80", 0x10) == of_architecture("sm_90a", 0x10)


def test_an_architecture_can_be_chosen() -> None:
    for name in ("sm_80", "sm_90a"):
        done = run("--object", name, "-m", FAT, text=b"at tonemap+0x20\n")
        assert added(done.stdout) == [f"    symd: tonemap+0x20: tonemap at {of_architecture(name, 0x20)}"]
    done = run("--object", "sm_81", "-m", FAT, text=b"at tonemap+0x20\n")
    assert (done.returncode, b"there is no code object 'sm_81'" in done.stderr) == (1, True)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_without_an_end(end: str) -> None:
    done = run("-m", CUBIN, text=f"_Z7squaredfff+0x80{end}".encode())
    line = "    symd: _Z7squaredfff+0x80: squared at /tmp/symd-cuda/raycast.cu:13"
    assert done.stdout.decode() == f"_Z7squaredfff+0x80\n{line}{end}"
    assert run(text=b"no end").stdout == b"no end"


def test_a_line_longer_than_any_is_passed_on() -> None:
    text = b"x" * (3 << 20) + b" _Z7squaredfff+0x80\n_Z7squaredfff+0x80\n"
    done = run("-m", CUBIN, text=text)
    assert (without_added(done.stdout), len(added(done.stdout))) == (text, 1)


def test_a_line_is_answered_when_it_comes() -> None:
    with subprocess.Popen([*SYMD, "-m", str(CUBIN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(b"_Z7squaredfff+0x80\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"_Z7squaredfff+0x80\n"
            assert b"squared at" in process.stdout.readline()
        process.stdin.close()
        assert process.wait(30) == 0


def test_files_that_are_not_there_or_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("no module")
    for name, said in (("gone", "no such file"), ("fifo", "no such file"), ("text", "no reader knows this format")):
        text = f"code object: file://{tmp_path}/{name}\nloaded at: [0x1000-0x2000]\nat PC 0x1010\n".encode()
        done = run(text=text)
        assert (done.returncode, done.stdout) == (0, text)
        assert said in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


def test_a_module_at_an_address() -> None:
    done = run("-m", f"{CODE}@0x7f1200000000", text=b"at PC 0x7f1200001940\n")
    assert added(done.stdout) == ["    symd: 0x7f1200001940: shade at /src/shade.cl:23:41"]
    assert run("-m", "/nowhere@0x10", text=b"").returncode == 2


def test_another_overload_is_marked() -> None:
    text = b"at probe(float *, int)+0x160\n"
    assert added(run("-m", CUBIN, text=text).stdout) == [
        "    symd: probe+0x160 (there is no probe(float *, int)+0x160): probe at /tmp/symd-cuda/raycast.cu:38"
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_device_addresses_of_a_rocm_core_dump(tmp_path: Path, packed: bool) -> None:
    content = (ROOT / "samples" / "cores" / "bin" / "address_error.core").read_bytes()
    dump = tmp_path / "dump"
    dump.write_bytes(gzip.compress(content) if packed else content)
    for line in ("at PC 0x7f1200001980", "wave_1: pc=0x7f1200001980", "=> 0x7f1200001980 <+128>:"):
        assert added(run("-m", dump, text=f"{line}\n".encode()).stdout) == [
            "    symd: 0x7f1200001980: blend at /src/shade.cl:13:30",
            "    symd:   (inlined by) shade at /src/shade.cl:23:18",
        ]
    assert added(run("-m", dump, text=b"at PC 0x1980\n").stdout) == []


def test_a_file_whose_name_ends_like_an_address(tmp_path: Path) -> None:
    file = tmp_path / "kernels.cubin@0x10"
    file.write_bytes(CUBIN.read_bytes())
    assert added(run("-m", file, text=b"squared+0x80\n").stdout) == [
        "    symd: squared+0x80: squared at /tmp/symd-cuda/raycast.cu:13"
    ]
