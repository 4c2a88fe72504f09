"""The command ``symd``, one module a verb. Importing the package imports none of it: the table of verbs (``command_line``) takes click, whose import
is slow, and questions on standard input are answered without."""

from __future__ import annotations

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.cli.command_line import GROUP as GROUP
    from symd.cli.command_line import SECTIONS as SECTIONS
    from symd.cli.command_line import VERBS as VERBS
    from symd.cli.command_line import invoke as invoke
    from symd.cli.command_line import main as main
    from symd.cli.command_line import verb_sections as verb_sections
else:
    _HOMES = dict.fromkeys(("GROUP", "SECTIONS", "VERBS", "invoke", "main", "verb_sections"), "symd.cli.command_line")

    def __getattr__(name: str) -> object:
        from symd.system.lazy_imports import found  # noqa: PLC0415 - questions on standard input do without

        return found(__name__, _HOMES, name)


__all__ = ("GROUP", "SECTIONS", "VERBS", "invoke", "main", "verb_sections")
