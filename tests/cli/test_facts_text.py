"""Facts on one line."""

from symd.cli.info import facts_text
from tests.cli.conftest import ROOT, Run


def test_records_are_counted_and_tables_are_read_without_braces():
    facts = {
        "registers": 20,
        "constant_banks": {"0": 552, "3": 8},
        "arguments": [{"type": "int", "name": "n"}, {"size": 8}],
        "attributes": [{"id": 55, "value": [130]}, {"id": 23, "value": [0]}],
        "max_threads": [64, 1, 1],
        "aliases": [],
        "language": "OpenCL C",
    }
    assert facts_text(facts) == (
        "registers 20, constant_banks (0: 552, 3: 8), arguments (int n, 8 bytes), attributes 2, max_threads [64, 1, 1], "
        "aliases none, language OpenCL C"
    )


def test_info_and_names_of_a_cubin_print_no_records(run: Run):
    cubin = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
    for outcome in (run("info", cubin), run("names", cubin, "*")):
        assert outcome.code == 0
        assert '"id"' not in outcome.out
        assert "attributes" in outcome.out


def test_a_file_without_names_is_not_told_to_look_for_all_of_them(run: Run, tmp_path):
    outcome = run("names", ROOT / "samples" / "cuda" / "bin" / "saxpy.ptx.fatbin", "*")
    assert outcome.code == 1
    assert "no names of functions" in outcome.err
    assert "'*' shows" not in outcome.err
