// What is drawn into the editor: behind each line where its code is and how hot it is, behind each breakpoint where it lands.
import * as vscode from "vscode";
import { complain, type Shown, shown, shownFile } from "./module.js";
import { breakpointText, heatText, lineText } from "./words.js";

const after = (color: string): vscode.ThemableDecorationAttachmentRenderOptions => ({ margin: "0 0 0 2em", color: new vscode.ThemeColor(color) });

export const heat = vscode.window.createTextEditorDecorationType({
  after: { ...after("editorWarning.foreground"), fontWeight: "bold" },
  overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.warningForeground"),
});
export const code = vscode.window.createTextEditorDecorationType({ after: after("editorCodeLens.foreground") });
export const stops = vscode.window.createTextEditorDecorationType({ after: after("debugIcon.breakpointForeground") });

export function drawAll(): void {
  for (const editor of vscode.window.visibleTextEditors) draw(editor).catch(complain);
}

async function draw(editor: vscode.TextEditor): Promise<void> {
  const module = shown();
  const found = shownFile(editor.document);
  if (!module || !found) {
    for (const each of [heat, code, stops]) editor.setDecorations(each, []);
    return;
  }
  const behind = <Found>(lines: Iterable<readonly [number, Found]>, text: (found: Found) => string): vscode.DecorationOptions[] =>
    [...lines].filter(([line]) => line <= editor.document.lineCount).map(([line, each]) => ({
      range: editor.document.lineAt(line - 1).range, renderOptions: { after: { contentText: text(each) } },
    }));
  editor.setDecorations(heat, behind(found.hot, heatText));
  editor.setDecorations(code, behind(found.lines, lineText));
  const landed = behind(await breakpoints(module, found.file, editor.document), breakpointText);
  if (module === shown()) editor.setDecorations(stops, landed);
}

function breakpoints(module: Shown, file: string, document: vscode.TextDocument) {
  const lines = vscode.debug.breakpoints
    .filter((each): each is vscode.SourceBreakpoint => each instanceof vscode.SourceBreakpoint)
    .filter((each) => each.enabled && each.location.uri.toString() === document.uri.toString())
    .map((each) => each.location.range.start.line + 1);
  return Promise.all(lines.map(async (line) => [line, await module.daemon.breakpoint(module.name, file, line)] as const));
}
