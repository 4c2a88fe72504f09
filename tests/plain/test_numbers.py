"""The plain reader's own numbers are those that the other readers have, and it imports little."""

from __future__ import annotations

import subprocess
import sys

from symd.config import DEFAULT_LIMITS
from symd.dwarf import constants, forms
from symd.dwarf.constants import Lns
from symd.dwarf.forms import ValueLayout, Widths
from symd.elf import constants as elf_constants
from symd.model import plain_answers
from symd.model.answers import Reason
from symd.plain import image, line_program, numbers
from symd.start import plain_text


def test_numbers_of_dwarf_are_the_same() -> None:
    known = {
        name: int(member)
        for kind in (constants.Tag, constants.At, constants.Form, constants.Ut, constants.Lnct)
        for name, member in kind.__members__.items()
    }
    own = {name: found for name, found in vars(numbers).items() if name.startswith("DW_")}
    assert own == {name: known[name] for name in own}
    assert len(own) > 40


def test_forms_have_the_same_layouts() -> None:
    widths = Widths(numbers.ADDRESS_SIZE, numbers.OFFSET_SIZE, numbers.OFFSET_SIZE)
    assert {form: forms.layout(form, widths) for form in numbers.LAYOUTS} == numbers.LAYOUTS
    assert (numbers.LEB, numbers.STRING) == (ValueLayout.LEB, ValueLayout.STRING)
    assert (numbers.BLOCK1, numbers.BLOCK) == (ValueLayout.BLOCK1, ValueLayout.BLOCK)
    form = constants.Form
    assert numbers.UNIT_REFERENCES == forms.UNIT_REFERENCES
    assert {form.DW_FORM_sec_offset, form.DW_FORM_data4, form.DW_FORM_data8} == numbers.OFFSETS
    assert numbers.STRX < forms.STRX_FORMS
    assert {each for each in form if "_addrx" in each.name} > numbers.ADDRX


def test_numbers_of_elf_and_of_answers_are_the_same() -> None:
    own = {name: found for name, found in vars(image).items() if name.isupper() and not name.startswith("_")}
    own.pop("TYPE_CHECKING")
    assert own == {name: getattr(elf_constants, name) for name in own}
    operands = dict(enumerate(line_program.OPERANDS, 1))
    without = {Lns.DW_LNS_copy, Lns.DW_LNS_negate_stmt, Lns.DW_LNS_set_basic_block, Lns.DW_LNS_const_add_pc}
    without |= {Lns.DW_LNS_set_prologue_end, Lns.DW_LNS_set_epilogue_begin}
    assert operands == {opcode: opcode not in without for opcode in Lns}
    known = plain_answers.EXACT, plain_answers.APPROXIMATE, plain_answers.NO_LINE, plain_text.ELSEWHERE
    assert known == (Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE, Reason.DEBUG_DATA_ELSEWHERE)
    assert DEFAULT_LIMITS.module_size == plain_text.MODULE_BYTES


def test_it_imports_neither_numpy_nor_what_takes_as_long() -> None:
    program = "import sys; before = {*sys.modules}; import symd.plain.answer; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "symd.plain.scopes" in modules
    assert not {
        "numpy",
        "typing",
        "dataclasses",
        "click",
        "symd.elf",
        "symd.errors",
        "symd.dwarf.forms",
    }.intersection(modules)
