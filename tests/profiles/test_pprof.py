"""pprof profiles, written by Google's package and read back by Google's tools."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from symd import profiles
from symd.errors import Malformed
from symd.model.answers import Answers, Locations, Reason, TextSection
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary
from symd.profiles import NamedModule, Resolver, export, pprof
from symd.profiles.profile_format import Options, ProfileBudget
from tests.profiles.conftest import named_module
from tests.profiles.messages import Profile, frames_of
from tests.profiles.modules import AMD, NO_DEBUG, PRUNED, ZEBIN, of_kernel, of_object
from tests.tools import require
from tests.wire import length_field, number_field

LOAD, TEXT = 0x7F4200000000, 0xFFFF800100400000


def read(data):
    return Profile.FromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def raw(path):
    """``go tool pprof -raw``: location number -> (address, mapping, [(function, file:line, system name)])."""
    command = [require("go"), "tool", "pprof", "-raw", "-symbolize=none", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    locations, mappings = text.partition("Locations\n")[2].split("Mappings\n")
    found, frames = {}, []
    for line in locations.splitlines():
        head = re.match(r" +(\d+): (0x[0-9a-f]+) (?:M=(\d+) )?(.*)", line)
        if head:
            frames = []
            found[int(head[1])] = (int(head[2], 16), int(head[3] or 0), frames)
        rest = re.match(r"(\S+) (\S+?:\d+)(?::\d+)? s=\d+(?:\((\S+)\))?$", (head[4] if head else line).strip())
        if rest:
            frames.append(rest.groups())
    return found, mappings.splitlines()


def expected(frames):
    """LLVM's frames in the words of ``raw``, without the plain names, which LLVM does not print."""
    return [f"{file}:{line}" for _, file, line, _ in frames]


def test_go_reads_the_frames_that_llvm_finds(resolver, sample, tmp_path):
    done = profiles.symbolize(sample("kernels.pb.gz"), resolver)
    (tmp_path / "out.pb.gz").write_bytes(done.data)
    locations, mappings = raw(tmp_path / "out.pb.gz")
    by_address = {address: frames for address, _, frames in locations.values()}
    places = {
        LOAD + 0x1940: of_object(AMD, 0x1940, tmp_path),
        LOAD + 0x1950: of_object(AMD, 0x1950, tmp_path),
        LOAD + 0x1A10: of_object(AMD, 0x1A10, tmp_path),
        TEXT + 0x290: of_kernel("smooth", 0x290, tmp_path),
        TEXT + 0x10: of_kernel("smooth", 0x10, tmp_path),
    }
    assert [len(frames) for frames in places.values()] == [1, 2, 1, 2, 1]
    for address, frames in places.items():
        assert [place for _, place, _ in by_address[address]] == expected(frames), hex(address)
        assert [system or name for name, _, system in by_address[address]] == [frame[0] for frame in frames]
    assert [name for name, _, _ in by_address[LOAD + 0x1950]] == ["blend", "shade"]
    assert by_address[0x401234] == [("draw", "/src/render.cpp:12", "_Z4drawv")], "what was there stays"
    assert by_address[0x7F4300000010] == by_address[LOAD + 0x10] == []
    assert [re.findall(r"\[\w+\]$|(?:\[..\])+$", line.strip()) for line in mappings] == [
        ["[FN][FL][LN]"], ["[FN][FL][LN][IN]"], ["[FN][FL][LN][IN]"], ["[jit]"]
    ]  # fmt: skip


