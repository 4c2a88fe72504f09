// The module that the editor shows, with its profile if there is one, and where its files are on this machine.
import * as path from "node:path";
import * as vscode from "vscode";
import { Daemon, defaultServer } from "./daemon.js";
import type { CodePlace, LineTable } from "./line_table.js";
import { type Heat, type HotLines, hotLines } from "./profile.js";

/** One open module. */
export interface Shown {
  readonly daemon: Daemon;
  readonly name: string;
  readonly file: string;
  readonly table: LineTable;
  hot: HotLines;
}

/** What is known of an open document: its path as the compiler wrote it, and its lines. */
export interface ShownFile {
  readonly file: string;
  readonly lines: ReadonlyMap<number, readonly CodePlace[]>;
  readonly hot: ReadonlyMap<number, Heat>;
}

let current: Shown | undefined;
const changed = new vscode.EventEmitter<void>();
export const onDidChangeModule = changed.event;

export function shown(): Shown | undefined {
  return current;
}

/** Ask for a module and show it. Undefined: nobody chose one, or it cannot be read, which was said. */
export async function openModule(): Promise<Shown | undefined> {
  const chosen = await choose("A GPU module");
  if (!chosen) return undefined;
  const daemon = new Daemon(settings().get<string>("server") || defaultServer());
  try {
    const name = await daemon.add(await vscode.workspace.fs.readFile(chosen), path.basename(chosen.fsPath));
    show({ daemon, name, file: chosen.fsPath, table: await daemon.lines(name), hot: new Map() });
    return current;
  } catch (error) {
    daemon.close();
    complain(error);
    return undefined;
  }
}

/** Ask for a profile and show its hot lines in the module, which is asked for too if there is none. */
export async function openProfile(): Promise<void> {
  const module = current ?? (await openModule());
  const chosen = module && (await choose("A GPU profile"));
  if (!chosen) return;
  try {
    module.hot = await hotLines(python(), module.daemon.server, module.name, chosen.fsPath);
    changed.fire();
  } catch (error) {
    complain(error);
  }
}

export function closeModule(): void {
  show(undefined);
}

function show(module: Shown | undefined): void {
  current?.daemon.close();
  current = module;
  changed.fire();
}

async function choose(title: string): Promise<vscode.Uri | undefined> {
  return (await vscode.window.showOpenDialog({ title, canSelectMany: false }))?.[0];
}

/** The file of the module that a document is. */
export function shownFile(document: vscode.TextDocument): ShownFile | undefined {
  if (!current) return undefined;
  for (const [file, lines] of current.table.lines) {
    if ([file, localPath(file)].some((each) => path.resolve(each) === document.uri.fsPath)) {
      return { file, lines, hot: current.hot.get(file) ?? new Map<number, Heat>() };
    }
  }
  return undefined;
}

/** Where a file that the compiler named is here, after the first rule that fits. */
export function localPath(file: string): string {
  for (const [from, to] of Object.entries(pathRules())) {
    const folder = from.replace(/\/*$/, "/");
    if (file.startsWith(folder)) return path.join(to, file.slice(folder.length));
  }
  return file;
}

export function pathRules(): Record<string, string> {
  return settings().get<Record<string, string>>("pathRules") ?? {};
}

/** The Python that has symd. */
export function python(): string {
  return settings().get<string>("python") || "python3";
}

export function complain(error: unknown): void {
  void vscode.window.showErrorMessage(`symd: ${error instanceof Error ? error.message : String(error)}`);
}

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("symd");
}
