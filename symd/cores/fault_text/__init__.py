"""Text that debug agents, sanitizers, debuggers and drivers print of faults: the addresses in it, and what they mean.

``references``  a line to the addresses that it names, and to what it says of loaded code
``annotating``  line after line: what was said of loaded code is kept, and addresses are asked
"""
