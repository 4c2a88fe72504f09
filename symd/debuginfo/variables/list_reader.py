"""The location list that an attribute refers to, found through its unit."""

from __future__ import annotations

from functools import partial

from symd.debuginfo.dwarf.constants import At, Form
from symd.debuginfo.dwarf.units import Unit
from symd.debuginfo.variables import location_lists
from symd.debuginfo.variables.dies import DieReader, Value
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget, ListUnit

_OFFSETS_BEFORE_DWARF_4 = frozenset({Form.DW_FORM_data4, Form.DW_FORM_data8})


class ListReader:
    """Reads lists of one object until ``budget`` is spent."""

    def __init__(self, dies: DieReader, budget: ListEntryBudget) -> None:
        self._dies = dies
        self._budget = budget

    def entries(self, unit: Unit, value: Value) -> list[ListEntry] | None:
        """The entries of the list that ``value``, which stands in ``unit``, refers to; None where it refers to none.
        Raises Malformed and LimitExceeded."""
        if value.form == Form.DW_FORM_loclistx:
            sections, listed = self._dies.sections, _list_unit(self._dies, unit)
            offset = location_lists.offset_of(sections, listed, self._base(unit, listed), value.number)
            return location_lists.read(sections, listed, offset, self._budget)
        if value.form == Form.DW_FORM_sec_offset or (value.form in _OFFSETS_BEFORE_DWARF_4 and unit.version < 4):
            return self.at(unit, value.number)
        return None

    def at(self, unit: Unit, offset: int) -> list[ListEntry]:
        """The entries of the list at an offset that ``unit`` states. Raises Malformed and LimitExceeded."""
        listed = _list_unit(self._dies, unit)
        return location_lists.read(self._dies.sections, listed, offset + (listed.lists_base or 0), self._budget)

    def _base(self, unit: Unit, listed: ListUnit) -> int:
        """Where the unit's lists that are called by number begin."""
        top = self._dies.top(unit)
        stated = top.attributes.get(At.DW_AT_loclists_base) if top is not None else None
        header = 12 if unit.widths.offset == 4 else 20
        return header + (listed.lists_base or 0) if stated is None else stated.number


def _list_unit(dies: DieReader, unit: Unit) -> ListUnit:
    own = unit.contributions
    return ListUnit(
        unit.version,
        unit.widths.address,
        unit.widths.offset,
        unit.low_pc,
        partial(dies.address_entry, unit),
        None if own is None else own.location_lists if unit.version >= 5 else own.locations,
    )
