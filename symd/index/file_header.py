"""The version of index files, and what they may hold at most: see ``format``."""

from __future__ import annotations

VERSION = 24
"""History: 1, the first; 2, location_owner and the tables of functions and files; 3, packed: starts as a bitmap, frames
numbered within blocks of ranges, equal entries stored once, rows and summary compressed; 4, smaller: ranges in
compressed pages, one table of rows for all objects, ranks in two steps, the summary as msgpack; 5, the same under other
names: ``section_*`` and ``*_section`` where columns were named after places, ``object_compiler_input``; 6, with the
digest of its module, so that an index under another module's name is not believed; 7, inlined calls of
NonSemantic.Shader.DebugInfo.200, with columns; labels of assembly inside functions name no frame, and rows end with the
functions that they begin in; 8, ``written_*``: ranges where the debug data contradicts itself are answered otherwise
than rows and scopes say; 9, also where only variables and blocks do; 10, ``section_address`` is the device address in
core dumps of AMD's GPUs; 11, owners that are inlined copies of which nothing says where their code is: they decide
where a line belongs; 12, the summary has the build IDs of AMD's code objects and of programs; 13, files without a name
have no path; 14, a checksum for each piece of the columns in place of one over all of them, and functions that a linker
folded have the lines of the one that stays; 15, so have those of one unit, and those of small objects, and code of
which nobody knows whose lines it has is CONTRADICTORY; programs with SPIR-V among their data alone are not remembered
as refused any more; 16, core dumps of CUDA programs have device addresses also where they have both images of a module,
and no functions that were not loaded; 17, programs with fat binaries among their data alone are not remembered as
refused any more, and facts and notes have bounds; 18, a DebugNoLine of SPIR-V ends an OpLine too, and where no scope is
in force lines of other functions are nobody's; rows outside of the text that is carried of their source are
CONTRADICTORY; targets of zebins that name a product configuration alone, and SPIR-V modules whose debug data is apart;
19, inlined calls in NVIDIA's line tables are those that are meant, and rows end where another function symbol begins of
which the debug data says nothing; 20, ``owner_start_file`` and ``owner_start_line``, where functions are declared;
functions of AMD code without instructions own no byte, bodies of OpenCL kernels are told from other inlined calls, and
AMD objects with SHT_REL, or addresses as index and offset, are not remembered as refused any more, and inlined calls
that are said to be the function around them have no name; 21, code whose object links to a debug file that is not here
is DEBUG_DATA_ELSEWHERE; programs with ELF images among their data alone, fat binaries of concatenated entries, cubins
of other ELF types, and compressed files are not remembered as refused any more; 22, code of a function symbol without
debug data of its own has no line where a row of the function in front is stretched over it; 23, lines of inline
assembly in LLVM's PTX are those of the call, and where clang's PTX, or SPIR-V of Slang, says nothing of inlined calls
the function is INFERRED; 24, where PTX is of a version that cannot tell of inlined calls the function is INFERRED too,
and not where NVIDIA's compilers label functions as LLVM does; the file of a row that NVIDIA's assembler left out is not
among what is written; a function whose definition leaves its file to its declaration has that file."""

LARGEST = 1 << 33
"""Bytes of a compressed column when it is opened: what states more is not believed."""
