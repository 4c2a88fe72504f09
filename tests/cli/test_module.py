"""What FILE may be besides a path: a code object URI, standard input."""

import hashlib
import json
from pathlib import Path

import pytest

from symd.config import Limits
from symd.formats.budget import Budget
from symd.formats.containers.offload_bundle import entries
from tests.cli.conftest import ROOT, Run

BIN = ROOT / "samples" / "amdgpu" / "bin"
OBJECT = BIN / "v4-gfx900.co"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file with a blank in its name that holds v4-gfx900.co from byte 4099 on."""
    path = tmp_path / "host program"
    path.write_bytes(b"\x90" * 4099 + OBJECT.read_bytes() + b"\x90" * 77)
    return path


def uri(path: Path, offset: int | str = 4099, size: int | str = OBJECT.stat().st_size, mark: str = "#") -> str:
    return f"file://{path}".replace(" ", "%20") + f"{mark}offset={offset}&size={size}"


@pytest.mark.parametrize(
    ("offset", "size", "mark"), [(4099, 6056, "#"), ("0x1003", "0x17a8", "?"), ("010003", "013650", "#")]
)
def test_a_uri_names_a_part_of_a_file_in_every_verb(run: Run, program: Path, tmp_path: Path, offset, size, mark):
    place = uri(program, offset, size, mark)
    whole = run("info", "--json", OBJECT).json[0]
    assert run("info", "--json", place).json[0] == {**whole, "file": place}
    for verb, *more in (["lines", "--json"], ["symbolize", "--json"]):
        tail = ["shade+64"] if verb == "symbolize" else []
        assert run(verb, *more, place, *tail).out == run(verb, *more, OBJECT, *tail).out
    assert run("extract", place, tmp_path / "out").code == 0
    [extracted] = (tmp_path / "out").iterdir()
    assert extracted.read_bytes() == OBJECT.read_bytes()
    assert run("slim", place, tmp_path / "slim.co").code == 0
    assert (tmp_path / "slim.co").stat().st_size < OBJECT.stat().st_size


def test_a_uri_points_into_a_bundle_as_a_loader_writes_it(run: Run):
    """Offset and size are those of the bundle's own table."""
    bundle = BIN / "odd.bundle"
    entry = next(one for one in entries(bundle.read_bytes(), Budget(Limits()))[0] if one.id.endswith("gfx900"))
    [told] = run("info", "--json", uri(bundle, entry.offset, entry.size)).json
    assert told["sha256"] == hashlib.sha256(OBJECT.read_bytes()).hexdigest()


def test_a_uri_without_a_range_is_the_whole_file(run: Run):
    assert (
        run("info", "--json", f"file://{OBJECT}").json[0]["sha256"] == run("info", "--json", OBJECT).json[0]["sha256"]
    )


@pytest.mark.parametrize("verb", ["info", "lines", "symbolize", "extract", "check", "grab", "slim"])
@pytest.mark.parametrize("place", ["memory://1234#offset=0x7f0000&size=4096", "memory://1#offset=1&size=1"])
def test_a_uri_into_a_process_is_refused_with_what_to_do(run: Run, tmp_path: Path, verb: str, place: str):
    more = {"symbolize": ["0"], "extract": [tmp_path / "out"], "slim": [tmp_path / "out"]}.get(verb, [])
    outcome = run(verb, place, *more)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "running process" in outcome.err
    assert "symd attach PROCESS" in outcome.err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda path: uri(path, 4099, 1 << 20), "past the file's"),
        (lambda path: uri(path, "0xffffffffffffffff", "0xffffffffffffffff"), "beyond the end of any file"),
        (lambda path: uri(path, "4k"), "4k"),
        (lambda path: f"{uri(path)}&more=1", "offset=number&size=number"),
        (lambda path: f"file://{path}", "bytes"),
        (lambda path: "file:///no/such/file#offset=0&size=1", "no such file"),
        (lambda path: "file://", "is not a code object uri"),
        (lambda path: uri(path, 0, 0), "empty"),
    ],
)
def test_a_uri_that_means_nothing_is_one_line(run: Run, program: Path, place, words: str):
    outcome = run("info", place(program))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert words in outcome.err.lower()


def test_only_the_named_part_counts_against_the_limit_and_is_read(run: Run, tmp_path: Path):
    """The file says 64 GiB and has no blocks but the object's."""
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.seek(1 << 36)
        stream.write(OBJECT.read_bytes())
    assert run("info", "--limit", "module_size=1M", uri(path, 1 << 36)).code == 0
    outcome = run("info", "--limit", "module_size=1M", uri(path, 0, 2 << 20))
    assert (outcome.code, "module_size" in outcome.err) == (2, True)


def test_a_daemon_gets_the_named_part_alone(symd: Run, server: str, program: Path):
    outcome = symd("info", "--json", "--server", server, uri(program))
    assert json.loads(outcome.out)["sha256"] == hashlib.sha256(OBJECT.read_bytes()).hexdigest()


def test_a_name_that_is_nearly_a_modules_says_what_one_is(run: Run):
    outcome = run("info", "modules/abc")
    assert outcome.code == 2
    assert "modules/ with its SHA-256 or the beginning of it, and --server ADDRESS" in outcome.err
