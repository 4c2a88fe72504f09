"""Variables at one address: which are visible, of what type, and where each lives. Asked rarely, so nothing of it is in
an index: the debug sections are read when the question comes."""
