"""Names that Python sources give to inlined calls, against Python's own parser; and what Triton's compiler leaves, by its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import symd
from symd.model.answers import Answer, Frame, Reason
from symd.query import python_names
from symd.query.python_names import PythonNames, definitions
from tests.tools import output, require

TRITON = Path(__file__).parents[2] / "samples" / "triton"
SOURCE = (TRITON / "helpers.py").read_text()
FILE = "/src/triton-samples/helpers.py"
IMAGES = sorted((TRITON / "bin").iterdir())


def parsed(text: str) -> list[tuple[int, int, str]]:
    """What Python's parser says of the functions in a source."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sorted(
        (node.lineno, node.end_lineno or 0, node.name) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)
    )


def around(line: int) -> str | None:
    """The function of helpers.py around a line, if there is any."""
    return next((name for first, last, name in parsed(SOURCE) if first <= line <= last), None)


@pytest.mark.parametrize(
    "path", [Path(python_names.__file__), Path(ast.__file__), Path(re.__file__), TRITON / "helpers.py"]
)
def test_functions_are_those_of_the_parser(path: Path) -> None:
    text = path.read_text()
    assert sorted(map(tuple, definitions(text) or ())) == parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x\ny = 1\n",
        "async def f():\n    def g(): pass\n    return g\n",
        "class A:\n    @staticmethod\n    def f(\n        x,\n    ):\n        return (\n            x\n        )\n\n\ndef g():\n    '''a\n    def no():\n    '''\n",
        "if 1:\n  def f():\n    if 2:\n      pass\n  # behind\n  x = 1\n",
        "def f():\n    pass",
    ],
)
def test_functions_of_any_shape(text: str) -> None:
    assert sorted(map(tuple, definitions(text) or ())) == parsed(text)


@pytest.mark.parametrize("text", ["def f(:\n  '''", "  x\n y\n", "\0", "(" * 5000, "if 1:\n" + " " * 3 + "x\n  y\n"])
def test_what_is_no_python_has_none(text: str) -> None:
    assert not definitions(text)


def places(image: Path) -> Iterator[tuple[str, int]]:
    """The text sections of an image, by readelf, with their sizes."""
    for found in re.finditer(r"\] (\.text\S*) +PROGBITS +\S+ \S+ (\S+)", output(require("readelf"), "-SW", str(image))):
        yield found[1], int(found[2], 16)


def answers(image: Path, *, as_written: bool = False) -> list[Answer]:
    module = symd.open(image)
    return [
        answer
        for section, size in places(image)
        for answer in module.symbolize(np.arange(0, size, 4, dtype=np.uint64), section=section, as_written=as_written)
    ]


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_no_helper_of_triton_has_the_kernels_name(image: Path) -> None:
    """A frame that has a name lies in the function of that name."""
    found = answers(image)
    seen = {(frame.function, around(frame.line)) for each in found for frame in each.frames if frame.file == FILE}
    assert {(None, name) for name in (("masked",) if image.name.startswith("wide") else ("scale", "inner"))} <= seen
    for function, real in seen:
        assert function is None or real is None or real in re.split(r"\W+|_\$_|__", function), (function, real)
    for each in found:
        if any(frame.inlined for frame in each.frames):
            assert each.reason in (Reason.CONTRADICTORY, Reason.APPROXIMATE, Reason.NO_LINE)
            assert all(frame.function is None for frame in each.frames if frame.inlined)


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_as_written_they_have_it(image: Path) -> None:
    found = answers(image, as_written=True)
    inlined = {frame.function for each in found for frame in each.frames if frame.inlined}
    assert inlined <= {"add", "total", "wide", "helpers.apart__fp32"}
    assert inlined
    assert Reason.CONTRADICTORY not in {each.reason for each in found}


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_the_source_names_them(image: Path) -> None:
    """By columns and one by one. The library's own source is not at hand."""
    names = PythonNames(lambda files: {file: SOURCE for file in files if file == FILE})
    module = symd.open(image)
    for section, size in places(image):
        columns = module.symbolize(np.arange(0, size, 4, dtype=np.uint64), section=section)
        named = names.named(columns)
        assert list(named) == list(names.named(list(columns)))
        for before, after in zip(columns, named, strict=True):
            inlined = [frame for frame in after.frames if frame.inlined]
            for frame in inlined:
                assert frame.function == (around(frame.line) if frame.file == FILE else None)
            if inlined and before.reason is Reason.CONTRADICTORY:
                is_named = all(frame.function for frame in after.frames)
                assert after.reason is (Reason.INFERRED if is_named else Reason.CONTRADICTORY)


