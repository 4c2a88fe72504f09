"""Folded stacks, compared with LLVM."""

from __future__ import annotations

import time

import numpy as np
import pytest

from symd import profiles
from symd.errors import UnknownFormat
from symd.model.answers import Reason
from symd.profiles import Resolver, folded
from tests.profiles.conftest import named_module
from tests.profiles.modules import AMD, ZEBIN, of_kernel, of_object


def places(frames):
    """Root first, as ``(file:line)``."""
    return [f"({file}:{line})" for _, file, line, _ in reversed(frames)]


def test_an_address_becomes_the_frames_that_llvm_finds_root_first(resolver, sample, tmp_path):
    lines = profiles.symbolize(sample("stacks.folded"), resolver).data.decode().splitlines()
    stack = lines[0].rpartition(" ")[0].split(";")
    assert stack[:2] == ["render", "draw"]
    assert [frame.split(" ")[1].removesuffix("_[i]") for frame in stack[2:]] == places(
        of_kernel("smooth", 0x290, tmp_path)
    )
    assert [frame.endswith("_[i]") for frame in stack[2:]] == [False, True]
    stack = lines[2].rpartition(" ")[0].split(";")
    assert [frame.split(" ")[1].removesuffix("_[i]") for frame in stack[2:]] == places(of_object(AMD, 0x1950, tmp_path))
    assert [line.rpartition(" ")[2] for line in lines] == ["140", "12", "9", "5", "2", "3"]


def test_other_frames_and_unknown_addresses_stay(resolver, sample):
    done = profiles.symbolize(sample("stacks.folded"), resolver)
    assert done.data.splitlines()[4:] == sample("stacks.folded").splitlines()[4:]
    assert (done.report.total, done.report.resolved) == (5, 4)
    assert done.report.unresolved == {Reason.UNKNOWN_KERNEL: 1}
    assert done.report.notes == ("absent names no known module or kernel",)


@pytest.mark.parametrize("line", [b"a;smooth+0x10;b 1", b"smooth+0x10 1.5", b"[smooth+0x10] 1\r", b"smooth+0x10;b c 7"])
def test_a_frame_may_stand_anywhere(resolver, line):
    assert profiles.symbolize(line + b"\n", resolver).report.resolved == 1


@pytest.mark.parametrize("line", [b"a smooth+0x10;b 1", b"smooth+0x10 more;b 1", b"smooth+0xg 1", b"[smooth+0x10;b 1"])
def test_what_only_resembles_an_address_is_none(resolver, line):
    done = profiles.symbolize(line + b"\n", resolver)
    assert done.report.resolved == 0
    assert done.data == line + b"\n"


@pytest.mark.parametrize("frame", ["smooth+640", "[smooth+640]"])
def test_an_offset_that_may_be_decimal_is_counted_and_named(resolver, frame):
    done = profiles.symbolize(f"a;{frame};b 1\nc;unknown+640 2\n".encode(), resolver)
    assert done.data == f"a;{frame};b 1\nc;unknown+640 2\n".encode()
    assert dict(done.report.unresolved) == {Reason.MALFORMED: 1}
    assert done.report.notes == (
        f"{frame}: an offset is hexadecimal and begins with 0x (640 is 0x280, if it was decimal)",
    )


def test_a_line_with_an_empty_stack_is_no_other_format(resolver):
    """As py-spy's raw output has one."""
    done = profiles.symbolize(b" 12\nmain;smooth+0x10 3\n", resolver)
    assert (done.report.format, done.report.resolved) == ("folded", 1)
    with pytest.raises(UnknownFormat):
        profiles.symbolize(b" 12\n", resolver)


def test_a_name_of_a_module_and_of_a_kernel_is_not_guessed(engine):
    resolver = Resolver(engine, [named_module(engine, ZEBIN), named_module(engine, AMD, "smooth")])
    done = profiles.symbolize(b"smooth+0x1940 1\n[smooth+0x10] 1\n", resolver)
    assert (done.report.resolved, dict(done.report.unresolved)) == (1, {Reason.AMBIGUOUS: 1})


def test_names_from_debug_data_cannot_break_a_line(engine):
    frame = folded.frame_text
    from symd.model.answers import Frame  # noqa: PLC0415

    assert frame(Frame("a;b\n c", None, None, 0, 0, inlined=True)) == "a,b c (no line)_[i]"
    assert frame(Frame("f+0x10", None, None, 0, 0, inlined=False)) == "f+0x10 (no line)"
    assert not folded._FRAME.search("f+0x10 (no line) 3")


@pytest.mark.parametrize("data", [b"", b"\n\n", b"no count here\n", b"a b\nc 1\n", b"\0 1\n", b"{} x"])
def test_text_without_counts_is_no_profile(resolver, data):
    with pytest.raises(UnknownFormat, match="no reader knows"):
        profiles.symbolize(data, resolver)


@pytest.mark.parametrize("hostile", ["[" * 100_000, "+0x1" * 50_000, "+0x1 " * 50_000, " " * 200_000, "1 " * 100_000])
def test_odd_lines_cost_no_time(resolver, hostile):
    """Linear in the line's length: a second is ample for 200 kB, and a quadratic search would need minutes."""
    begun = time.process_time()
    assert profiles.symbolize(f"{hostile}\n".encode(), resolver, name="folded").report.resolved == 0
    assert not folded.claims(f"{hostile}x\n".encode())
    assert time.process_time() - begun < 10


def test_a_kernel_of_several_architectures_is_answered_where_they_agree(engine):
    """Where they do not, the stack does not say which one ran."""
    fat = AMD.parents[2] / "cuda" / "bin" / "tonemap.zstd.fatbin"
    module = named_module(engine, fat)
    data = "".join(f"tonemap+{offset:#x} 1\n" for offset in range(0, 0x180, 0x10)).encode()
    done = profiles.symbolize(data, Resolver(engine, [module]))
    of_each = [
        engine.symbolize_column(module.digest, np.arange(0, 0x180, 0x10, np.uint64), kernel="tonemap", path=path)
        for path in ("sm_80", "sm_90a")
    ]
    agreed = [one.frames == other.frames for one, other in zip(*of_each, strict=True)]
    assert 2 < sum(agreed) < len(agreed)
    assert (done.report.resolved, done.report.unresolved) == (
        sum(agreed),
        {Reason.AMBIGUOUS: len(agreed) - sum(agreed)},
    )
    for line, agrees, answer in zip(done.data.decode().splitlines(), agreed, of_each[0], strict=True):
        assert line.endswith(" 1")
        assert agrees == (f"({answer.frames[0].file}:{answer.frames[0].line})" in line) == ("+0x" not in line)


def test_a_frame_may_be_called_as_profilers_write_it(engine):
    resolver = Resolver(engine, [named_module(engine, AMD)])
    for name in ("shade(float *, const float *, int)", "[shade(float*, float const*, int)", "shade"):
        frame = f"{name}+0x40{']' * name.startswith('[')}"
        assert profiles.symbolize(f"a;{frame} 1\n".encode(), resolver).report.resolved == 1
