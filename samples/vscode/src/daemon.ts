// What the extension asks a symd daemon, without a word of the editor: node runs it alone.
import { createHash } from "node:crypto";
import * as os from "node:os";
import * as path from "node:path";
import { credentials, type ServiceError } from "@grpc/grpc-js";
import { BreakpointServiceClient, type BreakpointLocation, type PathRule, Refusal } from "./gen/symd/v1/breakpoint_service.js";
import { ModuleServiceClient } from "./gen/symd/v1/module_service.js";
import { LineLevel } from "./gen/symd/v1/line_table.js";
import { SymbolServiceClient, type GetLineTableResponse } from "./gen/symd/v1/symbol_service.js";

const CHUNK = 1 << 20; // bytes of a module in one message (ServerInfo.max_chunk_bytes)
const END_SEQUENCE = 4; // LineRows.flags

/** A place where code of a source line begins: so many bytes into its section. */
export interface CodePlace {
  readonly function: string;
  readonly section: string;
  readonly offset: bigint;
}

/** The code of every line that has some: file as the compiler wrote it -> line -> places, in the order of the code. */
export type Lines = Map<string, Map<number, CodePlace[]>>;

/** The socket that `symd serve` makes where it is told none. */
export function defaultServer(): string {
  const runtime = process.env.XDG_RUNTIME_DIR;
  const cache = process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache");
  return `unix:${path.join(runtime ? path.join(runtime, "symd") : path.join(cache, "symd"), "symd.sock")}`;
}

export class Daemon {
  private readonly modules: ModuleServiceClient;
  private readonly symbols: SymbolServiceClient;
  private readonly breakpoints: BreakpointServiceClient;

  constructor(readonly server: string) {
    const options = { "grpc.default_authority": "localhost" };
    this.modules = new ModuleServiceClient(server, credentials.createInsecure(), options);
    this.symbols = new SymbolServiceClient(server, credentials.createInsecure(), options);
    this.breakpoints = new BreakpointServiceClient(server, credentials.createInsecure(), options);
  }

  close(): void {
    for (const each of [this.modules, this.symbols, this.breakpoints]) each.close();
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
  async lines(name: string): Promise<Lines> {
    const table = new LineTable();
    for await (const chunk of this.symbols.getLineTable({ module: name, codeObject: undefined, level: LineLevel.LINE_LEVEL_SOURCE, before: 0, after: 0 })) {
      table.take(chunk as GetLineTableResponse);
    }
    return table.lines;
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
  return new Promise((resolve, reject) => call((error, response) => (error ? reject(error) : resolve(response))));
}

/** A column as numbers: `count` unsigned little-endian integers of 1, 2, 4 or 8 bytes each; an empty one is zeros (LocationTable in location.proto). */
export function unpacked(column: Uint8Array, count: number): bigint[] {
  const bytes = Buffer.from(column.buffer, column.byteOffset, column.length);
  const width = count > 0 ? column.length / count : 0;
  const numbers = new Array<bigint>(count).fill(0n);
  if (width === 0) return numbers;
  return numbers.map((_, index) => (width === 8 ? bytes.readBigUInt64LE(index * 8) : BigInt(bytes.readUIntLE(index * width, width))));
}

/** Puts a line table together from the chunks of a stream: each table's strings and sections come before the rows that number them. */
class LineTable {
  readonly lines: Lines = new Map();
  private strings: string[] = [];
  private sections: string[] = [];
  private before = "";

  take(chunk: GetLineTableResponse): void {
    if (chunk.header) {
      this.strings = [];
      this.sections = [];
      this.before = "";
    }
    this.strings.push(...chunk.strings);
    this.sections.push(...chunk.textSections.map((each) => each.section ?? ""));
    const rows = chunk.rows;
    if (!rows) return;
    const [sections, offsets, functions, files, lines, flags] =
      [rows.textSection, rows.offset, rows.function, rows.file, rows.line, rows.flags].map((column) => unpacked(column, rows.count));
    for (let index = 0; index < rows.count; index++) {
      const file = this.strings[Number(files[index])];
      const place = { function: this.strings[Number(functions[index])], section: this.sections[Number(sections[index])], offset: offsets[index] };
      const ends = (Number(flags[index]) & END_SEQUENCE) !== 0 || lines[index] === 0n;
      const what = ends ? "" : `${place.section}\n${place.function}\n${file}\n${lines[index]}`;
      if (what && what !== this.before) this.at(file, Number(lines[index])).push(place);
      this.before = what; // rows of one line side by side are one place
    }
  }

  private at(file: string, line: number): CodePlace[] {
    let ofFile = this.lines.get(file);
    if (!ofFile) this.lines.set(file, (ofFile = new Map()));
    let places = ofFile.get(line);
    if (!places) ofFile.set(line, (places = []));
    return places;
  }
}
