"""Scripts that run inside debuggers, in the Python that these bring along: they import nothing of symd, and ask it in a
child process.

``symd gdb-script`` and ``symd lldb-script`` print where they lie."""
