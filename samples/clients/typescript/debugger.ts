// A debugger's back end: a breakpoint that waits for its module, one stop, a step over, an unload; all of a running daemon.
//
//     symd serve --source-root samples/amdgpu/src --map /src= &
//     node debugger.js unix:/run/user/1000/symd/symd.sock v4-gfx900.co v4-gfx1035.co shade.cl:21 [STOPS]
//
// No device is at hand: the two loads are told as a driver would report them, and the thread stops where the breakpoint is. Its
// caller is a frame in the other module, so that the stack has two.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { Readable, type Writable } from "node:stream";
import { credentials, type ServiceError } from "@grpc/grpc-js";
import type { Answer } from "./gen/symd/v1/answer.js";
import { BreakpointServiceClient, WatchRequest, type WatchResponse } from "./gen/symd/v1/breakpoint_service.js";
import {
  ContextServiceClient, CreateContextRequest, type CreateContextResponse, RecordEventsRequest, type RecordEventsResponse,
} from "./gen/symd/v1/context_service.js";
import type { SectionRange } from "./gen/symd/v1/line_table.js";
import type { Frame } from "./gen/symd/v1/location.js";
import { GetListingRequest, ListingServiceClient, ReadSourcesRequest } from "./gen/symd/v1/listing_service.js";
import { ModuleServiceClient, UploadModuleRequest, type UploadModuleResponse } from "./gen/symd/v1/module_service.js";
import { SymbolizeRequest, type SymbolizeResponse, SymbolServiceClient } from "./gen/symd/v1/symbol_service.js";
import { GetVariablesRequest, type GetVariablesResponse, VariableServiceClient } from "./gen/symd/v1/variable_service.js";

const [server, first, second, place, stops = "1"] = process.argv.slice(2);
if (!place) throw new Error("usage: debugger SERVER MODULE MODULE FILE:LINE [STOPS]");

// What every client writes: channel, promises, upload, packed arrays.
const channel = [server, credentials.createInsecure(), { "grpc.default_authority": "localhost" }] as const;
const ask = <A>(call: (done: (error: ServiceError | null, answer: A) => void) => unknown) =>
  new Promise<A>((resolve, reject) => call((error, answer) => (error ? reject(error) : resolve(answer))));
async function upload(file: string): Promise<string> {
  const bytes = readFileSync(file), header = { sha256: createHash("sha256").update(bytes).digest("hex"), sizeBytes: BigInt(bytes.length), label: file };
  const parts = [{ header }, ...Array.from({ length: Math.ceil(bytes.length / 2 ** 20) }, (_, i) => ({ chunk: bytes.subarray(i * 2 ** 20, (i + 1) * 2 ** 20) }))];
  return (await ask<UploadModuleResponse>((done) => Readable.from(parts.map((each) => UploadModuleRequest.fromPartial(each))).pipe(modules.uploadModule(done) as unknown as Writable))).module!.name;
}
const unpack = (packed: Uint8Array, count: number) => // little-endian integers, of whatever width
  Array.from({ length: count }, (_, i) => packed.subarray((i * packed.length) / count, ((i + 1) * packed.length) / count).reduceRight((high, byte) => high * 256 + byte, 0));

const breakpoints = new BreakpointServiceClient(...channel), contexts = new ContextServiceClient(...channel);
const listings = new ListingServiceClient(...channel), modules = new ModuleServiceClient(...channel);
const symbols = new SymbolServiceClient(...channel), variables = new VariableServiceClient(...channel);
const hex = (number: bigint) => `0x${number.toString(16)}`;
const described = (frame: Frame) => `${frame.function} ${frame.file}:${frame.line}${frame.inlined ? " (inlined)" : ""}`;

const context = (await ask<CreateContextResponse>((done) => contexts.createContext(CreateContextRequest.fromPartial({
  context: { host: "sample", process: BigInt(process.pid), device: "0", clock: "none", attributes: { start: `${Date.now()}` } },
}), done))).context!.name;

// The breakpoint waits: it is added while nothing is loaded in the debugger's context.
const watch = breakpoints.watch(), events = watch[Symbol.asyncIterator]() as AsyncIterator<WatchResponse>;
const [file, line] = place.split(":");
watch.write(WatchRequest.fromPartial({ start: { contexts: [context] } }));
watch.write(WatchRequest.fromPartial({ change: { add: [{ id: "1", breakpoint: { line: { file, line: Number(line) } } }] } }));
// Prints events until one is as wanted, and gives that one.
async function until(wanted: (event: WatchResponse) => unknown): Promise<WatchResponse> {
  for (;;) {
    const event = (await events.next()).value as WatchResponse, of = event.answer ?? event.gone;
    if (of) console.log(event.gone ? "gone" : "breakpoint", of.id, of.load?.load?.key, ...of.locations.map((each) => `${each.function} ${each.file}:${each.line} at ${each.deviceAddresses.map(hex)}`));
    else console.log(event.watching ? "watching" : event.acknowledged ? "acknowledged" : event.loaded ? `loaded ${event.loaded.load?.key}` : `unloaded ${event.unloaded?.load?.key}`);
    if (event.acknowledged?.failure) throw new Error(event.acknowledged.failure.message);
    if (wanted(event)) return event;
  }
}
await until((event) => event.acknowledged);

