"""Child processes: the one place where symd starts any.

Drivers, disassemblers, the demangler and the readers of modules meet bytes that strangers made, or run code that symd
did not write. Each runs in a process of its own, so that the worst it can do is to end that process.

What a child may cost is in ``ProcessLimits``: seconds on the clock, bytes of address space, bytes of answer, and
where it is asked for, seconds of processor time and bytes of a file. The kernel holds the child to memory, processor
time, file size and open files from its first instruction (``launcher``): limits that are set from outside come a moment
late, and between fork and exec a process with threads must not run Python. This side watches the clock and the answer,
and looks now and then at what the kernel has no limit for (``process`` again). A child has a process group of its own,
which is killed when the child has ended, however it ended: nothing in that group outlives it; who is confined can leave
it no more.

What a child's death means is told by an ``ExitStatus`` and by nothing else: the limit that ended it, or the signal, or
the exit status. Memory is special. A child that is refused memory may say so (Python's MemoryError, a ``MEMORY``
frame), and the ending then names that limit; most programs abort instead, and of those only the signal is known.

How to run one: ``run.run`` starts a program once, and returns its answer with its ending; ``run.run_tool`` does the
same in an empty folder and turns a bad ending into ``ToolFailed`` or ``ToolCrashed``; ``pool.Pool`` keeps processes
warm that call one Python function again and again. All three share ``process`` (start, limits, kill), and ``frames``. A
user's own programs have no limits but the user's (``programs``), nor has the process that starts
confined ones (``fork_server``), which reads nothing but symd's requests.
"""
