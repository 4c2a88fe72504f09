// A profiler: where a million samples over all kernels of some modules are, in one request by kernel and in one by device address.
//
//     profiler unix:/run/user/1000/symd/symd.sock 1000000 v4-gfx900.co nested-14.co
//
// Sample i is in kernel (r >> 33) % kernels, at byte (r >> 13) % size of it, where r follows the generator below.
#include <grpcpp/grpcpp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "symd/v1/context_service.grpc.pb.h"
#include "symd/v1/module_service.grpc.pb.h"
#include "symd/v1/symbol_service.grpc.pb.h"

using namespace symd::v1;

// What every client writes: failures, the upload, packed arrays. A big-endian machine would swap the bytes of numbers.
void demand(const grpc::Status &status) {
    if (!status.ok()) std::cerr << status.error_message() << "\n", std::exit(1);
}

std::string upload(ModuleService::Stub &modules, const std::string &file) {
    std::ifstream stream(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(stream), {}), sha256;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size(), digest);
    for (unsigned char each : digest) sha256 += {"0123456789abcdef"[each >> 4], "0123456789abcdef"[each & 15]};
    grpc::ClientContext call;
    UploadModuleResponse response;
    auto writer = modules.UploadModule(&call, &response);
    UploadModuleRequest part;
    part.mutable_header()->set_sha256(sha256), part.mutable_header()->set_size_bytes(bytes.size());
    for (size_t at = 0; writer->Write(part) && at < bytes.size(); at += 1 << 20) part.set_chunk(bytes.substr(at, 1 << 20));
    writer->WritesDone(), demand(writer->Finish());
    return response.module().name();
}

uint64_t number(const std::string &packed, size_t count, size_t index) {
    const size_t width = packed.size() / count;  // 0: all are zero
    uint64_t result = 0;
    return std::memcpy(&result, packed.data() + index * width, width), result;
}

// One request, and the samples of each line: its innermost frame, with the reason where the line is not certain.
void profile(SymbolService::Stub &symbols, const char *title, const SymbolizeRequest &request) {
    const auto start = std::chrono::steady_clock::now();
    grpc::ClientContext call;
    SymbolizeResponse response;
    demand(symbols.Symbolize(&call, request, &response));
    const auto &answers = response.packed_answers();
    const auto &table = answers.locations();
    std::vector<uint64_t> samples(table.count());
    for (size_t i = 0; i < answers.count(); ++i) ++samples[number(answers.location(), answers.count(), i)];
    std::map<std::string, uint64_t> lines;
    for (size_t i = 0; i < samples.size(); ++i) {
        if (!samples[i]) continue;
        const auto text = [&](const std::string &column) { return table.strings(number(column, table.count(), i)); };
        const auto reason = static_cast<Reason>(number(table.reason(), table.count(), i));
        const auto line = number(table.line(), table.count(), i);
        auto name = text(table.function()) + (line ? " " + text(table.file()) + ":" + std::to_string(line) : "");
        lines[reason == REASON_EXACT ? name : name + " " + Reason_Name(reason)] += samples[i];
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << title << ": " << answers.count() << " samples, " << answers.count() / seconds.count() / 1e6
              << " M samples/s, " << response.ByteSizeLong() << " bytes back\n";
    std::vector<std::pair<std::string, uint64_t>> sorted(lines.begin(), lines.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](auto &one, auto &other) { return one.second > other.second; });
    for (size_t i = 0; i < std::min<size_t>(10, sorted.size()); ++i)
        std::cout << sorted[i].second << " " << sorted[i].first << "\n";
}

int main(int argc, char **argv) {
    if (argc < 4) return std::cerr << "usage: profiler SERVER SAMPLES MODULE...\n", 2;
    grpc::ChannelArguments options;
    // Over a Unix socket gRPC would send the path as authority. Answers for millions of samples are more than its usual 4 MiB.
    options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost"), options.SetMaxReceiveMessageSize(-1);
    auto channel = grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), options);
    auto modules = ModuleService::NewStub(channel);
    auto contexts = ContextService::NewStub(channel);
    auto symbols = SymbolService::NewStub(channel);

    // All kernels of all modules, and a load that has each of them at a device address of its own.
    SymbolizeRequest by_kernel, by_address;
    auto &kernels = *by_kernel.mutable_packed_queries();
    RecordEventsRequest events;
    std::vector<uint64_t> sizes, bases;
    uint64_t next = 0x100000000;
    for (int i = 3; i < argc; ++i) {
        const auto module = upload(*modules, argv[i]);
        auto &load = *events.add_events()->mutable_load();
        load.set_module(module), load.set_time_ns(1);
        ListKernelsRequest request;
        request.set_module(module), request.set_facts_as_json(true);
        do {
            grpc::ClientContext call;
            ListKernelsResponse page;
            demand(modules->ListKernels(&call, request, &page));
            for (const auto &kernel : page.kernels()) {
                if (!kernel.size_bytes()) continue;
                auto &origin = *kernels.add_origins();
                origin.set_module(module), origin.set_code_object(kernel.code_object()), origin.set_function(kernel.name());
                auto &segment = *load.add_segments();
                segment.set_address(next), segment.set_size_bytes(kernel.size_bytes()), segment.set_code_object(kernel.code_object());
                segment.mutable_start()->mutable_function_offset()->set_function(kernel.name());
                sizes.push_back(kernel.size_bytes()), bases.push_back(next);
                next += (kernel.size_bytes() + 0xfff) & ~0xfffull;
            }
            request.set_page_token(page.next_page_token());
        } while (!request.page_token().empty());
    }
    if (sizes.empty()) return std::cerr << "these modules have no kernel whose size is known\n", 1;
    CreateContextRequest create;
    create.mutable_context()->set_host("profiler"), create.mutable_context()->set_clock("none");
    (*create.mutable_context()->mutable_attributes())["start"] = std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
    CreateContextResponse created;
    RecordEventsResponse recorded;
    grpc::ClientContext creating, recording;
    demand(contexts->CreateContext(&creating, create, &created));
    events.set_context(created.context().name());
    demand(contexts->RecordEvents(&recording, events, &recorded));

    std::vector<uint32_t> offsets, origin;
    std::vector<uint64_t> addresses;
    uint64_t random = 1;
    for (int64_t i = 0; i < std::stoll(argv[2]); ++i) {
        random = random * 6364136223846793005 + 1442695040888963407;
        origin.push_back((random >> 33) % sizes.size());
        offsets.push_back((random >> 13) % sizes[origin.back()]);
        addresses.push_back(bases[origin.back()] + offsets.back());
    }
    kernels.set_count(offsets.size());
    kernels.set_values(offsets.data(), offsets.size() * sizeof(uint32_t)), kernels.set_origin(origin.data(), origin.size() * sizeof(uint32_t));
    auto &device = *by_address.mutable_packed_queries();
    device.set_count(addresses.size()), device.set_values(addresses.data(), addresses.size() * sizeof(uint64_t));
    device.add_origins()->set_context(events.context());
    profile(*symbols, "by kernel", by_kernel);
    profile(*symbols, "by device address", by_address);
}