def test_go_sums_up_a_rewritten_profile_by_line(resolver, sample, tmp_path):
    (tmp_path / "out.pb.gz").write_bytes(profiles.symbolize(sample("kernels.pb.gz"), resolver).data)
    command = [require("go"), "tool", "pprof", "-top", "-lines", "-sample_index=samples", "-symbolize=none"]
    text = subprocess.run([*command, tmp_path / "out.pb.gz"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^ +2 .* blend /src/shade.hip:20 \(inline\)$", text, re.MULTILINE)
    assert re.search(r"^ +0 .*100% +draw /src/render.cpp:12$", text, re.MULTILINE)


def test_the_report_counts_every_location(resolver, sample):
    report = profiles.symbolize(sample("kernels.pb.gz"), resolver).report
    assert (report.format, report.unit, report.total, report.already, report.resolved) == (
        "pprof", "locations", 8, 1, 5
    )  # fmt: skip
    assert report.unresolved == {Reason.OUTSIDE_TEXT: 1, Reason.UNKNOWN_MODULE: 1}
    assert report.notes == ("no module was given for [jit]",)


def test_columns_and_mangled_names_are_llvms(resolver, sample, tmp_path):
    profile = read(profiles.symbolize(sample("kernels.pb.gz"), resolver).data)
    [location] = [one for one in profile.location if one.address == LOAD + 0x1950]
    found = [(system, file, line, column) for _, system, file, line, column in frames_of(profile, location)]
    assert found == of_object(AMD, 0x1950, tmp_path)


def test_samples_labels_and_all_else_stay_byte_for_byte(resolver, sample):
    before = gzip.decompress(sample("kernels.pb.gz"))
    after = gzip.decompress(profiles.symbolize(sample("kernels.pb.gz"), resolver).data)
    old, new = Profile.FromString(before), Profile.FromString(after)
    assert list(old.sample) == list(new.sample)
    assert list(old.string_table) == list(new.string_table[: len(old.string_table)])
    assert list(old.function) == list(new.function[: len(old.function)])
    assert len(set(new.string_table)) == len(new.string_table)
    assert len({one.SerializeToString() for one in new.function}) == len(new.function)
    cleared = Profile.FromString(after)
    del cleared.function[len(old.function) :], cleared.string_table[len(old.string_table) :]
    for number, location in enumerate(cleared.location):
        if not old.location[number].line:
            location.ClearField("line")
    for number, mapping in enumerate(cleared.mapping):
        mapping.CopyFrom(old.mapping[number])
    assert cleared.SerializeToString(deterministic=True) == old.SerializeToString(deterministic=True)


def small(*locations, mapping=(), extra=b"", strings=("", "gpu-shade")):
    """An ungzipped profile: ``locations`` are (id, address, unknown bytes)."""
    body = b"".join(number_field(number, value) for number, value in mapping)
    data = length_field(3, number_field(1, 1) + number_field(6, 1) + body + extra)
    for number, address, unknown in locations:
        data += length_field(4, unknown + number_field(1, number) + number_field(2, 1) + number_field(3, address))
    return data + b"".join(length_field(6, text.encode()) for text in strings)


def test_unknown_fields_of_every_message_stay(resolver):
    odd = length_field(77, b"odd") + number_field(78, 5)
    data = odd + small((1, 0x1950, odd), extra=odd) + odd
    profile = Profile.FromString(profiles.symbolize(data, resolver).data)
    for message in (profile, profile.location[0], profile.mapping[0]):
        unknown = [(one.field_number, one.data) for one in UnknownFieldSet(message)]
        assert unknown == [(77, b"odd"), (78, 5)] * (2 if message is profile else 1)
    assert len(profile.location[0].line) == 2


def test_an_equal_function_that_is_there_is_used_again(resolver):
    once = profiles.symbolize(small((1, 0x1940, b"")), resolver).data
    more = once + length_field(4, number_field(1, 2) + number_field(2, 1) + number_field(3, 0x1944))
    profile = Profile.FromString(profiles.symbolize(more, resolver).data)
    assert len(profile.function) == 1
    assert profile.location[1].line[0].function_id == profile.function[0].id


def test_ids_that_are_huge_or_zero_make_no_id_twice(resolver):
    used = b"".join(length_field(5, number_field(1, number)) for number in ((1 << 64) - 1, 7, 0))
    profile = Profile.FromString(profiles.symbolize(small((1, 0x1950, b"")) + used, resolver).data)
    ids = [one.id for one in profile.function]
    assert len(set(ids)) == len(ids) == 5
    assert {line.function_id for line in profile.location[0].line} == {8, 9}


def test_a_mapping_of_a_part_of_the_file_counts_from_that_part(engine):
    """The file offset 0x300 is where readelf has the segment at 0x1300 of the pruned object; its first page is no part."""
    data = PRUNED.read_bytes()
    resolver = Resolver(engine, [named_module(engine, PRUNED)])
    named = ("", engine.add(data).sha256)
    start = [(2, 0x10000), (3, 0x20000)]
    inside = small((1, 0x10100, b""), mapping=[*start, (4, 0x300)], strings=named)
    profile = Profile.FromString(profiles.symbolize(inside, resolver).data)
    assert frames_of(profile, profile.location[0])[0][2:4] == ("/src/scale_v2.s", 23)
    whole = small((1, 0x10100, b""), mapping=start, strings=named)
    assert profiles.symbolize(whole, resolver).report.unresolved == {Reason.OUTSIDE_TEXT: 1}


def test_an_object_address_that_two_kernels_have_is_ambiguous_and_stays(engine):
    resolver = Resolver(engine, [named_module(engine, ZEBIN, "gpu-shade")])
    data = small((1, 0x10, b""))
    done = profiles.symbolize(data, resolver)
    assert done.report.unresolved == {Reason.AMBIGUOUS: 1}
    assert done.data is data


def test_an_address_past_the_mapping_is_not_looked_up(resolver):
    done = profiles.symbolize(small((1, 0x1950, b""), mapping=[(3, 0x1950)]), resolver)
    assert done.report.unresolved == {Reason.OUTSIDE_TEXT: 1}


def test_a_name_from_the_symbol_table_alone_is_not_written(engine):
    """It would stand in the way of the debug data when that is given later."""
    resolver = Resolver(engine, [named_module(engine, NO_DEBUG, "gpu-shade")])
    assert profiles.symbolize(small((1, 0x1900, b"")), resolver).report.unresolved == {Reason.NO_DEBUG_INFO: 1}


def test_two_modules_of_one_identity_are_ambiguous(engine):
    resolver = Resolver(engine, [named_module(engine, path, "gpu-shade") for path in (AMD, ZEBIN)])
    assert profiles.symbolize(small((1, 0x1950, b"")), resolver).report.unresolved == {Reason.AMBIGUOUS: 1}


class TwoNames:
    """One kernel's code under two names, as a linker that folds identical code leaves it."""

    digest = "3" * 64

    def module(self, digest):
        kernels = tuple(KernelSummary(name, ".text", 1, 64, 32) for name in ("first", "second"))
        item = ObjectSummary("", "amdgpu", "gfx900", 128, "4" * 64, "dwarf-5", kernels)
        return ModuleSummary(digest, 128, "amdgpu", (item,))

    def object_data(self, digest, path):
        return b"not an ELF image"

    def symbolize_column(self, digest, values, *, kernel=None, section=None, path=None):
        one, two = np.array([0, 1], np.uint32), np.array([0, 2], np.uint32)
        zero = np.zeros(2, np.uint32)
        locations = Locations(
            np.array([0, Reason.EXACT], np.uint8), zero, one, zero, two, one, zero, zero.astype(np.uint8), zero,
            ("", "first", "/src/k.cl"),
        )  # fmt: skip
        ones = np.ones(len(values), np.uint32)
        return Answers(ones, ones, np.asarray(values, np.uint64), locations, (TextSection("", ".text", 1, 0),))


def test_code_that_two_kernels_share_is_marked_as_folded():
    resolver = Resolver(TwoNames(), [NamedModule(TwoNames.digest, "k.co", "gpu-shade")])
    data = small((1, 64, b""), (2, 95, b""), (3, 96, b""))
    profile = Profile.FromString(profiles.symbolize(data, resolver).data)
    assert [one.is_folded for one in profile.location] == [True, True, False]
    assert all(one.line for one in profile.location)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (small((1, 0x1950, b""), strings=("x", "gpu-shade")), "empty string"),
        (small((1, 0x1950, b""), strings=("",)), "string 1 is named"),
        (small((1, 0x1950, b"")) * 2, "stands twice"),
        (small((1, 0x1950, b""))[:-3], "buffers are damaged"),
        (small((1, 0x1950, b"")) + b"\x0b", "buffers are damaged"),
        (small((1, 0x1950, b"")) + b"\x08" + b"\xff" * 11, "buffers are damaged"),
    ],
    ids=["first-string", "no-string", "twice", "cut", "group", "endless"],
)
def test_a_damaged_profile_is_refused_by_what_is_wrong(data, says, resolver):
    with pytest.raises(Malformed, match=says):
        pprof.symbolize(data, resolver, Options())


