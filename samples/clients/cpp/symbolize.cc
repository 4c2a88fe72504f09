// Asks a daemon for the frames of one object address: symbolize unix:/run/user/1000/symd/symd.sock SHA256 0x1b0
#include <grpcpp/grpcpp.h>

#include <iostream>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "symd/v1/symbol_service.grpc.pb.h"

// The reason for which a call failed, such as UNKNOWN_MODULE: programs tell failures apart by it, not by the message.
std::string reason(const grpc::Status &failed) {
    google::rpc::Status status;
    status.ParseFromString(failed.error_details());
    google::rpc::ErrorInfo info;
    for (const auto &detail : status.details())
        if (detail.UnpackTo(&info) && info.domain() == "symd") return info.reason();
    return "no reason of symd";  // gRPC itself failed: nobody answers at that address
}

int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "usage: symbolize SERVER SHA256 ADDRESS (symd info --server SERVER FILE brings a module there, and says its SHA-256)\n";
        return 2;
    }
    grpc::ChannelArguments options;
    options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");  // over a Unix socket gRPC would send the path
    auto stub = symd::v1::SymbolService::NewStub(
        grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), options));
    symd::v1::SymbolizeRequest request;
    request.set_module(std::string("modules/") + argv[2]);
    request.add_queries()->set_address(std::stoull(argv[3], nullptr, 0));
    symd::v1::SymbolizeResponse response;
    grpc::ClientContext context;
    if (auto status = stub->Symbolize(&context, request, &response); !status.ok()) {
        std::cerr << reason(status) << ": " << status.error_message() << "\n";
        return 1;
    }
    const auto &answer = response.answers(0);
    for (const auto &frame : answer.frames())
        std::cout << frame.function() << " " << frame.file() << ":" << frame.line() << "\n";
    if (answer.frames().empty())
        std::cout << symd::v1::Reason_Name(answer.reason()) << "\n";
}
