"""Watched folders: what is there, what arrives, when a file is complete, and what is not taken."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.capture import folder
from symd.capture.folder import Finding, FolderModule, FolderWatch, LeftOut
from symd.config import Limits
from symd.errors import InvalidInput, Malformed, Unsupported
from tests.builders.elf import ALLOC, ET_DYN, Section, build_elf
from tests.tools import require

SAMPLES = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
ZEBIN = (SAMPLES / "filters" / "igc2-dg2-opt.zebin").read_bytes()
SPIRV = (SAMPLES / "walk" / "opt.spv").read_bytes()
LONG_AGO = time.time() - 3600
DEADLINE = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir()
    return made


@pytest.fixture
def watched(place: Path) -> Iterator[FolderWatch]:
    with FolderWatch([place], Limits(), settle=0.05) as watch:
        yield watch


def old(path: Path, data: bytes) -> Path:
    """A file that nobody has written to for an hour."""
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def modules(findings: list[Finding]) -> list[str]:
    return [Path(finding.path).name for finding in findings if isinstance(finding, FolderModule)]


def until(watch: FolderWatch, done: Callable[[list[Finding]], object]) -> list[Finding]:
    """What arrives until ``done`` holds of it."""
    found: list[Finding] = []
    end = time.monotonic() + DEADLINE
    while not done(found):
        assert time.monotonic() < end, found
        found += watch.arriving(0.05)
    return found


def nothing_arrives(watch: FolderWatch) -> list[Finding]:
    """What a watch has when nobody does anything any more; empty as a rule."""
    found = list(watch.arriving(0.2))
    while watch.unsettled:
        found += watch.arriving(0.05)
    return found


def test_what_was_there_before_is_taken_with_all_that_is_known_of_it(place: Path, watched: FolderWatch) -> None:
    old(place / "a.zebin", ZEBIN)
    (module,) = list(watched.present())
    assert isinstance(module, FolderModule)
    assert module.path == str(place / "a.zebin")
    assert module.data == ZEBIN
    assert module.digest == hashlib.sha256(ZEBIN).hexdigest()
    assert (module.format, module.kernels) == ("zebin", ("smooth", "denoise"))


def test_equal_bytes_count_once_and_other_files_are_counted(place: Path, watched: FolderWatch) -> None:
    for name in ("a", "b", "c"):
        old(place / name, ZEBIN)
    old(place / "kernel.json", b'{"name": "k"}')
    old(place / "empty", b"")
    old(place / "launcher.so", Path("/bin/true").read_bytes())
    subprocess.run([require("ar"), "rc", place / "host.a", "/bin/true"], check=True)
    old(place / "host.a", (place / "host.a").read_bytes())
    assert modules(list(watched.present())) == ["a"]
    counts = watched.counts
    assert (counts.modules, counts.repeated, counts.other, counts.left_out) == (1, 2, 3, 0)
    assert list(watched.present()) == []


def test_a_library_with_spirv_among_its_data_is_a_module(place: Path, watched: FolderWatch) -> None:
    """As Vulkan's have it, in no section of its own."""
    data = Section(".rodata", flags=ALLOC, address=0x2000, data=SPIRV)
    old(place / "libshaders.so", build_elf(machine=62, type=ET_DYN, sections=[data]))
    (module,) = list(watched.present())
    assert isinstance(module, FolderModule)
    assert (module.format, module.kernels) == ("host-elf", ("walks", "darts"))


def test_what_arrives_is_taken_once_and_when_it_is_closed(place: Path, watched: FolderWatch) -> None:
    assert list(watched.present()) == []
    with (place / "slow").open("wb") as stream:
        stream.write(ZEBIN[:1000])
        stream.flush()
        assert nothing_arrives(watched) == []
        stream.write(ZEBIN[1000:])
    assert modules(until(watched, len)) == ["slow"]
    (place / "again").write_bytes(ZEBIN)
    assert nothing_arrives(watched) == []


def test_a_file_that_is_moved_to_its_place_has_its_last_name(place: Path, tmp_path: Path, watched: FolderWatch) -> None:
    assert list(watched.present()) == []
    (tmp_path / "elsewhere").write_bytes(ZEBIN)
    (tmp_path / "elsewhere").rename(place / "here.zebin")
    assert modules(until(watched, len)) == ["here.zebin"]