def test_nothing_to_add_returns_the_very_input(engine):
    data = gzip.compress(small((1, 0x1950, b"")))
    assert profiles.symbolize(data, Resolver(engine, [])).data is data


def test_a_module_that_the_symbolizer_has_is_known_by_its_digest(engine):
    """Nobody names it here: the store of a daemon holds it, and its SHA-256 can mean nothing else."""
    digest = engine.add(AMD.read_bytes()).sha256
    data = small((1, 0x1950, b""), strings=("", digest.upper()))
    assert profiles.symbolize(data, Resolver(engine, [])).report.resolved == 1
    other = small((1, 0x1950, b""), strings=("", digest[:-1] + "_"))
    assert profiles.symbolize(other, Resolver(engine, [])).report.unresolved == {Reason.UNKNOWN_MODULE: 1}


@pytest.mark.parametrize(
    ("given", "known"), [("kernels.co", True), ("/x/kernels.co", True), ("other.co", False), ("/y/kernels.co", False)]
)
def test_an_identity_without_folders_is_the_name_of_a_file(engine, given, known):
    """As the name of a given file is: the profile says the path that it had."""
    digest = engine.add(AMD.read_bytes()).sha256
    data = small((1, 0x1950, b""), strings=("", "/x/kernels.co"))
    resolver = Resolver(engine, [NamedModule(digest, "elsewhere.co", given)])
    assert profiles.symbolize(data, resolver).report.resolved == known


