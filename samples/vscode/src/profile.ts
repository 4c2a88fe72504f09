// The hot lines of a profile, as `symd hot` says: the daemon has no call for profiles, which are files of this machine.
import { execFile } from "node:child_process";

/** What a profile says of one source line. */
export interface Heat {
  /** From 0 to 1, of the whole profile. */
  share: number;
  value: number;
  readonly unit: string;
  /** Other columns, such as stall reasons: name -> value. */
  readonly values: Map<string, number>;
}

/** File as the compiler wrote it -> line -> heat. */
export type HotLines = Map<string, Map<number, Heat>>;

interface Row {
  readonly share: number;
  readonly value: number;
  readonly unit: string;
  readonly file: string | null;
  readonly line: number;
  readonly values: Record<string, number>;
}

/** Ask the symd of a Python, which asks the daemon for the module's lines. */
export function hotLines(python: string, server: string, module: string, profile: string): Promise<HotLines> {
  const command = ["-m", "symd", "hot", "--json", "--top", "0", "--server", server, "--module", module, profile];
  return new Promise((resolve, reject) =>
    execFile(python, command, { maxBuffer: 256 << 20 }, (error, printed, said) =>
      error ? reject(new Error(said.trim() || error.message)) : resolve(byLine(printed))));
}

function byLine(printed: string): HotLines {
  const hot: HotLines = new Map();
  for (const text of printed.split("\n").filter(Boolean)) {
    const row = JSON.parse(text) as Row;
    if (row.file === null || !row.line) continue;
    let ofFile = hot.get(row.file);
    if (!ofFile) hot.set(row.file, (ofFile = new Map()));
    const heat = ofFile.get(row.line) ?? { share: 0, value: 0, unit: row.unit, values: new Map<string, number>() };
    heat.share += row.share; // a line that was inlined at several places has a row for each
    heat.value += row.value;
    for (const [name, value] of Object.entries(row.values)) heat.values.set(name, (heat.values.get(name) ?? 0) + value);
    ofFile.set(row.line, heat);
  }
  return hot;
}
