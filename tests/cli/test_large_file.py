"""Large files give the answers that small ones give: the same files, read as if they were large."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from symd.cli import code_objects
from symd.cli.output import Branch, write_tree
from symd.engine.files import opened_file
from symd.formats.containers.nvidia import cubin_facts
from symd.index.partial import MAX_PARTIAL_QUERIES
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Reason
from tests.builders.kpack import host
from tests.hostile.wrappers import in_archive

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = [
    "amdgpu/bin/host",
    "amdgpu/bin/libhost.a",
    "amdgpu/bin/v3-zstd.ccob",
    "amdgpu/bin/shade.kpack",
    "cuda/bin/program",
    "cuda/bin/tonemap.zstd.fatbin",
]


@pytest.fixture
def kept(monkeypatch):
    """The code objects of each index that a large file is given."""
    found = []
    make = opened_file.FileIndex
    monkeypatch.setattr(opened_file, "FileIndex", lambda codes, *rest: found.append(codes) or make(codes, *rest))
    return found


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(opened_file, "LARGE", 1)


@pytest.fixture
def alone(request, tmp_path) -> Path:
    """A copy of a sample without split debug data beside it, which makes a large file be read as a small one."""
    return Path(shutil.copy(SAMPLES / request.param, tmp_path))


@pytest.mark.parametrize("name", FILES)
def test_info_is_the_same(name, run, monkeypatch):
    before = run("info", "--json", SAMPLES / name)
    text = run("info", SAMPLES / name)
    monkeypatch.setattr(opened_file, "LARGE", 1)
    assert without_notes(run("info", "--json", SAMPLES / name).json) == without_notes(before.json)
    assert run("info", SAMPLES / name).out.count("kernel") == text.out.count("kernel")


@pytest.mark.usefixtures("large")
def test_info_unpacks_the_attributes_of_kernels_for_json_alone(run, monkeypatch):
    """Libraries have tens of thousands of kernels, whose text says how many attributes there are."""
    decoded, hashed = [], []
    monkeypatch.setattr(cubin_facts, "read", counted(cubin_facts.read, decoded))
    monkeypatch.setattr(code_objects, "sha256_of", counted(code_objects.sha256_of, hashed))

    def own_sections():
        return [where for _, where, *_ in decoded if where.startswith(".nv.info.")]

    objects = run("info", "--json", SAMPLES / "cuda/bin/program").json[0]["objects"]
    assert len(own_sections()) == sum(len(each["kernels"]) for each in objects) > 0
    assert len(hashed) == 1 + len(objects)
    decoded.clear()
    hashed.clear()
    assert "attributes" in run("info", SAMPLES / "cuda/bin/program").out
    assert own_sections() == []
    assert len(hashed) == 1


def counted(function, calls):
    def called(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return called


@pytest.mark.parametrize("name", ["kernels/bin/raycast/dg2-opt.dbg", "kernels/bin/raycast/dg2-opt.zebin"])
def test_info_of_intels_code_says_where_its_debug_data_contradicts_itself(name, run, monkeypatch):
    before = run("info", "--json", SAMPLES / name)
    assert "contradict" in before.out or "line rows reach" in before.out
    monkeypatch.setattr(opened_file, "LARGE", 1)
    assert run("info", "--json", SAMPLES / name) == before


def without_notes(answer):
    """What only debug data says is not looked for in a large file."""
    return [{**each, "objects": [{**one, "notes": []} for one in each["objects"]]} for each in answer]


@pytest.mark.parametrize("alone", FILES, indirect=True)
def test_addresses_have_the_same_answers(alone, run, monkeypatch):
    found = run("info", "--json", alone).json[0]["objects"]
    asked = [f"{kernel['name']}+{offset:#x}" for one in found for kernel in one["kernels"][:2] for offset in (0, 0x20)]
    asked = list(dict.fromkeys(asked))
    options = [[], ["--object", found[0]["object"]]]
    before = [run("symbolize", "--json", alone, *chosen, *asked, "nothing+0x0", "0x10") for chosen in options]
    kernels = [run("symbolize", "--json", alone, *chosen, *asked) for chosen in options]
    monkeypatch.setattr(opened_file, "LARGE", 1)
    assert [run("symbolize", "--json", alone, *chosen, *asked, "nothing+0x0", "0x10") for chosen in options] == before
    assert [run("symbolize", "--json", alone, *chosen, *asked) for chosen in options] == kernels


@pytest.mark.parametrize("name", FILES)
def test_extracted_files_are_the_same(name, run, monkeypatch, tmp_path):
    def extracted(folder):
        lines = run("extract", "--json", SAMPLES / name, tmp_path / folder).json
        return [(line, Path(line.pop("file")).read_bytes()) for line in lines]

    before = extracted("small")
    monkeypatch.setattr(opened_file, "LARGE", 1)
    assert extracted("large") == before


@pytest.mark.usefixtures("large")
def test_only_what_is_asked_for_is_kept(kept):
    path = str(SAMPLES / "amdgpu/bin/shade.kpack")
    file = opened_file.LargeFile(path, opened_file.Limits())
    file.symbolize([], "lib_libshade.so#0-gfx900")
    assert list(map(len, kept)) == [1]


@pytest.mark.usefixtures("large")
def test_spirv_that_no_address_means_is_not_kept(kept, tmp_path):
    spirv = (SAMPLES / "spirv/bin/inline.O2.ocl-100.spv").read_bytes()
    (tmp_path / "images.a").write_bytes(in_archive(*[spirv] * 3))
    file = opened_file.LargeFile(str(tmp_path / "images.a"), opened_file.Limits())
    address = [ByAddress(ObjectAddress(0x40))]
    assert file.symbolize(address)[0].reason is Reason.OUTSIDE_TEXT
    assert file.symbolize(address, "m1")[0].reason is not Reason.OUTSIDE_TEXT
    assert list(map(len, kept)) == [0, 1]


@pytest.mark.parametrize("alone", FILES, indirect=True)
def test_many_questions_have_the_same_answers(alone, run, monkeypatch):
    found = run("info", "--json", alone).json[0]["objects"]
    kernels = [kernel for one in found for kernel in one["kernels"]]
    asked = [f"{kernel['name']}+{offset:#x}" for kernel in kernels for offset in range(0x80)]
    asked = list(dict.fromkeys(asked))[:500]
    path = next(one["object"] for one in found if one["kernels"])
    before = [run("symbolize", "--json", alone, *chosen, *asked) for chosen in ([], ["--object", path])]
    assert len(asked) > MAX_PARTIAL_QUERIES
    monkeypatch.setattr(opened_file, "LARGE", 1)
    assert [run("symbolize", "--json", alone, *chosen, *asked) for chosen in ([], ["--object", path])] == before


@pytest.mark.usefixtures("large")
def test_no_bytes_of_code_objects_are_kept(kept):
    file = opened_file.LargeFile(str(SAMPLES / "cuda/bin/tonemap.zstd.fatbin"), opened_file.Limits())
    assert file.symbolize([ByAddress(ObjectAddress(1 << 40))])[0].reason is Reason.OUTSIDE_TEXT
    (codes,) = kept
    assert len(codes) == 2
    assert not any(code.data or any(section.data for section in code.sections) for code in codes)


@pytest.mark.usefixtures("large")
def test_no_more_is_opened_than_an_ambiguous_answer_names(kept, tmp_path):
    code = (SAMPLES / "kernels/bin/vadd/dg2-opt.zebin").read_bytes()
    (tmp_path / "kernels.a").write_bytes(in_archive(*[code] * 100))
    file = opened_file.LargeFile(str(tmp_path / "kernels.a"), opened_file.Limits())
    address = [ByAddress(ObjectAddress(0x40))]
    answers = [file.symbolize(address)[0], file.symbolize(address)[0]]
    assert list(map(len, kept)) == [64, 100], "whoever asks on wants all of it"
    assert answers[0] == answers[1]
    assert len(answers[0].candidates) == 64


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("options", [[], ["--object", "nowhere"]])
def test_a_file_that_is_no_module_is_named(options, tmp_path, run):
    path = tmp_path / "text"
    path.write_bytes(b"no module at all")
    outcome = run("symbolize", path, *options, "0x0")
    assert outcome.code == 2
    assert "text" in outcome.err


@pytest.mark.usefixtures("large")
def test_a_program_whose_code_is_in_kernel_packs_is_none_of_these(tmp_path):
    path = tmp_path / "host.so"
    path.write_bytes(host("lib/host.so", "host.kpack"))
    assert not opened_file.is_large(str(path), opened_file.Limits())


def test_a_tree_is_written_line_by_line(capsys):
    tree = Branch(("a",), iter([Branch((("b", "bold"), "c"), [Branch(("d\n",))]), Branch(("e",))]))
    write_tree(tree)
    assert capsys.readouterr().out == "a\n├── b  c\n│   └── d\\n\n└── e\n"


def test_pairs_of_lines_are_written_as_they_are(capsys):
    write_tree(Branch(("a",), iter([("b", "c"), Branch(("d",)), ("e", ""), ("f", "g")])))
    assert capsys.readouterr().out == "a\n├── b\n│   └── c\n├── d\n├── e\n└── f\n    └── g\n"


@pytest.mark.parametrize(("name", "large"), [("tonemap.zstd.fatbin", True), ("tonemap.none.fatbin", False)])
def test_a_file_whose_compressed_code_expands_to_much_is_large(name, large, monkeypatch):
    path = SAMPLES / "cuda/bin" / name
    monkeypatch.setattr(opened_file, "LARGE", path.stat().st_size + 1)
    monkeypatch.setattr(opened_file, "MAPPED", 1)
    assert opened_file.is_large(str(path), opened_file.Limits()) is large
