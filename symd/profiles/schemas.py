"""Field numbers of others' protocol buffers: for each format a class, in it one for each message, with the numbers of
its fields by the names that its .proto file gives them."""

from __future__ import annotations


class Otlp:
    """opentelemetry-proto v1.11.0: opentelemetry/proto/profiles/v1development/profiles.proto (the same at
    7c63f7b8b69e), common.proto and resource.proto. ``ProfilesData`` is also ExportProfilesServiceRequest."""

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


class Perfetto:
    """google/perfetto, protos/perfetto/trace, as in the Python package perfetto 0.59.1: trace_packet.proto,
    interned_data/interned_data.proto, profiling/profile_common.proto and profile_packet.proto;
    profiling/stack_sample.proto at ec5d16b1."""

    class Trace:
        packet = 1

    class TracePacket:
        clock_snapshot, timestamp, trusted_packet_sequence_id, interned_data, sequence_flags = 6, 8, 10, 12, 13
        trace_config, trace_stats, incremental_state_cleared, process_descriptor, compressed_packets = (
            33,
            35,
            41,
            43,
            50,
        )
        trace_packet_defaults, module_symbols, perf_sample, first_packet_on_sequence = 59, 61, 66, 87
        zstd_compressed_packets, stack_sample = 133, 135

    class SequenceFlags:
        """Values, not fields: TracePacket.SequenceFlags."""

        incremental_state_cleared, needs_incremental_state = 1, 2

    class InternedData:
        function_names, frames, callstacks, build_ids, mapping_paths, source_paths, mappings = 5, 6, 7, 16, 17, 18, 19
        stack_sample_counter_descriptors = 50

    class InternedString:
        iid, str = 1, 2

    class Frame:
        iid, function_name_id, mapping_id, rel_pc, source_path_iid, line_number = 1, 2, 3, 4, 5, 6

    class Callstack:
        iid, frame_ids = 1, 2

    class Mapping:
        iid, build_id, start_offset, start, end, load_bias, path_string_ids, exact_offset = 1, 2, 3, 4, 5, 6, 7, 8

    class ModuleSymbols:
        path, build_id, address_symbols = 1, 2, 3

    class AddressSymbols:
        address, lines = 1, 2

    class Line:
        function_name, source_file_name, line_number = 1, 2, 3

    class StackSample:
        task_context, callstack, callstack_iid = 1, 5, 6
        primary_descriptor, primary_descriptor_iid, primary_weight = 9, 10, 11
        follower_descriptors, follower_descriptor_iids, follower_weights = 12, 13, 14

        class TaskContext:
            pid, tid = 2, 3

        class CounterDescriptor:
            name, unit, unit_str = 2, 3, 4

    class InlineCallstack:
        frames = 1

        class Frame:
            function_name, source_file, line_number = 1, 2, 3

    class TracePacketDefaults:
        stack_sample_defaults = 100

    class StackSampleDefaults:
        source, primary_descriptor, follower_descriptors = 1, 2, 3

    class PerfSample:
        pid, tid, callstack_iid = 2, 3, 4

    class ProcessDescriptor:
        pid, process_name = 1, 6


class Pprof:
    """github.com/google/pprof, proto/profile.proto, at revision b9395ee17fa0."""

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
