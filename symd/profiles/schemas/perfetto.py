"""google/perfetto, protos/perfetto/trace, as in the Python package perfetto 0.59.1: trace_packet.proto,
interned_data/interned_data.proto, profiling/profile_common.proto and profile_packet.proto; profiling/stack_sample.proto
at ec5d16b1."""

from __future__ import annotations


class Trace:
    packet = 1


class TracePacket:
    clock_snapshot, timestamp, trusted_packet_sequence_id, interned_data, sequence_flags = 6, 8, 10, 12, 13
    trace_config, trace_stats, incremental_state_cleared, process_descriptor, compressed_packets = 33, 35, 41, 43, 50
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
