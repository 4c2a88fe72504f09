"""Each rule finds what breaks it, where it is broken, and nothing in what keeps it; spirv-val is asked the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symd.formats.spirv_rules import RULES, Device, check
from tests.formats.spirv_rules.assembly import assemble, judged, offset_of
from tests.formats.spirv_rules.cases import CASES, FINDS, FLOATS, MISSES, Case

ON_OTHER_DEVICE = {"capability", "fp-atomic-loadstore", "fp-atomic-add", "fp-atomic-minmax"}
"""Rules whose cases ask about one module and two devices."""


def able(case: Case) -> Device:
    """The device for which the case's first module is fine."""
    if case.kept == case.broken:
        return FLOATS
    return case.device if case.rule not in ON_OTHER_DEVICE else Device()


def broken_rules(data: bytes, device: Device) -> set[str]:
    return {violation.rule for violation in check(data, device).violations}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_module_that_keeps_the_rule_is_clean(case: Case) -> None:
    device = able(case)
    device = replace(device, int64_atomics=True)
    assert broken_rules(assemble(case.kept), device) == set()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_module_that_breaks_the_rule_is_found_at_the_instruction(case: Case, tmp_path) -> None:
    data = assemble(case.broken)
    report = check(data, case.device)
    assert {violation.rule for violation in report.violations} == {case.rule, *case.also}
    expected = offset_of(data, case.breach, tmp_path)
    assert [v.offset for v in report.violations if v.rule == case.rule] == [expected]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_spirv_val_agrees_or_is_known_not_to_look(case: Case) -> None:
    kept, broken = judged(assemble(case.kept)), judged(assemble(case.broken))
    if case.val == FINDS:
        assert (bool(kept), bool(broken)) == (False, True), kept
    elif case.val == MISSES:
        assert not broken, broken
    else:
        assert kept
        assert broken


def test_every_rule_has_a_case_or_a_test_of_its_own() -> None:
    elsewhere = {"header", "spirv-version", "control-flow"}
    assert {case.rule for case in CASES} | elsewhere == set(RULES)
