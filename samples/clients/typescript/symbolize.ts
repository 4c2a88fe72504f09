// Asks a daemon for the frames of one object address: node symbolize.js unix:/run/user/1000/symd/symd.sock SHA256 0x1b0
import { credentials } from "@grpc/grpc-js";
import { SymbolServiceClient } from "./gen/symd/v1/symbol_service.js";
import { SymbolizeRequest } from "./gen/symd/v1/symbol_service.js";

const [server, sha256, address] = process.argv.slice(2);
const client = new SymbolServiceClient(server, credentials.createInsecure(), { "grpc.default_authority": "localhost" });
const request = SymbolizeRequest.fromPartial({ module: `modules/${sha256}`, queries: [{ address: BigInt(address) }] });
client.symbolize(request, (error, response) => {
  if (error) throw error;
  for (const frame of response.answers[0].frames) console.log(`${frame.function} ${frame.file}:${frame.line}`);
  client.close();
});
