"""The location list that an attribute refers to, found through its unit."""

from __future__ import annotations

from functools import partial

from symd.debuginfo.variables import location_lists
from symd.debuginfo.variables.dies import DieReader, Value
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget, ListUnit
from symd.dwarf.constants import At, Form
from symd.dwarf.units import Unit

_OFFSETS_BEFORE_DWARF_4 = frozenset({Form.DW_FORM_data4, Form.DW_FORM_data8})


class ListReader:
    """Reads lists of one object until ``budget`` is spent."""

    def __init__(self, dies: DieReader, budget: ListEntryBudget) -> None:
        self._dies = dies
        self._budget = budget

    def entries(self, unit: Unit, value: Value) -> list[ListEntry] | None:
        """The entries of the list that ``value``, which stands in ``unit``, refers to; None where it refers to none.
        Raises Malformed and LimitExceeded."""
        listed = self._list_unit(unit)
        if value.form == Form.DW_FORM_loclistx:
            offset = location_lists.offset_of(self._dies.sections, listed, value.number)
        elif value.form == Form.DW_FORM_sec_offset or (value.form in _OFFSETS_BEFORE_DWARF_4 and unit.version < 4):
            offset = value.number + (listed.lists_base or 0)
        else:
            return None
        return location_lists.read(self._dies.sections, listed, offset, self._budget)

    def _list_unit(self, unit: Unit) -> ListUnit:
        top = self._dies.top(unit)
        stated = top.attributes.get(At.DW_AT_loclists_base) if top is not None else None
        header = 12 if unit.widths.offset == 4 else 20
        own = unit.contributions
        lists_base = None if own is None else own.location_lists if unit.version >= 5 else own.locations
        return ListUnit(
            unit.version,
            unit.widths.address,
            unit.widths.offset,
            unit.low_pc,
            header + (lists_base or 0) if stated is None else stated.number,
            partial(self._dies.address_entry, unit),
            lists_base,
        )
