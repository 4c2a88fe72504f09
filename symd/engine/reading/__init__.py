"""Questions about a module's bytes, and who answers them.

Most questions are answered by a module's index. A few are about the bytes themselves: making that index, the variables
at a place, the code that a listing shows, the sources that the module carries, one code object, NVIDIA's lines of PTX.
Bytes come from strangers, so a daemon has them read by other processes; a command or a library reads them in its own.
This room is the seam between the two:

``opened_module``   which module: its digest and where its bytes stand; these checked against it and unpacked, kept for
                    the next question
``questions``       one class for each question; it says what it needs and how it is answered from an ``OpenedModule``.
                    And ``Reader``, whom everybody asks, with ``InProcessReader``, who reads here
``served``          the other side: a question and its answer as bytes, for a reader that asks another process; in value
                    types of a closed list, so that nothing that comes back can run code here
"""
