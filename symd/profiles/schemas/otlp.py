"""opentelemetry-proto v1.11.0: opentelemetry/proto/profiles/v1development/profiles.proto (the same at 7c63f7b8b69e),
common.proto and resource.proto. ``ProfilesData`` is also ExportProfilesServiceRequest."""

from __future__ import annotations

REVISION = "opentelemetry-proto v1.11.0"


class ProfilesData:
    resource_profiles, dictionary = 1, 2


class ProfilesDictionary:
    mapping_table, location_table, function_table, string_table, attribute_table, stack_table = 1, 2, 3, 5, 6, 7


class ResourceProfiles:
    resource, scope_profiles = 1, 2


class Resource:
    attributes = 1


class ScopeProfiles:
    profiles = 2


class Profile:
    sample_type, samples, time_unix_nano = 1, 2, 3


class ValueType:
    type_strindex, unit_strindex = 1, 2


class Sample:
    stack_index, attribute_indices, values, timestamps_unix_nano = 1, 2, 4, 5


class Stack:
    location_indices = 1


class Mapping:
    memory_start, memory_limit, file_offset, filename_strindex, attribute_indices = 1, 2, 3, 4, 5


class Location:
    mapping_index, address, lines, attribute_indices = 1, 2, 3, 4


class Line:
    function_index, line, column = 1, 2, 3


class Function:
    name_strindex, system_name_strindex, filename_strindex, start_line = 1, 2, 3, 4


class KeyValueAndUnit:
    key_strindex, value = 1, 2


class KeyValue:
    key, value = 1, 2


class AnyValue:
    string_value, int_value, string_value_strindex = 1, 3, 8
