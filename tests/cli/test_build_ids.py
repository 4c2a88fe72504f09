"""Which module a mapping of a profile means that names a build ID: two builds of one file's name, linked here with IDs
that readelf reads, and LLVM's lines of the right one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from symd import profiles
from symd.client import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.profiles import NamedModule, Resolver
from symd.store import Store
from tests.cli.conftest import Run
from tests.profiles.messages import Profile
from tests.profiles.modules import ROOT, of_object
from tests.tools import output, require

OBJECTS = ROOT / "samples" / "amdgpu" / "bin"
NAME = "/root/w/blur.co"
LOAD = 0x7F0000000000


class Builds(NamedTuple):
    """The build that ran, under its name and another; another build, and one without an ID, under that name."""

    right: Path
    moved: Path
    other: Path
    unnamed: Path
    build_id: str
    other_id: str
    addresses: list[int]


@pytest.fixture(scope="module", params=["sha1", "fast"])
def builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """IDs of 20 and of 8 bytes."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    files = []
    for folder, source, option in (
        ("S", "v4-gfx900.o", f"--build-id={request.param}"),
        ("T", "v4-gfx900-sections.o", f"--build-id={request.param}"),
        ("N", "v4-gfx900.o", "--build-id=none"),
    ):
        files.append(tmp_path / folder / "blur.co")
        files[-1].parent.mkdir()
        command = [require("ld.lld"), "-shared", option, OBJECTS / source, "-o", files[-1]]
        subprocess.run(command, check=True, timeout=60)
    right, other, unnamed = files
    moved = tmp_path / "U" / "moved.co"
    moved.parent.mkdir()
    shutil.copy(right, moved)
    ids = [re.findall(r"Build ID: (\w+)", output(require("readelf"), "-n", each))[0] for each in (right, other)]
    [begin] = re.findall(r" \.text +PROGBITS +(\w+)", output(require("readelf"), "-SW", right))
    return Builds(right, moved, other, unnamed, *ids, [int(begin, 16) + each for each in (0x118, 0x178, 0x198)])


def profile_of(builds: Builds, path: Path, build_id: str | None = None, name: str = NAME) -> Path:
    """A pprof with a sample at each address of a mapping."""
    profile = Profile()
    strings = ["", "samples", "count", name, builds.build_id if build_id is None else build_id]
    profile.string_table.extend(text.encode() for text in strings)
    profile.sample_type.add(type=1, unit=2)
    profile.mapping.add(id=1, memory_start=LOAD, memory_limit=LOAD + 0x10000, filename=3, build_id=4)
    for number, address in enumerate(builds.addresses, 1):
        profile.location.add(id=number, mapping_id=1, address=LOAD + address)
        profile.sample.add(location_id=[number], value=[number])
    path.write_bytes(profile.SerializeToString())
    return path


def lines_of(builds: Builds, folder: Path) -> set[tuple[str, int]]:
    """Innermost file and line of each sample, by LLVM."""
    return {of_object(builds.right, each, folder)[0][1:3] for each in builds.addresses}


def hot_lines(run: Run, *words: object) -> tuple[set[tuple[str, int]], str]:
    outcome = run("hot", "--json", *words)
    return {(each["file"], each["line"]) for each in outcome.json if each["reason"] is None}, outcome.err


@pytest.mark.parametrize("given", [["right"], ["moved"], ["right", "other"], ["other", "moved"], ["unnamed"]])
def test_the_build_that_ran_is_found(run: Run, builds: Builds, tmp_path: Path, given: list[str]) -> None:
    """By its note, whatever the file's name; a file without a note by its name."""
    words = [word for each in given for word in ("-m", getattr(builds, each))]
    found, said = hot_lines(run, *words, profile_of(builds, tmp_path / "raw.pb"))
    assert found == lines_of(builds, tmp_path)
    assert said == ""


