"""Archives against what llvm-ar and GNU ar list and print."""

from __future__ import annotations

import mmap

import pytest

from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.formats.containers import MAX_NOTES, archive, unpack
from symd.formats.containers.format import Element
from tests import tools
from tests.formats.containers.amd import objects

FORMATS = ["gnu", "bsd", "darwin"]
LONG = "a-member-name-of-more-than-sixteen-characters.o"


def member(name: str, data: bytes, size: object = None) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data) if size is None else size!s:<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)


@pytest.mark.parametrize("kind", FORMATS)
def test_members_are_those_that_went_in_under_every_naming_scheme(kind, tmp_path):
    tool = tools.require("llvm-ar-19", "llvm-ar")
    contents = {"short.o": b"odd", LONG: b"even", "c.co": objects.sample("v4-gfx900.co")}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    made = tmp_path / "made.a"
    tools.output(tool, f"--format={kind}", "rcD", made, *(tmp_path / name for name in contents))
    elements = objects.contents(archive, made.read_bytes()).elements
    # BSD's writers pad a member to eight bytes and count the padding
    assert {element.name: element.data.rstrip(b"\n") for element in elements} == contents


def test_the_sample_library_holds_its_objects():
    elements = objects.contents(archive, objects.sample("libhost.a")).elements
    assert [(element.name, element.data) for element in elements] == [
        ("host-first.o", objects.sample("host-first.o")),
        ("host-second.o", objects.sample("host-second.o")),
    ]


def test_claims_are_by_the_magic_line():
    assert archive.claims(objects.sample("libhost.a"))
    assert not archive.claims(b"!<arch>")


def test_a_mapped_archive_is_claimed_as_its_bytes_are(tmp_path):
    """A large file is mapped, and what is mapped can be sliced and searched, no more."""
    for name, data in {"whole": objects.sample("libhost.a"), "package": archive.DEBIAN + bytes(100)}.items():
        (tmp_path / name).write_bytes(data)
        with (tmp_path / name).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert archive.claims(mapped) == archive.claims(data) == (name == "whole")


def test_a_thin_archive_says_that_its_members_are_elsewhere():
    with pytest.raises(Unsupported, match="thin"):
        objects.contents(archive, b"!<thin>\n")


def test_an_empty_archive_has_no_parts():
    assert objects.contents(archive, b"!<arch>\n").elements == ()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (["a.o/"], "the only file inside the archive carries no device code"),
        (["a.o/", "b.o/"], "none of the 2 files inside the archive carries device code"),
    ],
)
def test_a_library_without_device_code_is_refused_as_a_program_without_is(members, says):
    """It was answered with nothing: `symd info` named its members, and every address lay outside of the text."""
    host = objects.sample("host-plain.o")
    with pytest.raises(Unsupported, match=says):
        unpack(archive.MAGIC + b"".join(member(name, host) for name in members))


def test_a_library_of_which_one_member_has_device_code_is_read():
    made = (
        archive.MAGIC + member("a.o/", objects.sample("host-plain.o")) + member("b.co/", objects.sample("v4-gfx900.co"))
    )
    assert [code.path for code in unpack(made).objects] == ["b.co"]
    assert unpack(made, path="a.o").objects == ()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"x" * 60, "no archive member header"),
        (member("a/", b"", size="x1"), "not a number"),
        (member("a/", b"", size="9999999999"), "past the file"),
        (member("a/", b"")[:40], "no archive member header"),
    ],
)
def test_damage_at_the_first_member_is_malformed(body, says):
    with pytest.raises(Malformed, match=says):
        objects.contents(archive, b"!<arch>\n" + body)


def test_damage_behind_a_healthy_member_is_a_note():
    found = objects.contents(archive, b"!<arch>\n" + member("a/", b"data") + b"rubbish")
    assert [(element.name, element.data) for element in found.elements] == [("a", b"data")]
    assert "rest of the archive" in found.notes[0]


def test_names_cannot_lead_out_of_a_folder():
    found = objects.contents(archive, b"!<arch>\n" + member("../../x/", b"data"))
    assert found.elements[0].name == ".._.._x"


@pytest.mark.parametrize("name", ["/99999999", "#1/99999999", "/"])
def test_names_that_lead_nowhere_are_harmless(name):
    objects.survives(lambda: objects.contents(archive, b"!<arch>\n" + member(name, b"data")))


class Copied(bytes):
    """Bytes that count how many of them were copied out, by who has a piece of them too."""

    count: list[int]

    def counted_in(self, count: list[int]) -> Copied:
        self.count = count
        return self

    def __getitem__(self, part):  # type: ignore[no-untyped-def, override]
        found = super().__getitem__(part)
        if not isinstance(part, slice):
            return found
        self.count[0] += len(found)
        return Copied(found).counted_in(self.count)


def test_long_names_are_taken_without_the_table_behind_them():
    """Of 29 MB with 7,000 names of 4 KB the half of the table was copied for each: half a minute."""
    names = [f"{number:04}{'n' * 1000}" for number in range(500)]
    table = "".join(f"{name}/\n" for name in names).encode()
    members = b"".join(member(f"/{number * 1006}", b"data") for number in range(500))
    data, count = b"!<arch>\n" + member("//", table) + members, [0]
    found = archive.read(Element("", Copied(data).counted_in(count)), objects.budget())
    assert [element.name for element in found.elements] == names
    assert count[0] < 8 * len(table)


def test_notes_about_many_members_have_a_bound():
    """Who asked for a module of 29 MB got 28 MB of them in one message, and the daemon's own process grew with each who asked."""
    broken = objects.sample("v4-gfx900.co")[:100]
    names = "".join(f"{number:04}{'n' * 1000}/\n" for number in range(2000)).encode()
    members = b"".join(member(f"/{number * 1006}", broken) for number in range(2000))
    data = b"!<arch>\n" + member("//", names) + members + member("whole.co/", objects.sample("v4-gfx900.co"))
    found = unpack(data)
    assert [code.path for code in found.objects] == ["whole.co"]
    *said, last = found.notes
    assert MAX_NOTES - 2000 < sum(map(len, said)) <= MAX_NOTES
    assert last == f"{2000 - len(said):,} further notes not shown, beyond 1,048,576 characters"


def test_more_members_than_the_budget_are_refused():
    with pytest.raises(LimitExceeded, match="object_count"):
        archive.read(Element("", b"!<arch>\n" + member("a/", b"") * 11), objects.budget(object_count=10))


def test_truncated_archives_cost_an_error_or_what_is_left():
    for data in objects.truncations(objects.sample("libhost.a"))[1:]:
        assert objects.survives(lambda data=data: objects.contents(archive, data)) in {"Malformed", "answered"}


def test_archives_inside_archives_are_opened_down_to_the_limit():
    data = objects.sample("v4-gfx900.co")
    for _ in range(3):
        data = b"!<arch>\n" + member("inner/", data)
    assert [one.path for one in unpack(data).objects] == ["inner/inner/inner"]
    for _ in range(10):
        data = b"!<arch>\n" + member("inner/", data)
    with pytest.raises(LimitExceeded, match="more than 8 containers"):
        unpack(data)


def test_every_image_of_the_sample_library_is_found_with_its_path():
    paths = [one.path for one in unpack(objects.sample("libhost.a")).objects]
    assert paths == [
        "host-first.o/.hip_fatbin/hipv4-amdgcn-amd-amdhsa--gfx1100",
        "host-first.o/.hip_fatbin/hipv4-amdgcn-amd-amdhsa--gfx900",
        "host-second.o/.hip_fatbin/hipv4-amdgcn-amd-amdhsa--gfx900",
    ]
