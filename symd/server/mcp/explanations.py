"""Why an address has the answer it has, in words, and what to do about it: by its reason, and by the compiler that made the code."""

from __future__ import annotations

from dataclasses import dataclass

from symd.model.answers import Answer, Candidate, Reason
from symd.model.compile_advice import compile_advice
from symd.model.summaries import ModuleSummary


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an assistant is told about a reason. ``meaning``: what the reason says of this address; ``advice``: what
    to do, one step a sentence."""

    meaning: str
    advice: tuple[str, ...] = ()


_MEANINGS = {
    Reason.EXACT: "A line row covers the address: there is nothing to explain.",
    Reason.APPROXIMATE: "The compiler wrote line 0 here (code that belongs to no line). The line given is the nearest earlier one of the"
    " same function.",
    Reason.INFERRED: "Rows and scopes of the debug data contradict each other here, and the rest of it leaves one reading: the one given.",
    Reason.CONTRADICTORY: "The debug data contradicts itself here. The frames given are sure; a line or a name that is not sure is left out.",
    Reason.NO_LINE: "A function covers the address, and the line table has no row for it.",
    Reason.GAP: "The address lies inside code, between functions: padding, or code that the debug data does not know.",
    Reason.OUTSIDE_TEXT: "The address lies in no code of this module.",
    Reason.NO_DEBUG_INFO: "The code object was compiled without debug information.",
    Reason.DEBUG_DATA_ELSEWHERE: "The debug data was split off when the program was compiled, and that file is not here.",
    Reason.AMBIGUOUS: "Several code objects or sections could be meant.",
    Reason.UNKNOWN_KERNEL: "The module has no kernel, function or code object of that name.",
    Reason.UNKNOWN_MODULE: "No module of that identity is known.",
    Reason.UNLOADED: "The module was not loaded at that time.",
    Reason.MALFORMED: "The code object's debug information breaks the rules of its format.",
    Reason.UNRECOGNIZED: "The daemon is newer than this symd, and gave a reason that this one has no name for.",
}
_ADVICE: dict[Reason, tuple[str, ...]] = {
    Reason.APPROXIMATE: ("Take the line as the neighbourhood, not as the place.",),
    Reason.CONTRADICTORY: (
        "symd symbolize --as-written shows what the rows and scopes say, unreconciled.",
        "The page contradictions.md of symd's documentation lists what compilers are known to write.",
    ),
    Reason.NO_LINE: ("Ask for an address a few instructions earlier: the function's other instructions have lines.",),
    Reason.GAP: ("Check the offset: it may count from another start than the one asked by.",),
    Reason.OUTSIDE_TEXT: (
        "Check what the number counts from: an object address, a kernel's first byte (KERNEL+OFFSET) or a section's ((SECTION)+OFFSET).",
        "A device address first has to lose the address that the module was loaded at; symd symbolize --context does that.",
    ),
    Reason.DEBUG_DATA_ELSEWHERE: (
        "Give the debug file, the .dwo file, the .dwp package, the .dbg.spv module of SPIR-V, or their folder with --debug.",
        "symd mcp finds them beside the module and where it was compiled, if they lie below a --source-root.",
    ),
    Reason.AMBIGUOUS: ("Ask again by kernel or section, or name the code object.",),
    Reason.UNKNOWN_KERNEL: ("The tool names, with the pattern '*', lists what there is.",),
    Reason.UNKNOWN_MODULE: ("Add the module, or ask the daemon that has it.",),
    Reason.UNLOADED: ("Ask for a time at which it was loaded; symd contexts lists loads and unloads.",),
    Reason.MALFORMED: (
        "symd verify compares symd's reading with another reader's.",
        "Compile with another version of the compiler.",
    ),
    Reason.UNRECOGNIZED: ("Install the daemon's version of symd here.",),
}
_STRIPPED = "If it was compiled so, it was stripped since: use the file from before, or --debug FILE."


def explanation(answer: Answer, summary: ModuleSummary) -> Explanation:
    """What stands behind an answer of this module."""
    meaning = _MEANINGS[answer.reason]
    advice = _ADVICE.get(answer.reason, ())
    if answer.reason is Reason.NO_DEBUG_INFO:
        clauses = compile_advice(summary.objects, answer.path)
        advice = (*(f"{each[:1].upper()}{each[1:]}." for each in clauses), _STRIPPED)
    elif answer.reason is Reason.AMBIGUOUS and answer.candidates:
        advice = (f"Ask again with {query_of(answer.candidates[0])} for the first of the candidates.",)
    elif answer.reason is Reason.UNKNOWN_KERNEL and answer.candidates:
        near = ", ".join(dict.fromkeys(each.function for each in answer.candidates if each.function))
        advice = (f"Did you mean {near}?", *advice) if near else advice
    return Explanation(meaning, advice)


def query_of(candidate: Candidate) -> str:
    """The query that means this candidate alone, and the code object to name with it where the module has several."""
    section = candidate.section or f"#{candidate.section_index}"
    place = f"({section})+{candidate.section_offset:#x}"
    return f"{place} in the code object {candidate.path}" if candidate.path else place
