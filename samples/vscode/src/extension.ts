// Binds the daemon's answers to the editor: where the code of a line is behind the line, all of its places on hover, and behind each breakpoint
// where it lands.
import * as path from "node:path";
import * as vscode from "vscode";
import { type CodePlace, Daemon, defaultServer, type Lines } from "./daemon.js";
import { breakpointText, hoverText, lineText } from "./words.js";

const code = vscode.window.createTextEditorDecorationType({
  isWholeLine: true,
  after: { margin: "0 0 0 2em", color: new vscode.ThemeColor("editorCodeLens.foreground") },
  overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.infoForeground"),
});
const stops = vscode.window.createTextEditorDecorationType({
  after: { margin: "0 0 0 2em", color: new vscode.ThemeColor("debugIcon.breakpointForeground") },
});

interface Shown {
  readonly daemon: Daemon;
  readonly name: string;
  readonly lines: Lines;
}

let shown: Shown | undefined;

export function activate(context: vscode.ExtensionContext): void {
  context.subscriptions.push(
    vscode.commands.registerCommand("symd.openModule", openModule),
    vscode.commands.registerCommand("symd.closeModule", () => show(undefined)),
    vscode.window.onDidChangeVisibleTextEditors(drawAll),
    vscode.debug.onDidChangeBreakpoints(drawAll),
    code,
    stops,
  );
}

export function deactivate(): void {
  shown?.daemon.close();
  shown = undefined;
}

async function openModule(): Promise<void> {
  const [chosen] = (await vscode.window.showOpenDialog({ title: "A GPU module", canSelectMany: false })) ?? [];
  if (!chosen) return;
  const daemon = new Daemon(settings().get<string>("server") || defaultServer());
  try {
    const name = await daemon.add(await vscode.workspace.fs.readFile(chosen), path.basename(chosen.fsPath));
    show({ daemon, name, lines: await daemon.lines(name) });
  } catch (error) {
    daemon.close();
    void vscode.window.showErrorMessage(`symd: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function show(module: Shown | undefined): void {
  shown?.daemon.close();
  shown = module;
  drawAll();
}

function drawAll(): void {
  for (const editor of vscode.window.visibleTextEditors) void draw(editor);
}

async function draw(editor: vscode.TextEditor): Promise<void> {
  const module = shown;
  const found = module && linesOf(module.lines, editor.document.uri.fsPath);
  if (!module || !found) {
    editor.setDecorations(code, []);
    editor.setDecorations(stops, []);
    return;
  }
  const there = [...found.lines].filter(([line]) => line <= editor.document.lineCount);
  editor.setDecorations(code, there.map(([line, places]) => decoration(editor.document, line, lineText(places), places)));
  const marks = ownBreakpoints(editor.document).map(async (line) =>
    decoration(editor.document, line, breakpointText(await module.daemon.breakpoint(module.name, found.file, line))));
  try {
    const drawn = await Promise.all(marks);
    if (module === shown) editor.setDecorations(stops, drawn);
  } catch (error) {
    void vscode.window.showErrorMessage(`symd: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The lines of the module's file that is open in the editor: under its own path or that of a rule. */
function linesOf(lines: Lines, open: string): { file: string; lines: Map<number, CodePlace[]> } | undefined {
  const rules = Object.entries(settings().get<Record<string, string>>("pathRules") ?? {});
  for (const [file, ofFile] of lines) {
    const names = [file, ...rules.filter(([from]) => file.startsWith(from)).map(([from, to]) => to + file.slice(from.length))];
    if (names.some((name) => path.resolve(name) === open)) return { file, lines: ofFile };
  }
  return undefined;
}

function ownBreakpoints(document: vscode.TextDocument): number[] {
  return vscode.debug.breakpoints
    .filter((each): each is vscode.SourceBreakpoint => each instanceof vscode.SourceBreakpoint)
    .filter((each) => each.enabled && each.location.uri.toString() === document.uri.toString())
    .map((each) => each.location.range.start.line + 1)
    .filter((line) => line <= document.lineCount);
}

function decoration(document: vscode.TextDocument, line: number, text: string, places?: readonly CodePlace[]): vscode.DecorationOptions {
  const hoverMessage = places && new vscode.MarkdownString(hoverText(places));
  return { range: document.lineAt(line - 1).range, renderOptions: { after: { contentText: text } }, hoverMessage };
}

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("symd");
}
