"""github.com/google/pprof, proto/profile.proto, at revision b9395ee17fa0."""

from __future__ import annotations


class Profile:
    sample_type, sample, mapping, location, function, string_table = 1, 2, 3, 4, 5, 6
    drop_frames, keep_frames, time_nanos, duration_nanos, period_type, period = 7, 8, 9, 10, 11, 12
    comment, default_sample_type, doc_url = 13, 14, 15


class ValueType:
    type, unit = 1, 2


class Sample:
    location_id, value, label = 1, 2, 3


class Label:
    key, str, num, num_unit = 1, 2, 3, 4


class Mapping:
    id, memory_start, memory_limit, file_offset, filename, build_id = 1, 2, 3, 4, 5, 6
    has_functions, has_filenames, has_line_numbers, has_inline_frames = 7, 8, 9, 10


class Location:
    id, mapping_id, address, line, is_folded = 1, 2, 3, 4, 5


class Line:
    function_id, line, column = 1, 2, 3


class Function:
    id, name, system_name, filename, start_line = 1, 2, 3, 4, 5
