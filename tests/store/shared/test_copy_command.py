"""``symd store copy`` between a folder and a real S3 with a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symd.cli import command_line
from symd.model.contexts import Alias, Context, Load
from symd.model.identities import Digest
from symd.store import Store
from tests.object_server import BUCKET, ExitStatus, Proxy
from tests.store.shared.postgresql_server import PostgresServer

Copy = Callable[..., tuple[int, str, str]]


@pytest.fixture
def copy(capsys: pytest.CaptureFixture[str], proxy: Proxy) -> Copy:
    """Runs the command in this process: its exit code, and what it says."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = command_line.invoke(["store", "copy", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with Store(tmp_path / "store") as store:
        digests = [Digest(store.put(b"module %d" % number * 100, f"label {number}", "raw")) for number in range(12)]
        store.aliases.add([Alias("build-id", "abc", digests[3])])
        store.context_log.record(store.context_log.add(Context(host="a")), [Load(digests[0], 10)])
    return tmp_path / "store"


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """An object storage of the test's own."""
    return f"s3://{BUCKET}/copy-{abs(hash(request.node.nodeid)):x}"


def contents(root: Path) -> Any:
    with Store(root) as store:
        records = store.records()
        contexts = store.context_log.contexts()
        return (
            {(each.sha256, each.label, each.format, bytes(store.data(each.sha256))) for each in records},
            {alias for each in records for alias in store.aliases.of(each.sha256)},
            {(each.id, load) for each in contexts for _, load in store.context_log.loads(each.id)},
        )


def test_a_store_goes_to_s3_and_comes_back(copy: Copy, root: Path, url: str, database: str, tmp_path: Path):
    code, said, _ = copy(root, url, "--catalogue", database)
    assert (code, said) == (0, "copied 12 modules, 10000 bytes, 0 indexes; 0 modules were there; 1 alias, 1 context\n".replace("10000", str(sum(len(b"module %d" % n) * 100 for n in range(12)))))  # fmt: skip
    code, said, _ = copy(url, tmp_path / "back", "--catalogue", database, "--json")
    assert code == 0
    assert json.loads(said)["modules"] == 12
    assert contents(tmp_path / "back") == contents(root)


def test_the_store_of_the_option_is_copied_where_one_place_is_given(copy: Copy, root: Path, url: str, database: str):
    assert copy("--store", root, url, "--catalogue", database)[0] == 0
    code, said, _ = copy("--store", root, url, "--catalogue", database)
    assert (code, said.partition(";")[2]) == (0, " 12 modules were there; 1 alias, 1 context\n")


def test_a_store_goes_from_one_object_storage_to_another(
    copy: Copy, root: Path, url: str, database: str, postgresql: PostgresServer, tmp_path: Path
):
    other = postgresql.database()
    assert copy(root, url, "--catalogue", database)[0] == 0
    assert copy(url, f"file://{tmp_path}/objects", "--catalogue", database, "--to-catalogue", other)[0] == 0
    assert copy(f"file://{tmp_path}/objects", tmp_path / "back", "--catalogue", other)[0] == 0
    assert contents(tmp_path / "back") == contents(root)


def test_a_copy_that_s3_breaks_off_says_how_to_go_on_and_does(
    copy: Copy, root: Path, url: str, database: str, proxy: Proxy
):
    puts = 0

    def plan(asked: Any) -> ExitStatus:
        nonlocal puts
        puts += asked.method == "PUT"
        return ExitStatus.PASS if puts <= 5 else ExitStatus.REFUSE

    proxy.plan = plan
    code, _, error = copy(root, url, "--catalogue", database, "--limit", "storage_seconds=1s")
    assert code == 3
    assert "503" in error
    assert "repeat the command to continue" in error
    proxy.plan = lambda asked: ExitStatus.PASS
    code, said, _ = copy(root, url, "--catalogue", database, "--json")
    done = json.loads(said)
    assert (code, done["there"] + done["modules"]) == (0, 12)
    assert 0 < done["there"] <= 5  # what was put when the copy ended may not be in the catalogue yet


def test_a_damaged_module_is_named(copy: Copy, root: Path, url: str, database: str):
    with Store(root) as store:
        digest = store.records()[2].sha256
    path = root / "modules" / digest[:2] / digest
    path.write_bytes(bytes(path.stat().st_size))
    code, said, _ = copy(root, url, "--catalogue", database)
    assert code == 1
    assert said.startswith(f"modules/{digest} is damaged and was left out")
    assert "copied 11 modules" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("FOLDER", "s3://bucket"),
        ("s3://bucket", "FOLDER"),
        ("s3://bucket", "s3://other", "--catalogue", "postgresql://host/one"),
        ("FOLDER", "s3://bucket", "--to-catalogue", "postgresql://host/one"),
        ("FOLDER", "s3://bucket", "--catalogue", "postgresql://host/one", "--to-catalogue", "postgresql://host/two"),
        ("a", "b", "c"),
        (),
    ],
)
def test_a_copy_without_its_catalogues_is_refused(copy: Copy, root: Path, arguments: tuple[str, ...]):
    code, _, error = copy(*(str(root) if each == "FOLDER" else each for each in arguments))
    assert code == 2
    assert "symd store copy --help" in error


def test_a_folder_without_a_store_is_no_source(copy: Copy, url: str, database: str, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    code, _, error = copy(tmp_path / "empty", url, "--catalogue", database)
    assert code == 2
    assert "there is no store" in error
    assert list((tmp_path / "empty").iterdir()) == []


def test_wrong_urls_are_named(copy: Copy, root: Path, database: str):
    code, _, error = copy(root, "ftp://host/x", "--catalogue", database)
    assert (code, "names no object storage" in error) == (2, True)
    code, _, error = copy(root, f"s3://{BUCKET}/x", "--catalogue", "mysql://host/x")
    assert (code, "not the URL of a catalogue" in error) == (2, True)


def test_gc_of_a_shared_store_keeps_what_no_bound_was_given_for(
    copy: Copy, root: Path, url: str, database: str, capsys: pytest.CaptureFixture[str]
):
    assert copy(root, url, "--catalogue", database)[0] == 0
    gc = ["store", "gc", "--store", url, "--catalogue", database]
    assert command_line.invoke(gc) == 0
    said = "removed 0 leftovers, 0 indexes of older formats, {} beyond store_size, 0 damaged files\n"
    assert capsys.readouterr().out == said.format("0 modules")
    assert command_line.invoke([*gc, "--limit", "store_size=8500"]) == 0
    assert capsys.readouterr().out == said.format("2 modules")
    assert "10 modules were there" in copy(root, url, "--catalogue", database)[1]


def test_default_names_the_store_of_the_daemon_that_runs_here(
    copy: Copy, root: Path, url: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SYMD_STORE", str(root))
    assert copy("default", url, "--catalogue", database)[0] == 0
    assert copy("default", tmp_path / "folder")[0] == 0
    monkeypatch.setenv("SYMD_STORE", url)
    assert copy("default", tmp_path / "back", "--catalogue", database)[0] == 0
    assert contents(tmp_path / "folder") == contents(tmp_path / "back") == contents(root)


def test_a_copy_comes_from_a_store_that_is_there(copy: Copy, postgresql: PostgresServer, url: str, tmp_path: Path):
    """The other way it would make an empty store of a name that was misspelled, and say that all of it was copied."""
    code, _, error = copy(url, tmp_path / "back", "--catalogue", postgresql.database())
    assert (code, "there is no catalogue" in error, "`symd store copy` makes a new one" in error) == (3, True, True)
