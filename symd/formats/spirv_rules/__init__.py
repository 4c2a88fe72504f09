"""The rules of the Level Zero SPIR-V guide, one function a rule: whether a driver would take a SPIR-V module, for a
device described by what its driver reports. Debug operands are never judged: drivers skip them by word count.
"""

from __future__ import annotations

from symd.formats.spirv.words import HEADER_WORDS, claims, split
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule, CheckReport, RuleFinding, Violation
from symd.formats.spirv_rules.rules import RULES

__all__ = ("RULES", "CheckReport", "Device", "Violation", "check")


def check(data: bytes, device: Device | None = None) -> CheckReport:
    """Ask every rule about a module; what is no SPIR-V at all breaks the rule "header". Never raises for bad bytes."""
    if not claims(data):
        return _no_header(0, "the first word is not the magic number 0x07230203")
    if len(data) < HEADER_WORDS * 4:
        return _no_header(len(data), f"the module ends inside its header of {HEADER_WORDS * 4} bytes")
    module = CheckedModule(split(data))
    found = [
        _place(name, finding, module) for name, rule in RULES.items() for finding in rule(module, device or Device())
    ]
    return CheckReport(tuple(sorted(found, key=lambda violation: violation.offset)))


def _no_header(offset: int, message: str) -> CheckReport:
    return CheckReport((Violation("header", "error", offset, message),))


def _place(rule: str, finding: RuleFinding, module: CheckedModule) -> Violation:
    """The instruction number as a byte offset: -1 is the header, one past the last the end of what could be read."""
    words = module.words
    offset = 0 if finding.number < 0 else words.offset(finding.number)
    if rule == "header" and words.problem and finding.number == len(words):
        offset = words.problem_at
    return Violation(rule, finding.severity, offset, finding.message, finding.accepted)