def frame(function: str | None, line: int, *, inlined: bool) -> Frame:
    return Frame(function, None, FILE, line, 0, inlined=inlined)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOURCE, "scale"),
        ("# a line more\n" * 4 + SOURCE, None),  # line 28 of the kernel lies in another function
        ("x = 1\n" * 40, None),  # line 14 lies in none
        ("def scale(:\n", None),
    ],
)
def test_another_file_than_the_one_that_was_compiled_names_nothing(text: str, expected: str | None) -> None:
    answer = Answer(Reason.CONTRADICTORY, frames=(frame(None, 14, inlined=True), frame("add", 23, inlined=False)))
    (named,) = PythonNames(lambda files: dict.fromkeys(files, text)).named([answer])
    assert named.frames[0].function == expected
    assert named.reason is (Reason.INFERRED if expected else Reason.CONTRADICTORY)


CUTE = TRITON.parent / "cute"
CUBINS = sorted((CUTE / "bin").glob("blend-*"))
CUTE_TEXTS = {f"/src/cute-samples/{name}": (CUTE / name).read_text() for name in ("blend.py", "squash.py", "gain.py")}
KERNEL = "kernel_cutlass_blend_tensorptrf32gmemo641_tensorptrf32gmemo641_0"
BLEND = next(body for body in parsed(CUTE_TEXTS["/src/cute-samples/blend.py"]) if body[2] == "blend")


def lined(found: Iterable[Answer]) -> list[Answer]:
    return [each for each in found if each.frames and each.frames[0].line]


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda path: path.name)
def test_a_kernel_of_cute_is_not_sure_to_have_a_line(cubin: Path) -> None:
    """Its line table tells of no call. Lines before the kernel and in other files are not the kernel's."""
    found = lined(answers(cubin))
    assert {each.reason for each in lined(answers(cubin, as_written=True))} == {Reason.EXACT}
    assert {each.reason for each in found} == {Reason.INFERRED, Reason.CONTRADICTORY}
    for each in found:
        first, *callers = each.frames
        is_helpers = first.line < BLEND[0] - 1 or first.file != "/src/cute-samples/blend.py"
        assert (each.reason is Reason.CONTRADICTORY) == is_helpers
        assert first.function == (None if is_helpers else KERNEL)
        assert callers == ([Frame(KERNEL, None, None, 0, 0, False)] if is_helpers else [])


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda path: path.name)
def test_the_source_tells_what_cute_inlined(cubin: Path) -> None:
    """The parser says which function each line is in; that of the host function's decorator is in none."""
    names = PythonNames(lambda files: {file: CUTE_TEXTS[file] for file in files})
    (section, size), *_ = [place for place in places(cubin) if KERNEL in place[0]]
    columns = symd.open(cubin).symbolize(np.arange(0, size, 16, dtype=np.uint64), section=section)
    named = names.named(columns)
    assert list(named) == list(names.named(list(columns)))
    assert [next(iter(names.named([each]))) for each in columns] == list(named)
    far = symd.open(cubin).symbolize([f"{KERNEL}+{at:#x}" for at in range(0, size, 16)], with_ranges=True)
    for found in (list(names.named(far)), list(names.named(list(far)))):
        for each in found:
            assert each.ranges is None or len(each.ranges.frames) == len(each.frames)
            if each.ranges is not None and each.frames[0].function in ("behind", "scale", "squash"):
                assert not each.ranges.frames[0].code
    seen = set()
    for before, after in zip(columns, named, strict=True):
        if not lined([before]):
            assert after == before
            continue
        old = before.frames[0]
        real = next(
            (name for first, last, name in parsed(CUTE_TEXTS[old.file or ""]) if first <= old.line <= last), None
        )
        seen.add(real)
        if real == "blend" or old.line == BLEND[0] - 1:
            assert after == before
        elif real is None:
            assert after.frames == (Frame(KERNEL, None, None, 0, 0, False),)
            assert after.reason is Reason.CONTRADICTORY
        else:
            assert after.frames[0] == old._replace(function=real, inlined=True)
            assert after.frames[1:] == (Frame(KERNEL, None, None, 0, 0, False),)
            assert after.reason is Reason.INFERRED
    assert seen == {"blend", "scale", "behind", "squash", None}