def test_progress_is_told_to_whoever_asks(resolver, sample):
    seen = []
    options = replace(Options(), progress=lambda *what: seen.append(what))
    profiles.symbolize(sample("kernels.pb.gz"), resolver, options)
    assert seen[-1][0] == "looking up addresses"
    assert seen[-1][1] == seen[-1][2] > 0


def heap(default: str = "") -> bytes:
    """A profile of four values, and the one that is shown first."""
    names = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    profile = Profile(string_table=[b"", *(name.encode() for name in names), b"count", b"work", b"w.c", b"bytes"])
    for at in range(4):
        profile.sample_type.add(type=at + 1, unit=8 if at % 2 else 5)
    profile.function.add(id=1, name=6, filename=7)
    profile.location.add(id=1).line.add(function_id=1, line=3)
    profile.sample.add(location_id=[1], value=[1, 20, 3, 40])
    if default:
        profile.default_sample_type = names.index(default) + 1
    return profile.SerializeToString()


@pytest.mark.parametrize(
    ("default", "value"), [("", 1), ("alloc_space", 20), ("inuse_objects", 3), ("inuse_space", 40)]
)
def test_the_value_that_is_shown_first_is_kept(resolver, default, value):
    found = profiles.samples(heap(default))
    assert found.totals()[found.default] == value
    assert profiles.convert(heap(default), resolver, "folded").data == f"work (w.c:3) {value}\n".encode()
    document = json.loads(profiles.convert(heap(default), resolver, "speedscope").data)
    assert document["profiles"][document["activeProfileIndex"]]["weights"] == [value]


def test_what_is_written_says_which_value_is_shown_first(resolver, sample):
    """Without it readers show the last one, which of unitrace's counters is OtherStall."""
    written = Profile.FromString(profiles.convert(sample("stalls.csv"), resolver, "pprof").data)
    assert written.string_table[written.default_sample_type] == b"Active"


def test_two_processes_have_one_name_for_an_unknown_address(resolver):
    """Runtime addresses differ, places in modules do not."""
    profile = Profile(string_table=[b"", b"samples", b"count", b"/opt/none.co", b"beef", b"[jit]"])
    profile.sample_type.add(type=1, unit=2)
    mappings = [(0x7F0000000000, 0, 3, 0), (0x7E0000000000, 0, 3, 0), (0x7D0000000000, 64, 0, 4), (0x7C0000000000, 0, 5, 0),
                (0x7B0000000000, 0, 0, 0)]  # fmt: skip
    for number, (start, offset, name, build_id) in enumerate(mappings, 1):
        profile.mapping.add(
            id=number,
            memory_start=start,
            memory_limit=start + 0x1000,
            file_offset=offset,
            filename=name,
            build_id=build_id,
        )
        profile.location.add(id=number, mapping_id=number, address=start + 0x40)
        profile.sample.add(location_id=[number], value=[1])
    profile.location.add(id=6, address=mappings[0][0] + 0x40)
    profile.sample.add(location_id=[6], value=[1])
    profile.location.add(id=7, mapping_id=1, address=16)
    profile.sample.add(location_id=[7], value=[1])
    lines = profiles.convert(profile.SerializeToString(), resolver, "folded").data.decode().splitlines()
    assert lines == [
        "none.co+0x40 3", "beef (file offset 0x80) 1", "[jit]+0x40 1", "[unnamed]+0x40 1", "0x10 1",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["kernels.pb.gz", "kernels.otlp"])
def test_what_was_written_without_a_module_is_found_with_it(engine, sample, name):
    """As through the mapping: of an object whose file begins with the mapping, and of one of which a section is mapped."""
    modules = [
        named_module(engine, AMD, "shade.co"),
        named_module(engine, AMD, "gpu-shade"),
        named_module(engine, ZEBIN),
    ]
    known, unknown = Resolver(engine, modules), Resolver(engine, [])
    first = profiles.convert(sample(name), unknown, "folded").data
    later = profiles.symbolize(first, known).data
    assert b"/src/shade.hip" in later
    assert later == profiles.convert(sample(name), known, "folded").data


def test_names_of_files_need_not_be_utf_8() -> None:
    profile = Profile(string_table=[b"", b"samples", b"count", b"caf\xe9.so"])
    profile.sample_type.add(type=1, unit=2)
    profile.mapping.add(id=1, memory_start=0x1000, memory_limit=0x2000, filename=3)
    profile.location.add(id=1, mapping_id=1, address=0x1010)
    profile.sample.add(location_id=[1], value=[1])
    data = profile.SerializeToString()
    spending = ProfileBudget(Options(), len(data))
    found = pprof.read_samples(data, spending)
    assert found.modules[0].name == "caf\udce9.so"
    written = Profile.FromString(export(found, "pprof", spending).data)
    assert written.string_table[written.mapping[0].filename] == b"caf\\udce9.so"
