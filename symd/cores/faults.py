"""The exceptions of CUDA devices by number.

Source: NVIDIA's ``cudadebugger.h`` (CUDBGException_t), and the table of exceptions in the manual of cuda-gdb."""

from __future__ import annotations

from symd.model.cores import CoreFault

_NAMES = {
    1: "Lane Illegal Address",
    2: "Lane User Stack Overflow",
    3: "Device Hardware Stack Overflow",
    4: "Warp Illegal Instruction",
    5: "Warp Out-of-range Address",
    6: "Warp Misaligned Address",
    7: "Warp Invalid Address Space",
    8: "Warp Invalid PC",
    9: "Warp Hardware Stack Overflow",
    10: "Device Illegal Address",
    11: "Lane Misaligned Address",
    12: "Warp Assert",
    13: "Lane Syscall Error",
    14: "Warp Illegal Address",
    15: "Lane Non-migratable System Atomic",
    16: "Lane Invalid System Atomic",
    17: "Cluster Out-of-range Address",
    18: "Cluster Block Not Present",
    19: "Warp Stack Canary",
    20: "Warp Tensor Memory Access Check",
    21: "Warp Tensor Memory Leak",
    22: "Warp Call Requires Newer Driver",
    23: "Warp Misaligned PC",
    24: "Warp PC Overflow",
    25: "Warp Misaligned Register",
    26: "Warp Illegal Instruction Encoding",
    27: "Warp Illegal Instruction Parameter",
    28: "Warp Out-of-range Register",
    29: "Warp Invalid Constant Address",
    30: "Warp MMU Fault",
    31: "Warp Barrier Arrival Mismatch",
    32: "Cluster Shared Memory Uncorrectable Error",
    33: "Warp API Stack Error",
    34: "Warp Block Not Present",
    35: "Warp User Stack Overflow",
    36: "TMA Syscall Error",
}


def cuda_fault(number: int) -> CoreFault | None:
    """The exception of that number; None for 0, which is none."""
    if number == 0:
        return None
    meaning = _NAMES.get(number, "an exception that symd does not know")
    return CoreFault(number, f"CUDA_EXCEPTION_{number}", meaning)


TRAPPED = CoreFault(0, "SIGTRAP", "the warp stopped at a breakpoint or trap")
"""The fault of a warp that is broken and in which no lane has an exception."""