def test_a_source_that_was_not_compiled_tells_nothing_of_cute() -> None:
    """Where the kernel stands at the lines of a helper, or a helper in front of it has its lines."""
    moved = "\n" * 20
    cubin = CUBINS[0]
    before = lined(answers(cubin))
    for text in (moved + CUTE_TEXTS["/src/cute-samples/blend.py"], CUTE_TEXTS["/src/cute-samples/blend.py"][500:]):
        names = PythonNames(lambda files, text=text: {file: text for file in files if file.endswith("blend.py")})
        assert list(names.named(before)) == before


def test_a_kernel_behind_the_function_that_launches_it_and_a_helper_inside_of_it() -> None:
    """Its end has the line of that function's decorator, which is before the kernel."""
    gain = CUTE_TEXTS["/src/cute-samples/gain.py"]
    launcher = gain.splitlines().index("    def __call__(self, a: cute.Tensor):")  # the line above, from 1
    module = symd.open(CUTE / "bin" / "gain-sm_90a.cubin")
    [kernel] = module.kernels
    columns = module.symbolize([f"{kernel.name}+{at:#x}" for at in range(0, kernel.size, 16)])
    names = PythonNames(lambda files: dict.fromkeys(files, gain))
    named = names.named(columns)
    assert list(named) == list(names.named(list(columns)))
    seen = set()
    for before, after in zip(columns, named, strict=True):
        if not lined([before]):
            continue
        line = before.frames[0].line
        seen.add(line)
        real = [(last - first, name) for first, last, name in parsed(gain) if first <= line <= last]
        if line == launcher:
            assert before.frames[0].function is None
            assert [(each.function, each.line) for each in after.frames] == [(kernel.name, 0)]
            assert after.reason is Reason.CONTRADICTORY
        elif min(real, default=(0, "kernel"))[1] == "kernel":
            assert after == before
        else:
            assert [each.function for each in after.frames] == [min(real)[1], kernel.name]
            assert after.reason is Reason.INFERRED
    assert {launcher, gain.splitlines().index("    return x / (x * x + 1.0)") + 1} <= seen


LINE = Frame(None, None, "/k.py", 4, 0, True)
OF_KERNEL = Frame("kernel_cutlass_f_t", None, None, 0, 0, False)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            Answer(Reason.EXACT, frames=(OF_KERNEL._replace(file="/k.py", line=4),)),
            "def f(): pass\n\n\ndef g(): pass\n",
        ),
        (Answer(Reason.CONTRADICTORY, frames=(LINE, OF_KERNEL)), "def f():\n  1\n\n  2\n"),
        (Answer(Reason.NO_LINE, frames=(LINE._replace(line=0), OF_KERNEL)), "def f(): pass\n"),
        (Answer(Reason.INFERRED, frames=(Frame("cutlass_f", None, "/k.py", 4, 0, False),)), "def f(): pass\n" * 9),
    ],
)
def test_what_is_not_said_of_a_kernel_of_cute_is_as_before(answer: Answer, text: str) -> None:
    """What is EXACT, or another compiler's; where a line that is not the kernel's lies in it, and where there is none."""
    names = PythonNames(lambda files: dict.fromkeys(files, text))
    assert list(names.named([answer])) == [answer]


def test_a_file_that_was_not_compiled_is_remembered() -> None:
    """A line that is not the kernel's lies in it; another line alone would not tell."""
    text = "def g():\n  1\n\ndef f():\n  2\n"
    names = PythonNames(lambda files: dict.fromkeys(files, text))
    other = Answer(Reason.CONTRADICTORY, frames=(LINE._replace(line=2), OF_KERNEL))
    assert names.named([other])[0].frames[0].function == "g"
    names.named([Answer(Reason.CONTRADICTORY, frames=(LINE._replace(line=5), OF_KERNEL))])
    assert names.named([other])[0].frames[0].function is None
