"""ListingService over a real engine: listings as in-process, and source files from the folders that were allowed alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import KernelNotFound, LimitExceeded, ModuleNotFound, ObjectNotFound, ToolMissing
from symd.model.line_tables import ListingPart
from symd.model.sources import TextOrigin
from symd.rpc.wire import line_tables
from symd.server.call import Call
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.rpc import question_services
from symd.server.server import build_daemon
from symd.server.work_queues import WorkQueue
from symd.store import Store
from tests.query.disasm.objects import SAMPLES
from tests.query.test_listing import every_eight

RAYCAST = (SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
PARTICLES = (SAMPLES / "kernels" / "bin" / "particles" / "skl-opt.bin").read_bytes()
SHADE = (SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
SHADE_SOURCE = SAMPLES / "amdgpu" / "src" / "shade.cl"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """The sources stand in tmp_path/src, a secret beside it."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "shade.cl").write_bytes(SHADE_SOURCE.read_bytes())
    (tmp_path / "src" / "raycast.cl").write_text("line 1\nline 2\n")
    (tmp_path / "secret.cl").write_text("secret")
    (tmp_path / "src" / "leads-out.cl").symlink_to("../secret.cl")
    return Config(
        limits=Limits(source_size=100_000),
        store=tmp_path / "store",
        address=f"unix:{tmp_path}/s",
        grace=1.0,
        source_roots=(str(tmp_path / "src"),),
        source_map=(("/tmp/symd-opencl", str(tmp_path / "src")), ("/src", str(tmp_path / "src"))),
    )


def served(config: Config) -> Iterator[tuple[Engine, Client]]:
    with Engine(Store(config.store, config.limits, durable=False), config.limits, disassemble=every_eight) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield engine, client
            daemon.stop(1)


@pytest.fixture
def both(config: Config) -> Iterator[tuple[Engine, Client]]:
    yield from served(config)


@pytest.mark.parametrize("data", [RAYCAST, PARTICLES, SHADE])
def test_listings_are_those_of_the_engine(both, data):
    engine, client = both
    digest = client.add(data).sha256
    mine, theirs = [*engine.listing(digest)], [*client.listing(digest)]
    assert [each.path for each in mine] == [each.path for each in theirs]
    assert [each.problem for each in mine] == [each.problem for each in theirs]
    for one, other in zip(mine, theirs, strict=True):
        assert (one.target, list(one.text), one.size.tolist()) == (other.target, list(other.text), other.size.tolist())
        assert list(one.answers) == list(other.answers)


def test_a_part_is_asked_for_by_name(both):
    _, client = both
    digest = client.add(PARTICLES).sha256
    assert [each.path for each in client.listing(digest, ListingPart(within="attract"))] == ["debug/attract"]
    with pytest.raises(KernelNotFound):
        [*client.listing(digest, ListingPart(within="nowhere"))]
    with pytest.raises(ObjectNotFound):
        [*client.listing(digest, ListingPart(path="nowhere"))]
    with pytest.raises(ToolMissing, match="not installed"):
        [*client.listing(digest, ListingPart(path="debug/emit"))]
    with pytest.raises(ModuleNotFound):
        [*client.listing("0" * 64)]


def test_source_files_come_from_the_allowed_folder_through_the_rules(both, config):
    _, client = both
    digest = client.add(SHADE).sha256
    (found,) = client.sources(digest, ["/src/shade.cl"])
    assert found.origin is TextOrigin.DISK
    assert found.text == SHADE_SOURCE.read_text()
    assert found.md5 == hashlib.md5(SHADE_SOURCE.read_bytes(), usedforsecurity=False).digest()
    assert found.path == f"{config.source_roots[0]}/shade.cl"
    assert found.verified


def test_a_file_that_was_changed_since_is_refused(both, config):
    _, client = both
    digest = client.add(SHADE).sha256
    Path(config.source_roots[0], "shade.cl").write_text("something else")
    (found,) = client.sources(digest, ["/src/shade.cl"])
    assert found.text is None
    assert "MD5" in found.problem


def test_no_name_makes_the_daemon_read_elsewhere(both, config):
    _, client = both
    digest = client.add(RAYCAST).sha256
    folder = config.source_roots[0]
    names = [
        *(f"{folder}/../secret.cl", "../secret.cl", "/etc/passwd", f"{folder}/leads-out.cl", "leads-out.cl", folder),
        *("/tmp/symd-opencl/../secret.cl", "/src/../secret.cl", "", "/", "/proc/self/environ"),
    ]
    for found in client.sources(digest, names):
        assert found.text is None, found.file
        assert found.problem
    (known,) = client.sources(digest, ["/tmp/symd-opencl/raycast.cl"])
    assert known.text == "line 1\nline 2\n"
    assert not known.verified