def test_another_build_of_that_name_is_not_believed(run: Run, builds: Builds, tmp_path: Path) -> None:
    raw = profile_of(builds, tmp_path / "raw.pb")
    found, said = hot_lines(run, "-m", builds.other, raw)
    assert found == set()
    wrong = f"blur.co has build ID {builds.other_id}, the profile names {builds.build_id}: another build"
    assert wrong in said
    assert f"-m {builds.build_id}=" in said
    done = run("profile", "-m", builds.other, raw, tmp_path / "out.pb")
    assert done.code == 1
    assert wrong in done.err
    shown = run("listing", "--profile", raw, builds.other)
    assert wrong in shown.err
    assert f"--id {builds.build_id} " in shown.err
    page = run("view", "--profile", raw, builds.other, "-o", tmp_path / "page.html")
    assert wrong in page.err


@pytest.mark.parametrize("build_id", ["", "gpu-shade"])
def test_the_only_file_is_the_only_module_without_one(run: Run, builds: Builds, tmp_path: Path, build_id: str) -> None:
    """Whatever the profile calls it, if no build ID says that it is another."""
    raw = profile_of(builds, tmp_path / "raw.pb", build_id, "/opt/render/app.co")
    name = build_id or "/opt/render/app.co"
    taken = (
        f"symd: {builds.right} is assumed to be {name}, because that is the only module in the profile without a file"
    )
    assert hot_lines(run, "-m", builds.right, raw) == (
        lines_of(builds, tmp_path),
        f"{taken} (-m {name}={builds.right} confirms it)\n",
    )
    assert hot_lines(run, "-m", f"{name}={builds.right}", raw) == (lines_of(builds, tmp_path), "")
    done = run("profile", "-m", builds.right, raw, tmp_path / "out.pb")
    assert (done.code, taken in done.err) == (0, True)
    done = run("profile", "-m", builds.right, raw, "--to", "folded", "-o", tmp_path / "out")
    assert (done.code, taken in done.err) == (0, True)
    for verb, *more in (("listing",), ("view", "-o", tmp_path / "page.html")):
        shown = run(verb, builds.right, "--profile", raw, *more)
        assert f"{taken} (--id {name} confirms it)" in shown.err
        assert "lies in" not in shown.err


def test_a_file_of_another_build_is_no_module_of_the_profile(run: Run, builds: Builds, tmp_path: Path) -> None:
    raw = profile_of(builds, tmp_path / "raw.pb", name="/opt/render/app.co")
    found, said = hot_lines(run, "-m", builds.other, raw)
    assert (found, "is assumed to be" in said) == (set(), False)
    digest = profile_of(builds, tmp_path / "digest.pb", "ab" * 32, "app.co")
    assert "is assumed to be" not in hot_lines(run, "-m", builds.right, digest)[1]


def test_a_file_that_matched_is_no_other_module_too(run: Run, builds: Builds, tmp_path: Path) -> None:
    raw = profile_of(builds, tmp_path / "raw.pb")
    both = Profile.FromString(raw.read_bytes())
    both.string_table.append(b"/usr/lib/other.so")
    both.mapping.add(id=2, memory_start=2 * LOAD, memory_limit=3 * LOAD, filename=len(both.string_table) - 1)
    both.location.add(id=9, mapping_id=2, address=2 * LOAD + builds.addresses[0])
    both.sample.add(location_id=[9], value=[1])
    raw.write_bytes(both.SerializeToString())
    found, said = hot_lines(run, "-m", builds.right, raw)
    assert (found, "is assumed to be" in said) == (lines_of(builds, tmp_path), False)
    taken = hot_lines(run, "-m", builds.right, "-m", builds.other, raw)[1]
    assert f"{builds.other} is assumed to be /usr/lib/other.so" in taken


@pytest.mark.parametrize("called", ["build_id", "name"])
def test_another_build_is_taken_where_the_user_says_so(run: Run, builds: Builds, tmp_path: Path, called: str) -> None:
    raw = profile_of(builds, tmp_path / "raw.pb")
    found, _ = hot_lines(run, "-m", f"{builds.build_id if called == 'build_id' else NAME}={builds.other}", raw)
    assert found