def test_half_a_file_that_was_there_before_is_waited_for(place: Path, watched: FolderWatch) -> None:
    with (place / "half").open("wb") as stream:
        stream.write(SPIRV[: len(SPIRV) // 2])
        stream.flush()
        assert list(watched.present()) == []
        assert watched.unsettled
        stream.write(SPIRV[len(SPIRV) // 2 :])
    found = until(watched, len)
    assert [finding.data for finding in found if isinstance(finding, FolderModule)] == [SPIRV]


def test_a_file_that_changes_no_more_is_taken_without_being_closed(place: Path, watched: FolderWatch) -> None:
    with (place / "open").open("wb") as stream:
        stream.write(SPIRV)
        stream.flush()
        assert list(watched.present()) == []
        assert modules(until(watched, len)) == ["open"]


def test_a_damaged_file_is_named_and_taken_when_it_was_written_again(place: Path, watched: FolderWatch) -> None:
    old(place / "a.spv", SPIRV[:-6])
    (left,) = list(watched.present())
    assert isinstance(left, LeftOut)
    assert isinstance(left.error, Malformed)
    (place / "a.spv").write_bytes(SPIRV)
    assert modules(until(watched, len)) == ["a.spv"]


def test_folders_that_appear_are_looked_into(place: Path, watched: FolderWatch) -> None:
    assert list(watched.present()) == []
    deep = place / "hash" / "deeper"
    deep.mkdir(parents=True)
    (deep / "k.spv").write_bytes(SPIRV)
    (place / "hash" / "k.zebin").write_bytes(ZEBIN)
    assert sorted(modules(until(watched, lambda found: len(found) == 2))) == ["k.spv", "k.zebin"]


def test_a_folder_that_is_deleted_and_made_again_is_watched_again(place: Path, watched: FolderWatch) -> None:
    (place / "sub").mkdir()
    assert list(watched.present()) == []
    (place / "sub").rmdir()
    assert nothing_arrives(watched) == []
    (place / "sub").mkdir()
    (place / "sub" / "a").write_bytes(ZEBIN)
    assert modules(until(watched, len)) == ["a"]


def test_the_watched_folder_itself_may_go_and_come(place: Path, watched: FolderWatch) -> None:
    assert list(watched.present()) == []
    place.rmdir()
    assert nothing_arrives(watched) == []
    assert watched.absent() == [str(place)]
    place.mkdir()
    (place / "a").write_bytes(ZEBIN)
    assert modules(until(watched, len)) == ["a"]
    place.rename(place.with_name("elsewhere"))
    until(watched, lambda found: watched.absent())


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    with FolderWatch([tmp_path / "later"], Limits(), settle=0.05) as watch:
        assert list(watch.present()) == []
        (tmp_path / "later").mkdir()
        old(tmp_path / "later" / "a", ZEBIN)
        assert modules(until(watch, len)) == ["a"]


def test_a_folder_that_is_moved_has_its_new_name(place: Path, watched: FolderWatch) -> None:
    (place / "first").mkdir()
    assert list(watched.present()) == []
    (place / "first").rename(place / "second")
    assert nothing_arrives(watched) == []
    (place / "second" / "a").write_bytes(ZEBIN)
    (module,) = until(watched, len)
    assert module.path == str(place / "second" / "a")


def test_links_pipes_and_what_lies_outside_are_not_followed(place: Path, tmp_path: Path, watched: FolderWatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    old(outside / "secret.spv", SPIRV)
    (place / "link").symlink_to(outside / "secret.spv")
    (place / "folder").symlink_to(outside)
    os.mkfifo(place / "pipe")
    left = list(watched.present())
    assert {Path(each.path).name: type(each.error) for each in left if isinstance(each, LeftOut)} == {
        "link": Unsupported,
        "folder": Unsupported,
        "pipe": Unsupported,
    }
    assert "a pipe" in str(left[-1])
    assert list(watched.present()) == []  # each is said once


def test_a_folder_on_the_way_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
    path = old(tmp_path / "a", ZEBIN)
    with pytest.raises(Unsupported, match="exchanged"):
        folder._content(str(path), os.lstat(path), [str(tmp_path / "cache")], Limits())


@pytest.mark.parametrize(
    ("limit", "value"), [("folder_bytes", 1000), ("folder_files", 0), ("folder_depth", 1), ("folders", 2)]
)
def test_what_is_too_much_is_left_out_and_the_limit_named(
    place: Path, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_set = limit in Limits._fields
    if not is_set:
        monkeypatch.setattr(folder, limit.upper(), value)
    deep = place / "one" / "two"
    deep.mkdir(parents=True)
    old(deep / "a", ZEBIN)
    with FolderWatch([place], Limits(folder_bytes=value) if is_set else Limits(), settle=0.05) as watch:
        (left,) = list(watch.present())
    assert isinstance(left, LeftOut)
    assert left.error.metadata == {"limit": limit}
    assert (limit in left.error.hint) == is_set


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput, match="not a folder"):
        FolderWatch([tmp_path / "file"], Limits())


def test_a_flood_of_files_loses_none(place: Path, watched: FolderWatch) -> None:
    """More events than the kernel keeps: what they would have said is looked for."""
    assert list(watched.present()) == []
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    names = [place / str(number) for number in range(queue // 2 + 100)]
    for name in names:
        name.touch()
    (place / "sub").mkdir()
    (place / "sub" / "a").write_bytes(ZEBIN)
    assert modules(until(watched, len)) == ["a"]


def test_a_writer_beside_the_watch_is_followed(place: Path, watched: FolderWatch) -> None:
    """Folders and files that appear while others are looked at: each once, whole."""
    payloads = [SPIRV + b"" if number == 0 else ZEBIN + bytes([number]) * number for number in range(40)]

    def write() -> None:
        for number, payload in enumerate(payloads):
            temporary = place / f"tmp.{number}"
            temporary.write_bytes(payload)
            (place / f"{number % 7}" / "x").mkdir(parents=True, exist_ok=True)
            temporary.rename(place / f"{number % 7}" / "x" / str(number))

    writer = threading.Thread(target=write)
    writer.start()
    found = list(watched.present()) + until(watched, lambda found: watched.counts.modules == len(payloads))
    writer.join()
    assert sorted({each.data for each in found if isinstance(each, FolderModule)}) == sorted(set(payloads))
    assert nothing_arrives(watched) == []
