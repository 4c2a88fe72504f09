// Asks a daemon for the frames of one object address: node symbolize.js unix:/run/user/1000/symd/symd.sock SHA256 0x1b0
import { credentials, type ServiceError } from "@grpc/grpc-js";
import { ErrorInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import { SymbolServiceClient } from "./gen/symd/v1/symbol_service.js";
import { SymbolizeRequest } from "./gen/symd/v1/symbol_service.js";

// The reason for which a call failed, such as UNKNOWN_MODULE: programs tell failures apart by it, not by the message.
function reason(error: ServiceError): string {
  for (const packed of error.metadata.get("grpc-status-details-bin")) {
    for (const detail of Status.decode(packed as Buffer).details) {
      if (!detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) continue;
      const info = ErrorInfo.decode(detail.value);
      if (info.domain === "symd") return info.reason;
    }
  }
  return "no reason of symd"; // gRPC itself failed: nobody answers at that address
}

const [server, sha256, address] = process.argv.slice(2);
const client = new SymbolServiceClient(server, credentials.createInsecure(), { "grpc.default_authority": "localhost" });
const request = SymbolizeRequest.fromPartial({ module: `modules/${sha256}`, queries: [{ address: BigInt(address) }] });
client.symbolize(request, (error, response) => {
  if (error) {
    console.error(`${reason(error)}: ${error.details}`);
    process.exit(1);
  }
  for (const frame of response.answers[0].frames) console.log(`${frame.function} ${frame.file}:${frame.line}`);
  client.close();
});