@pytest.mark.parametrize("build_id", ["", "gpu-shade", "Qx/ab_c", "0123456789abcdef0123456789abcdef"])
def test_a_profile_without_a_build_id_goes_by_the_name(run: Run, builds: Builds, tmp_path: Path, build_id: str) -> None:
    """Also one that has another kind of ID: Go's, or OTLP's hash of 16 bytes."""
    raw = profile_of(builds, tmp_path / "raw.pb", build_id)
    assert hot_lines(run, "-m", builds.right, raw) == (lines_of(builds, tmp_path), "")


def test_a_stripped_file_and_its_original_have_one_build_id(run: Run, builds: Builds, tmp_path: Path) -> None:
    """The one that has the name of the mapping is meant."""
    stripped = tmp_path / "stripped.co"
    subprocess.run([require("llvm-objcopy"), "--strip-debug", builds.right, stripped], check=True, timeout=60)
    raw = profile_of(builds, tmp_path / "raw.pb")
    assert hot_lines(run, "-m", stripped, "-m", builds.right, raw)[0] == lines_of(builds, tmp_path)
    assert "AMBIGUOUS" in run("hot", "-m", stripped, "-m", builds.moved, raw).out


def test_a_daemon_knows_its_modules_by_their_build_ids(run: Run, builds: Builds, tmp_path: Path, server: str) -> None:
    with Client(server) as client:
        client.add(builds.moved.read_bytes(), "moved.co")
        client.add(builds.other.read_bytes(), "blur.co")
    raw = profile_of(builds, tmp_path / "raw.pb")
    assert hot_lines(run, "--server", server, raw) == (lines_of(builds, tmp_path), "")


@pytest.mark.parametrize("is_text", [False, True])
def test_perfettos_build_id_is_bytes_or_their_digits(builds: Builds, is_text: bool) -> None:
    trace = Trace()
    packet = trace.packet.add(trusted_packet_sequence_id=3, sequence_flags=1)
    name = builds.build_id.encode() if is_text else bytes.fromhex(builds.build_id)
    packet.interned_data.build_ids.add(iid=1, str=name)
    packet.interned_data.mapping_paths.add(iid=1, str=b"blur.co")
    packet.interned_data.mappings.add(iid=1, build_id=1, path_string_ids=[1])
    packet.interned_data.frames.add(iid=1, mapping_id=1, rel_pc=builds.addresses[0])
    limits = Limits()
    with Engine(Store.temporary(limits), limits) as engine:
        for path, resolved in ((builds.other, 0), (builds.moved, 1)):
            named = [NamedModule(engine.add(path.read_bytes(), path.name).sha256, path.name)]
            report = profiles.symbolize(trace.SerializeToString(), Resolver(engine, named)).report
            assert report.resolved == resolved
            assert any("another build" in each for each in report.notes) != resolved


def test_rows_of_a_table_may_name_a_build_id(run: Run, builds: Builds, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {"module": [builds.build_id] * len(builds.addresses), "address": builds.addresses}
    parquet.write_table(pyarrow.table(rows), tmp_path / "in.parquet")
    words = ("-m", builds.moved, "-m", builds.other, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert json.loads(run("batch", "--json", *words).out)["reasons"] == {"EXACT": len(builds.addresses)}


def test_a_module_that_the_daemon_has_under_the_name_of_a_mapping_is_told(
    run: Run, builds: Builds, tmp_path: Path, server: str
) -> None:
    """With its build ID, since it may be another build; as it is told it is taken."""
    with Client(server) as client:
        client.add(builds.other.read_bytes(), "/data/blur.co")
    for build_id in ("", builds.build_id):
        raw = profile_of(builds, tmp_path / "raw.pb", build_id)
        said = run("hot", "--server", server, raw).err
        [given] = re.findall(rf"module called blur.co \(build ID {builds.other_id}\): add -m (\S+)", said)
        assert hot_lines(run, "--server", server, "-m", given, raw)[0]
