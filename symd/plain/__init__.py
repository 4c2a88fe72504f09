"""One address of a linked AMDGPU code object, read from one unit of its debug data without NumPy, whose import alone takes longer than all of this.

What it decodes, the core does; what is joined of that is written a second time here, and so it is little: it knows what compilers write as a rule, and hands over (``NotPlain``) whatever it does not
plainly know: relocations, split or compressed debug data, code that two units claim, ranges that do not nest, lines that a function cannot have. What it
answers is what the index answers; ``tests/plain`` and the fuzzer's target ``ways`` compare the two."""
