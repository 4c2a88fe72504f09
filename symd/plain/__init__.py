"""One address of a linked AMDGPU code object, read from one unit of its debug data without NumPy, whose import alone takes longer than all of this.

It is a second reader of DWARF, and so it is small: it knows what compilers write as a rule, and hands over (``NotPlain``) whatever it does not
plainly know: relocations, split or compressed debug data, code that two units claim, ranges that do not nest, lines that a function cannot have. What it
answers is what the index answers; ``tests/plain`` and the fuzzer's target ``ways`` compare the two.

Regular expressions do its loops: an abbreviation table is one, which passes all DIEs of a unit at once, and the opcodes of line programs are one."""