def test_a_file_in_an_allowed_folder_that_the_module_does_not_name_is_not_read(both, config):
    _, client = both
    shade, raycast = client.add(SHADE).sha256, client.add(RAYCAST).sha256
    Path(config.source_roots[0], "keys.txt").write_text("secret")
    for name in (
        "/src/keys.txt",
        "keys.txt",
        f"{config.source_roots[0]}/keys.txt",
        "/src/shade.cl",
        "/src/./raycast.cl",
    ):
        (found,) = client.sources(raycast, [name])
        assert found.text is None
        assert "names this file" in found.problem
    assert client.sources(shade, ["/src/shade.cl"])[0].text is not None


def test_every_file_that_a_line_table_names_is_named(both):
    engine, client = both
    digest = client.add(PARTICLES).sha256
    for table in engine.lines(digest):
        files = [table.strings[number] for number in set(table.file.tolist()) if number]
        for path in (None, table.path):
            assert not [each for each in client.sources(digest, files, path) if "names this file" in each.problem]


def test_without_allowed_folders_the_daemon_reads_nothing(config):
    bare = replace(config, source_roots=(), source_map=config.source_map)
    for _, client in served(bare):
        (found,) = client.sources(client.add(SHADE).sha256, ["/src/shade.cl"])
        assert found.text is None
        assert found.md5 is not None
        assert "no folder is allowed" in found.problem


def test_large_files_are_left_out_and_many_names_are_asked_for_in_parts(both, config, monkeypatch):
    _, client = both
    digest = client.add(RAYCAST).sha256
    raycast = Path(config.source_roots[0], "raycast.cl")
    raycast.write_bytes(bytes(100_001))
    assert client.sources(digest, ["/tmp/symd-opencl/raycast.cl"])[0].text is None
    raycast.write_bytes(bytes(100_000))
    assert client.sources(digest, ["/tmp/symd-opencl/raycast.cl"])[0].text is not None
    monkeypatch.setattr("symd.client.FILES", 2)
    assert [each.file for each in client.sources(digest, list("abcde"))] == list("abcde")
    monkeypatch.setattr("symd.rpc.wire.line_tables.FILES", 1)
    with pytest.raises(LimitExceeded):
        client.sources(digest, ["a", "b"])


def test_texts_of_the_module_need_no_folder(config):
    waves = (SAMPLES / "spirv" / "bin" / "waves.g.spv").read_bytes()
    for engine, client in served(replace(config, source_roots=())):
        digest = client.add(waves).sha256
        assert client.sources(digest, ["waves.comp"]) == engine.sources(digest, ["waves.comp"])
        assert client.sources(digest, ["waves.comp"])[0].origin is TextOrigin.MODULE


def test_only_a_large_answer_is_made_in_turns(both, monkeypatch: pytest.MonkeyPatch) -> None:
    _, client = both
    digest, turns = client.add(SHADE).sha256, []

    def counted(_queue: WorkQueue, _call: Call, items: Iterator[object]) -> Iterator[object]:
        for each in items:
            turns.append(type(each).__name__)
            yield each

    def asked() -> tuple[int, str | None]:
        (listing,) = client.listing(digest, ListingPart(within="shade"))
        return len(listing), client.sources(digest, ["/src/shade.cl"])[0].text

    monkeypatch.setattr(WorkQueue, "each_for", counted)
    small = asked()
    assert turns == []
    monkeypatch.setattr(question_services, "COUNTED_BYTES", 1)
    assert asked() == small
    assert turns == ["GetListingResponse", "ReadSourcesResponse"]


def test_texts_of_a_listing_are_counted_before_they_are_read(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed debug data is a thousandth of its names."""
    monkeypatch.setattr(line_tables, "to_listing_chunks", lambda _listing: pytest.fail("written"))
    for engine, client in served(replace(config, limits=config.limits._replace(response_bytes=20))):
        digest = engine.add(SHADE).sha256
        with pytest.raises(LimitExceeded) as caught:
            list(client.listing(digest, ListingPart(within="shade")))
        assert caught.value.metadata["limit"] == "response_bytes"
        assert "texts" in caught.value.message
