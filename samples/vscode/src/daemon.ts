// What the extension asks a symd daemon, without a word of the editor: node runs it alone.
import { createHash } from "node:crypto";
import * as os from "node:os";
import * as path from "node:path";
import { credentials, type ServiceError, status } from "@grpc/grpc-js";
import { BreakpointServiceClient, type BreakpointLocation, type PathRule, Refusal } from "./gen/symd/v1/breakpoint_service.js";
import type { Answer } from "./gen/symd/v1/answer.js";
import { GetListingRequest, type GetListingResponse, ListingServiceClient } from "./gen/symd/v1/listing_service.js";
import { LineLevel } from "./gen/symd/v1/line_table.js";
import { ModuleServiceClient } from "./gen/symd/v1/module_service.js";
import { Query } from "./gen/symd/v1/query.js";
import { type GetLineTableResponse, SymbolizeRequest, SymbolServiceClient } from "./gen/symd/v1/symbol_service.js";
import { type CodePlace, LineTable, unpacked } from "./line_table.js";

const CHUNK = 1 << 20; // bytes of a module in one message (ServerInfo.max_chunk_bytes)

/** The socket that `symd daemon start` makes where it is told none. */
export function defaultServer(): string {
  const runtime = process.env.XDG_RUNTIME_DIR;
  const cache = process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache");
  return `unix:${path.join(runtime ? path.join(runtime, "symd") : path.join(cache, "symd"), "symd.sock")}`;
}

/** One instruction: where it is in its section, and its text as the disassembler writes it. */
export interface Instruction {
  readonly offset: bigint;
  readonly text: string;
}

export class Daemon {
  private readonly modules: ModuleServiceClient;
  private readonly symbols: SymbolServiceClient;
  private readonly breakpoints: BreakpointServiceClient;
  private readonly listings: ListingServiceClient;

  constructor(readonly server: string) {
    const options = { "grpc.default_authority": "localhost" };
    this.modules = new ModuleServiceClient(server, credentials.createInsecure(), options);
    this.symbols = new SymbolServiceClient(server, credentials.createInsecure(), options);
    this.breakpoints = new BreakpointServiceClient(server, credentials.createInsecure(), options);
    this.listings = new ListingServiceClient(server, credentials.createInsecure(), options);
  }

  close(): void {
    for (const each of [this.modules, this.symbols, this.breakpoints, this.listings]) each.close();
  }

  /** Give the daemon a module that it may not have; its name there. */
  async add(bytes: Uint8Array, label: string): Promise<string> {
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const name = `modules/${sha256}`;
    const { missingModules } = await answer<{ missingModules: string[] }>((done) => this.modules.findMissingModules({ modules: [name] }, done));
    if (missingModules.length > 0) {
      await answer((done) => {
        const call = this.modules.uploadModule(done);
        call.write({ header: { sha256, sizeBytes: BigInt(bytes.length), label, withDescription: false } });
        for (let at = 0; at < bytes.length; at += CHUNK) call.write({ chunk: Buffer.from(bytes.subarray(at, at + CHUNK)) });
        call.end();
      });
    }
    return name;
  }

  /** The code of every source line of a module. */
  async lines(name: string): Promise<LineTable> {
    const table = new LineTable();
    for await (const chunk of this.symbols.getLineTable({ module: name, codeObject: undefined, level: LineLevel.LINE_LEVEL_SOURCE, before: 0, after: 0 })) {
      table.take(chunk as GetLineTableResponse);
    }
    return table;
  }

  /** The frames at a place such as "kernel+0x68", innermost first, or why there are none. */
  async symbolize(name: string, place: string): Promise<Answer> {
    const request = SymbolizeRequest.fromPartial({ module: name, queries: [query(place)] });
    const { answers } = await answer<{ answers: Answer[] }>((done) => this.symbols.symbolize(request, done));
    return answers[0];
  }

  /** The instructions of a run of code. */
  async instructions(name: string, place: CodePlace): Promise<Instruction[]> {
    if (place.end <= place.offset) return [];
    const sectionRange = { sectionIndex: place.sectionIndex, start: place.offset, end: place.end };
    const found: Instruction[] = [];
    for await (const each of this.listings.getListing(GetListingRequest.fromPartial({ module: name, codeObject: place.object, sectionRange }))) {
      const { header, rows } = each as GetListingResponse;
      if (header?.problem) throw new Error(header.problem);
      const offsets = unpacked(rows?.answers?.offset ?? new Uint8Array(), rows?.texts.length ?? 0);
      found.push(...offsets.map((offset, index) => ({ offset, text: rows?.texts[index] ?? "" })));
    }
    return found;
  }

  /** Where a breakpoint at a line lands in a module, or why it cannot be set. */
  async breakpoint(name: string, file: string, line: number, pathRules: PathRule[] = []): Promise<BreakpointLocation[] | string> {
    const locations: BreakpointLocation[] = [];
    let pageToken = "";
    do {
      const breakpoint = { line: { file, line, column: 0 }, codeObject: undefined, targets: [], everyAddress: false, pathRules };
      const page = await answer<{ locations: BreakpointLocation[]; refusal?: { refusal: Refusal; lastLine: number }; nextPageToken: string }>(
        (done) => this.breakpoints.resolveBreakpoint({ module: name, breakpoint, pageSize: 0, pageToken, context: "" }, done));
      if (page.refusal) return refusalText(page.refusal.refusal, page.refusal.lastLine);
      locations.push(...page.locations);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return locations;
  }
}

/** A place as `symd symbolize` takes it: an address, "kernel", "kernel+0x68", "(.text)+0x68" or "(#4)+0x68". */
function query(place: string): Query {
  const [, target, offset] = /^(?:(.*)\+)?(0x[0-9a-f]+|\d+)$/i.exec(place.trim()) ?? [];
  if (offset === undefined) return Query.fromPartial({ functionOffset: { function: place.trim(), offset: 0n } });
  if (target === undefined) return Query.fromPartial({ address: BigInt(offset) });
  const [, index, section] = /^\((?:#(\d+)|(.+))\)$/.exec(target) ?? [];
  if (index) return Query.fromPartial({ sectionOffset: { sectionIndex: Number(index), offset: BigInt(offset) } });
  if (section) return Query.fromPartial({ sectionOffset: { sectionName: section, offset: BigInt(offset) } });
  return Query.fromPartial({ functionOffset: { function: target, offset: BigInt(offset) } });
}

function refusalText(refusal: Refusal, lastLine: number): string {
  switch (refusal) {
    case Refusal.REFUSAL_NO_SUCH_FILE: return "the module has no such file";
    case Refusal.REFUSAL_AMBIGUOUS_FILE: return "several files of the module have this name";
    case Refusal.REFUSAL_NO_CODE_AT_LINE: return "no code at this line";
    case Refusal.REFUSAL_PAST_END: return `the last line with code is ${lastLine}`;
    case Refusal.REFUSAL_CONTRADICTORY: return "the debug data contradicts itself there";
    default: return "no breakpoint here";
  }
}

/** A call that has one answer, as a promise. */
function answer<Response>(call: (done: (error: ServiceError | null, response: Response) => void) => void): Promise<Response> {
  return new Promise((resolve, reject) => call((error, response) => (error ? reject(new Error(sentence(error))) : resolve(response))));
}

function sentence(error: ServiceError): string {
  return error.code === status.UNAVAILABLE ? `no daemon answers; \`symd daemon start\` starts one (${error.details})` : error.details;
}
