"""``symd store``: what it says, and with which exit code."""

import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from symd.cli import output
from symd.config import Limits
from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.store import Store
from symd.store.catalogue import MIGRATIONS
from symd.store.inspection import inspect
from tests.small_disk import small_disk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with Store(tmp_path / "store") as store:
        for number in range(3):
            store.put(b"module %d" % number)
    return tmp_path / "store"


def damage(root: Path) -> str:
    path = min((root / "modules").glob("??/*"))
    path.write_bytes(b"nothing!")
    return path.name


def test_check_of_a_store_with_nothing_wrong(run, root: Path) -> None:
    outcome = run("store", "check", "--store", str(root))
    assert (outcome.code, outcome.out) == (
        0,
        "3 modules, 24 module bytes, 0 indexes, 0 index bytes, 0 aliases, 0 contexts: nothing is wrong\n",
    )


def test_one_of_a_kind_is_named_as_one(run, tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        store.aliases.add([Alias("build-id", "abc", Digest(store.put(b"a")))])
    counts = "1 module, 1 module byte, 0 indexes, 0 index bytes, 1 alias, 0 contexts: nothing is wrong\n"
    assert run("store", "check", "--store", str(tmp_path / "store")).out == counts
    copied = run("store", "copy", str(tmp_path / "store"), str(tmp_path / "copy")).out
    assert copied.startswith("copied 1 module, 1 byte")


@pytest.mark.parametrize("way", ["option", "environment", "catalogue"])
def test_a_shared_store_is_told_what_works_there(run, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "environment":
        monkeypatch.setenv("SYMD_STORE", "s3://bucket/modules")
    shared = {"option": ["--store", "s3://bucket/modules"], "catalogue": ["--catalogue", "postgresql://h/d"]}
    outcome = run("store", "repair", *shared.get(way, []))
    assert (outcome.code, outcome.out) == (2, "")
    assert "symd store check --catalogue" in outcome.err
    assert "symd store gc" in outcome.err


@pytest.mark.parametrize("verb", ["check", "gc"])
def test_an_object_storage_and_its_catalogue_are_taken_together(run, root: Path, verb: str) -> None:
    outcome = run("store", verb, "--store", "s3://bucket/modules")
    assert (outcome.code, "needs --catalogue" in outcome.err) == (2, True)
    outcome = run("store", verb, "--store", str(root), "--catalogue", "postgresql://host/database")
    assert (outcome.code, "goes with --store s3://" in outcome.err) == (2, True)


def test_a_catalogue_of_the_environment_is_not_a_folder_s(run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_CATALOGUE", "postgresql://host/database")
    assert run("store", "gc", "--store", str(root)).code == 0
    assert run("store", "check", "--store", str(root)).code == 0


def test_the_help_cuts_no_sentence_off(run) -> None:
    commands = run("store", "--help").out.partition("Commands:")[2]
    assert "..." not in commands
    assert "recently used modules beyond that size." in " ".join(commands.split())


def test_check_names_each_finding_and_says_no(run, root: Path) -> None:
    digest = damage(root)
    outcome = run("store", "check", "--store", str(root))
    assert outcome.code == 1
    first, last = outcome.out.splitlines()
    assert first.startswith(f"damaged-module  modules/{digest[:2]}/{digest}: has 8 bytes")
    assert first.endswith("(symd store repair sets the file aside; adding the module again mends it)")
    assert last.endswith(": 1 finding")


def test_check_in_json(run, root: Path) -> None:
    digest = damage(root)
    outcome = run("store", "check", "--store", str(root), "--json")
    finding, counts = map(json.loads, outcome.out.splitlines())
    assert (outcome.code, finding["kind"], Path(finding["subject"]).name) == (1, "damaged-module", digest)
    assert finding["advice"]
    assert (counts["modules"], counts["findings"]) == (3, 1)


def test_gc_removes_modules_only_where_it_is_told_how_much_may_stay(
    run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is that of a daemon which was told nothing; this store's may have been told of more."""
    monkeypatch.setattr("symd.cli.options.DEFAULT_LIMITS", Limits(store_size=16))
    assert "0 modules beyond store_size" in run("store", "gc", "--store", str(root)).out
    assert "1 module beyond store_size" in run("store", "gc", "--store", str(root), "--limit", "store_size=16").out


def test_repair_says_what_is_left_and_gc_removes_it_when_told(run, root: Path) -> None:
    damage(root)
    outcome = run("store", "repair", "--store", str(root))
    assert (outcome.code, outcome.out.splitlines()[-1]) == (1, "before: 1 finding; now: 1 finding")
    outcome = run("store", "gc", "--store", str(root), "--damaged", "--limit", "store_size=16")
    assert (outcome.code, outcome.out) == (
        0,
        "removed 0 leftovers, 0 indexes of older formats, 1 module beyond store_size, 1 damaged file\n",
    )
    assert run("store", "repair", "--store", str(root)).code == 0
    assert run("store", "check", "--store", str(root)).code == 0


def test_a_catalogue_that_is_made_again_is_said(run, root: Path) -> None:
    (root / "catalogue.sqlite").write_bytes(b"no database" * 1000)
    outcome = run("store", "repair", "--store", str(root))
    assert outcome.code == 0
    assert "the catalogue was damaged (file is not a database), and is " in outcome.out


def test_what_repair_mends_is_told_once(run, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log of a command comes to standard error, beside what it prints."""
    digest = damage(root)
    (root / "catalogue.sqlite").write_bytes(b"no database" * 1000)
    outcome = run("store", "repair", "--store", str(root))
    assert outcome.out.count("the catalogue was damaged") == 1
    assert outcome.out.count(digest) == 1
    assert caplog.text == ""


def test_gc_says_of_what_went_nothing_about_bytes_that_come_in(
    run, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run("store", "gc", "--store", str(root), "--limit", "store_size=16")
    assert "; store_size is 16" in caplog.text
    assert "come in" not in caplog.text


def test_a_folder_without_a_store_is_named(run, tmp_path: Path) -> None:
    outcome = run("store", "check", "--store", str(tmp_path))
    assert outcome.code == 2
    assert "there is no store" in outcome.err


def test_a_store_on_a_disk_that_is_read_only_is_checked_and_not_mended(run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        root = tmp_path / "disk" / "store"
        with Store(root) as store:
            store.put(b"module", "label")
            remounted = ["mount", "-o", "remount,ro", str(tmp_path / "disk")]
            shutil.copytree(root, tmp_path / "disk" / "as it is")
        shutil.rmtree(root)
        (tmp_path / "disk" / "as it is").rename(root)  # with a log that nobody has written back
        subprocess.run(remounted, check=True)
        outcome = run("store", "check", "--store", str(root))
        assert (outcome.code, outcome.out[:9]) == (0, "1 module,")
        for verb in ("repair", "gc"):
            outcome = run("store", verb, "--store", str(root))
            assert (outcome.code, outcome.out) == (3, "")
            assert "the disk refused: read-only file system (" in outcome.err
        subprocess.run(["mount", "-o", "remount,rw", str(tmp_path / "disk")], check=True)


@pytest.fixture
def old_root(tmp_path: Path) -> Path:
    """A store as a symd of schema 4 left it: a module, with an alias."""
    with Store(tmp_path / "old") as store:
        digest = store.put(b"module")
    path = tmp_path / "old" / "catalogue.sqlite"
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        for number, step in enumerate(MIGRATIONS[:4], 1):
            connection.executescript(f"{step} PRAGMA user_version = {number};")
        connection.execute("INSERT INTO modules VALUES (?, 6, '', 'label', 1.5, 1.5)", (digest,))
        connection.execute("INSERT INTO aliases VALUES ('', 'build-id', 'abc', ?, NULL)", (digest,))
        connection.commit()
    path.chmod(0o600)
    return tmp_path / "old"


def test_a_store_of_an_older_schema_is_sound_and_stays_as_it_is(run, old_root: Path) -> None:
    before = (old_root / "catalogue.sqlite").read_bytes()
    outcome = run("store", "check", "--store", str(old_root))
    assert (outcome.code, outcome.out.splitlines()) == (
        0,
        [
            "the catalogue has schema 4; the next start upgrades it to 6",
            "1 module, 6 module bytes, 0 indexes, 0 index bytes, 1 alias, 0 contexts: nothing is wrong",
        ],
    )
    assert json.loads(run("store", "check", "--json", "--store", str(old_root)).out)["older_schema"] == 4
    assert (old_root / "catalogue.sqlite").read_bytes() == before


def test_repair_takes_a_store_of_an_older_schema_to_the_newest(run, old_root: Path) -> None:
    outcome = run("store", "repair", "--store", str(old_root))
    assert (outcome.code, outcome.out) == (0, "before: nothing is wrong; now: nothing is wrong\n")
    assert not (old_root / "damaged").exists()
    with Store(old_root) as store:
        assert [record.label for record in store.records()] == ["label"]
        assert store.aliases.resolve("build-id", "abc") is not None


def test_a_catalogue_that_is_not_of_the_schema_that_it_says_is_damaged(run, root: Path) -> None:
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 4")
    outcome = run("store", "check", "--store", str(root))
    assert (outcome.code, "damaged-catalogue" in outcome.out, "already exists" in outcome.out) == (1, True, True)


def test_gc_makes_room_on_a_full_disk(run, tmp_path: Path) -> None:
    """No byte is free: SQLite cannot make its own files beside the catalogue before what a dead upload left is gone."""
    with small_disk(tmp_path / "disk", 4 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        root = tmp_path / "disk" / "store"
        with Store(root) as store:
            store.put(b"old")
            store.put(b"new")
        (root / "incoming" / "incoming-0123456789abcdef").write_bytes(bytes(1 << 18))
        room = os.statvfs(root)
        (tmp_path / "disk" / "filling").write_bytes(bytes(room.f_bavail * room.f_frsize))
        assert shutil.disk_usage(root).free == 0
        outcome = run("store", "gc", "--store", str(root), "--limit", "store_size=3")
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith("removed 1 leftover, 0 indexes of older formats, 1 module beyond store_size")
        with Store(root) as store:
            assert len(store.records()) == 1


def test_a_store_in_use_is_checked_repaired_and_tidied(run, root: Path) -> None:
    with Store(root) as store, store.writer() as upload:
        upload.write(b"half a module")
        for verb in ("check", "repair", "gc"):
            assert run("store", verb, "--store", str(root)).code == 0
        assert upload.commit() in {record.sha256 for record in store.records()}


def test_a_long_check_says_on_a_terminal_how_far_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "_PERIOD", 0.0)
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress_bar() as show:
        inspect(root, progress=partial(show, "reading"))
    said = terminal.getvalue()
    assert re.findall(r"symd: (reading, [0-9]+%)", said)[-1] == "reading, 100%"
    assert said.endswith("\r\x1b[K")  # nothing of it stays


def test_a_check_that_nobody_watches_says_nothing_meanwhile(run, root: Path) -> None:
    assert run("store", "check", "--store", str(root)).err == ""
