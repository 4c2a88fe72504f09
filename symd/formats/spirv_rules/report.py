"""What a check answers: violations, each under the name of its rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "unsupported"]


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """One breach, as a rule reports it: ``number`` is the instruction's."""

    number: int
    message: str
    severity: Severity = "error"
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a SPIR-V module breaks, and where. ``offset`` is the instruction's byte offset in the module.
    "unsupported" is outside what every device must take, without being wrong; ``accepted_in_practice`` marks what
    shipping drivers take although the text forbids it."""

    rule: str
    severity: Severity
    offset: int
    message: str
    accepted_in_practice: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Violations by offset. ``valid``: none of them is an error."""

    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        return not any(violation.severity == "error" for violation in self.violations)

    def refused(self, *, strict: bool = False) -> bool:
        """Whether a driver would refuse the module; ``strict`` takes the text at its word."""
        return any(
            violation.severity == "error" and (strict or not violation.accepted_in_practice)
            for violation in self.violations
        )
