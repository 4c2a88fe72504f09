"""A file opened in this process: the same answers as the engine's, however the question is written, and sentences for what is none."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symd
from symd.api import Symbolizer
from symd.errors import BadQuery, HashMismatch, InvalidInput, KernelNotFound, LimitExceeded, ServerUnavailable
from symd.model.addresses import ByAddress, ByKernel, BySection
from symd.model.answers import Answer, Answers, Reason
from symd.model.json.answers import answer_json
from tests.cli.conftest import ROOT, SYMD, server  # noqa: F401 - a fixture
from tests.python.conftest import CUBIN, VADD


def test_an_answer_is_the_one_that_the_command_gives(vadd: symd.Module) -> None:
    command = [*SYMD, "symbolize", "--json", str(VADD), "vadd+0x1b0"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    answer = vadd.symbolize("vadd+0x1b0")
    assert '"line":14' in told.replace(" ", "")
    assert (answer.frames[0].function, answer.frames[0].line) == ("vadd", 14)
    assert answer_json("vadd+0x1b0", answer) == __import__("json").loads(told)


def test_the_symbolizer_of_a_file_takes_all_that_a_symbolizer_takes(vadd: symd.Module) -> None:
    """It stands before another one and adds names of Python functions."""
    symbolizer = vadd.symbolizer
    verbs = [name for name in vars(Symbolizer) if name[0] != "_" and callable(getattr(Symbolizer, name))]
    for name in verbs:
        wanted = set(inspect.signature(getattr(Symbolizer, name)).parameters) - {"self"}
        assert wanted <= set(inspect.signature(getattr(symbolizer, name)).parameters), name

    query, summary = ByKernel("vadd", 0x1B0), symbolizer.module(vadd.sha256)
    answer = symbolizer.symbolize_one(summary, query, with_ranges=True)
    assert answer.ranges is not None
    assert symbolizer.symbolize(summary, [query], with_ranges=True)[0] == answer
    assert symbolizer.symbolize_column(summary, [0x1B0], kernel="vadd")[0] == answer._replace(ranges=None)


def test_one_query_has_an_answer_and_several_have_answers(vadd: symd.Module) -> None:
    wanted = vadd.symbolizer.symbolize(vadd.sha256, [ByKernel("vadd", 16)])[0]
    for one in ("vadd+16", "vadd+0x10", ByKernel("vadd", 16)):
        assert vadd.symbolize(one) == wanted
        assert isinstance(vadd.symbolize(one), Answer)
    for number in (16, np.uint64(16), np.array(16)):
        assert vadd.symbolize(number, kernel="vadd") == wanted
        assert vadd.symbolize(number) == vadd.symbolize(ByAddress(16))
        assert vadd.symbolize(number, section=".text") == vadd.symbolize(BySection(".text", 16))
    for several in (["vadd+16"], ("vadd+16",), iter(["vadd+16"]), np.array(["vadd+16"]), {"vadd+16": 1}):
        answers = vadd.symbolize(several)
        assert isinstance(answers, Answers)
        assert list(answers) == [wanted]
    for numbers in ([16], (16,), np.array([16]), np.array([16], np.uint8), iter([16])):
        assert list(vadd.symbolize(numbers, kernel="vadd")) == [wanted]
    assert list(vadd.symbolize([])) == []


def test_a_series_of_pandas_is_a_column(vadd: symd.Module) -> None:
    pandas = pytest.importorskip("pandas")
    plain = list(vadd.symbolize([0, 16, 700], kernel="vadd"))
    assert list(vadd.symbolize(pandas.Series([0, 16, 700]), kernel="vadd")) == plain
    assert list(vadd.symbolize(pandas.Series(["vadd+0", "vadd+16", "vadd+700"]))) == plain


def test_a_module_may_be_a_path_its_bytes_or_a_part_of_a_file(vadd: symd.Module, tmp_path: Path) -> None:
    data = VADD.read_bytes()
    larger = tmp_path / "larger"
    larger.write_bytes(b"x" * 100 + data)
    sources = (str(VADD), data, bytearray(data), memoryview(data), f"file://{larger}#offset=100&size={len(data)}")
    for source in sources:
        with symd.open(source) as module:
            assert module.sha256 == vadd.sha256 == hashlib.sha256(data).hexdigest()
            assert module.symbolize("vadd+16") == vadd.symbolize("vadd+16")


def test_a_compressed_file_is_opened(vadd: symd.Module, tmp_path: Path) -> None:
    path = tmp_path / "vadd.dbg.gz"
    path.write_bytes(gzip.compress(VADD.read_bytes()))
    with symd.open(path) as module:
        assert module.symbolize("vadd+16").frames == vadd.symbolize("vadd+16").frames


WRONG = {
    "no such file": ("/no/such/file", InvalidInput, "/no/such/file: cannot read the file: no such file or directory"),
    "no name": ("", InvalidInput, "the name of the file is empty"),
    "a folder": ("/", InvalidInput, "/: cannot read the file: is a directory"),
    "a list": (["a", "b"], InvalidInput, "not a list (open each for itself)"),
    "a number": (7, InvalidInput, "not an int (pass a path"),
    "nothing": (None, InvalidInput, "not a NoneType"),
    "standard input": ("-", InvalidInput, "sys.stdin.buffer.read()"),
    "a path of bytes in a class": (type("P", (), {"__fspath__": lambda self: b"x"})(), InvalidInput, "not a P"),
    "no bytes": (b"", symd.SymdError, "it is empty"),
    "an unknown module": ("modules/" + "0" * 64, InvalidInput, "means something to a daemon only"),
}


@pytest.mark.parametrize(("source", "kind", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_module_is_said_in_a_sentence(source: object, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as caught:
        symd.open(source)
    assert says in str(caught.value)


def test_an_open_file_is_told_how_it_is_read() -> None:
    with VADD.open("rb") as stream, pytest.raises(InvalidInput, match=r"open\(path, 'rb'\)\.read\(\)"):
        symd.open(stream)


def test_a_summary_names_a_module_of_a_daemon(vadd: symd.Module) -> None:
    with pytest.raises(InvalidInput, match="give server="):
        symd.open(vadd.summary)


QUERIES = {
    "nothing": (lambda m: m.symbolize(None), "a NoneType is not a query"),
    "a fraction": (lambda m: m.symbolize(0.5), "a float is not a query"),
    "a flag": (lambda m: m.symbolize(True), "a bool is not a query"),
    "a text that is none": (lambda m: m.symbolize("vadd?"), "cannot parse 'vadd?' as an address"),
    "a text for an offset": (lambda m: m.symbolize("16", kernel="vadd"), "a sequence of 64-bit integers"),
    "fractions": (lambda m: m.symbolize(np.array([0.5])), "a float64 is not a query"),
    "a table": (lambda m: m.symbolize(np.zeros((2, 2), np.uint64)), "an ndarray is not a query"),
    "a negative number": (lambda m: m.symbolize(-1), "-1 is not an address"),
    "both": (lambda m: m.symbolize(1, kernel="vadd", section=".text"), "not from both"),
    "a list in a list for variables": (lambda m: m.variables([["vadd+16"]]), "a list is not a query"),
    "a list for a path": (lambda m: m.symbolize("vadd+16", path=["vadd"]), "a list is not the path of a code object"),
    "a number for a kernel": (lambda m: m.symbolize(1, kernel=5), "an int is not the name of a kernel"),
    "a list for a kernel of lines": (lambda m: m.lines(kernel=["vadd"]), "a list is not the name of a kernel"),
    "a list for a section": (lambda m: m.symbolize(1, section=[1]), "a list is not a section"),
    "a number for a kernel of a listing": (
        lambda m: m.listing(5),
        "pass the name of a function, Around or SectionRange",
    ),
    "a tuple for a line": (lambda m: m.locate(("vadd.cl", 8)), "a tuple is not a place for a breakpoint"),
}


@pytest.mark.parametrize(("ask", "says"), QUERIES.values(), ids=QUERIES)
def test_what_is_no_question_is_said_in_a_sentence(vadd: symd.Module, ask, says: str) -> None:
    with pytest.raises(BadQuery) as caught:
        ask(vadd)
    assert says in str(caught.value)


def test_limits_hold(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="module_size"):
        symd.open(VADD, limits=symd.Limits(module_size=4))


def test_lines_of_a_kernel_are_those_of_the_table(cubin: symd.Module) -> None:
    (table,) = cubin.lines()
    kernel = cubin.kernels[0].name
    (part,) = cubin.lines(kernel=kernel)
    wanted = [at for at in range(len(table)) if table.strings[table.kernel[at]] == kernel]
    assert part.offset.tolist() == table.offset[wanted].tolist()
    assert part.line.tolist() == table.line[wanted].tolist()
    with pytest.raises(KernelNotFound, match="there is no kernel 'nothing'"):
        cubin.lines(kernel="nothing")


def test_breakpoints_names_variables_and_sources(vadd: symd.Module) -> None:
    assert [each.kernel for each in vadd.locate("vadd.cl:8").locations] == ["vadd"]
    assert {each.name for each in vadd.names("vadd*")} >= {"vadd"}
    assert vadd.variables("vadd+0x1b0").at == vadd.symbolize("vadd+0x1b0")
    assert [each.file for each in vadd.sources("/tmp/symd-opencl/vadd.cl")] == ["/tmp/symd-opencl/vadd.cl"]
    assert [each.name for each in vadd.kernels] == ["vadd"]
    assert vadd.object_data(vadd.objects[0].path)[:4] == b"\x7fELF"


def test_a_location_for_a_breakpoint_is_a_place_to_ask_about_and_ranges_say_how_far_an_answer_holds() -> None:
    """Both code objects of the bundle have a section of this name; the location says which one is meant."""
    module = symd.open(ROOT / "samples" / "amdgpu" / "bin" / "odd.bundle")
    found = module.locate("shade.cl:13").locations
    assert len({each.path for each in found}) > 1
    for each in found:
        answer = module.symbolize(each, with_ranges=True)
        assert (answer.path, answer.section_offset, answer.frames[0].line) == (each.path, each.section_offset, 13)
        assert answer.ranges is not None
        assert answer.ranges.row is not None
        assert answer.ranges.row.start <= each.section_offset < answer.ranges.row.end
        assert module.symbolize(each) == answer._replace(ranges=None)
        assert module.variables(each).at == module.symbolize(each)
    (one,) = module.symbolize(["shade+0x80"], path=found[0].path, with_ranges=True)
    assert one.ranges is not None
    with pytest.raises(BadQuery, match="ranges are told of queries"):
        module.symbolize(8, kernel="shade", with_ranges=True)


def test_a_pickled_module_is_opened_again_and_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "module"
    path.write_bytes(VADD.read_bytes())
    with symd.open(path) as module:
        kept = pickle.dumps(module)
        wanted = module.symbolize("vadd+16")
    with pickle.loads(kept) as again:  # noqa: S301 - our own bytes
        assert (again.name, again.symbolize("vadd+16")) == (str(path), wanted)
    path.write_bytes(CUBIN.read_bytes())
    with pytest.raises(HashMismatch, match="not the one that was pickled"):
        pickle.loads(kept)  # noqa: S301
    with symd.open(bytearray(VADD.read_bytes())) as module:
        kept = pickle.dumps(module)
    with pickle.loads(kept) as again:  # noqa: S301
        assert again.symbolize("vadd+16") == wanted


def test_a_pool_of_processes_asks_a_module(vadd: symd.Module) -> None:
    program = (
        "import sys, symd\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from functools import partial\n"
        "if __name__ == '__main__':\n"
        "    with symd.open(sys.argv[1]) as module, ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        asked = ['vadd+0x1b0', 'nothing+1']\n"
        "        print([a.reason.name for a in pool.map(partial(symd.Module.symbolize, module), asked)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(VADD)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120
    )
    assert (done.stdout, done.returncode) == ("['EXACT', 'UNKNOWN_KERNEL']\n", 0), done.stderr


def test_through_a_daemon_the_answers_are_the_same(vadd: symd.Module, server: str) -> None:  # noqa: F811 - the fixture
    with symd.open(VADD, server=server) as module:
        assert module.symbolize("vadd+16") == vadd.symbolize("vadd+16")
        assert list(module.symbolize(np.arange(64), kernel="vadd")) == list(vadd.symbolize(range(64), kernel="vadd"))
        summary = module.summary
    for name in (summary, f"modules/{summary.sha256}"):
        with symd.open(name, server=server) as module:
            assert module.symbolize("vadd+16").reason is Reason.EXACT


def test_a_daemon_that_is_not_there_is_said() -> None:
    with pytest.raises(ServerUnavailable, match="symd daemon start"):
        symd.open(VADD, server="unix:/no/such/socket")


def test_what_is_closed_and_what_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    symd.open(VADD).close()
    with pytest.raises(symd.SymdError):
        symd.open(b"noise")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_dump_is_named() -> None:
    with symd.open(VADD) as module, pytest.raises(InvalidInput) as caught:
        module.core()
    assert str(caught.value).startswith(f"{VADD}: is not a GPU core dump (")