// The program loads its modules.
const names = await Promise.all([first, second].map(upload));
const loads = names.map((module, i) => ({ load: { module, timeNs: 10n, key: `load ${i + 1}`, loadBase: BigInt(i + 1) << 32n } }));
await ask<RecordEventsResponse>((done) => contexts.recordEvents(RecordEventsRequest.fromPartial({ context, events: loads }), done));
const hits: bigint[] = [];
let told = 0;
await until((event) => { // a message with a token is the last of its event
  if (event.loaded) ++told;
  if (event.answer?.locations.length) hits.push(event.answer.locations[0].deviceAddresses[0]);
  return told === loads.length && event.resumeToken;
});
if (!hits.length) throw new Error(`${place} has no code in these modules`);
const pc = hits[0], caller = hits.at(-1)!;

// One stop in three messages. A return address is behind the call: one less is in it.
const query = (address: bigint) => ({ deviceAddress: { context, address } });
async function stop(address: bigint, returns: bigint[]) {
  const request = GetVariablesRequest.fromPartial({ queries: [address, ...returns.map((each) => each - 1n)].map(query), withRanges: true });
  const { places } = await ask<GetVariablesResponse>((done) => variables.getVariables(request, done));
  const printed: string[] = [];
  for (const { answer, variables } of places)
    answer!.frames.forEach((frame, depth) => {
      printed.push(`# ${described(frame)}`);
      for (const each of variables.filter((variable) => variable.frame === depth)) printed.push(`  ${each.type} ${each.name} = ${each.locationText ?? (each.live.length ? "not here" : "optimized out")}`);
    });
  const around = GetListingRequest.fromPartial({ around: query(address), before: 2, after: 2 });
  for await (const { rows } of listings.getListing(around))
    unpack(rows?.answers?.offset ?? Buffer.of(), rows?.texts.length ?? 0).forEach((offset, i) => printed.push(`${BigInt(offset) === places[0].answer!.sectionOffset ? "=>" : "  "} ${rows!.texts[i]}`));
  const top = places[0].answer!.frames[0], chunks: Uint8Array[] = [];
  const sources = ReadSourcesRequest.fromPartial({ module: places[0].answer!.module, files: [top.file ?? ""] });
  for await (const { chunk } of listings.readSources(sources)) chunks.push(chunk);
  printed.push(`${top.line}: ${Buffer.concat(chunks).toString().split("\n")[top.line - 1] ?? "(no source)"}`);
  return { answer: places[0].answer!, printed };
}
const times: number[] = [];
let stopped = await stop(pc, [caller + 4n]);
for (let i = 0; i < Number(stops); ++i) {
  const start = performance.now();
  stopped = await stop(pc, [caller + 4n]);
  times.push(performance.now() - start);
}
console.log(stopped.printed.join("\n"));
console.error(`a stop: 3 messages, ${times.sort((a, b) => a - b)[times.length >> 1].toFixed(1)} ms (median of ${times.length})`);

// Step over: row after row, past what is inlined into the frame, until its line is another one or its code ends. A debugger also stops where branches lead.
const holding = (code: SectionRange[], offset: bigint) => code.find((each) => each.start <= offset && offset < each.end);
async function over(start: Answer, base: bigint): Promise<Answer | undefined> {
  const depth = start.frames.length, own = start.frames[0].code;
  for (let next = start.row?.end; next !== undefined; ) {
    const request = SymbolizeRequest.fromPartial({ queries: [query(base + next)], withRanges: true });
    const [found] = (await ask<SymbolizeResponse>((done) => symbols.symbolize(request, done))).answers;
    const frame = found.frames.at(-depth), inner = holding(found.frames.at(-depth - 1)?.code ?? [], next);
    if (!holding(own, next)) return found; // out of the function, or of the inlined call
    if (frame?.line && frame.line !== start.frames[0].line) return { ...found, frames: found.frames.slice(-depth) }; // also at the call of what is inlined here
    next = inner?.end ?? found.row?.end;
  }
}
const stepped = await over(stopped.answer, pc - stopped.answer.sectionOffset!);
console.log(stepped ? `step over to ${hex(stepped.deviceAddress!)} ${described(stepped.frames[0])}` : "no row says where the step ends");

// The program unloads the first module: the watch says so, and that the breakpoint is gone from there.
const unload = { unload: { key: "load 1", timeNs: 20n } };
await ask<RecordEventsResponse>((done) => contexts.recordEvents(RecordEventsRequest.fromPartial({ context, events: [unload] }), done));
await until((event) => event.gone);
watch.cancel();
for (const client of [breakpoints, contexts, listings, modules, symbols, variables]) client.close();
