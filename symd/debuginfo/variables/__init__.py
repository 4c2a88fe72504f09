"""Variables at one address: which are visible, of what type, and where each lives. Asked rarely, so nothing of it is in
an index: the debug sections are read when the question comes."""

from symd.debuginfo.variables.visible import VariableReader, visible_at
from symd.model.variables import Kind, Member, TypeInfo, Variable, Visible

__all__ = ("Kind", "Member", "TypeInfo", "Variable", "VariableReader", "Visible", "visible_at")
