// From places to lines and back: going to the line of "kernel+0x68", links wherever such a place is printed, and the instructions of a line under the pointer.
import * as vscode from "vscode";
import { complain, localPath, openModule, shown, shownFile } from "./module.js";
import type { Frame } from "./gen/symd/v1/location.js";
import { answerText, frameText, hoverText } from "./words.js";

const MOST_LISTED = 4; // places of a line whose instructions are shown

/** Go to the line of a place, or, where calls were inlined, to that of the frame that is chosen. */
export async function goTo(place?: string): Promise<void> {
  const module = shown() ?? (await openModule());
  const asked = module && (place ?? (await vscode.window.showInputBox({ title: "A place in the module", placeHolder: "kernel+0x68, 0x1978, (.text)+0x178" })));
  if (!asked) return;
  try {
    const answer = await module.daemon.symbolize(module.name, asked);
    const frames = answer.frames.filter((each) => each.file);
    if (frames.length === 0) return void vscode.window.showWarningMessage(`symd: ${asked}: ${answerText(answer)}`);
    const frame = frames.length === 1 ? frames[0] : await choose(asked, frames);
    if (frame) await reveal(frame);
  } catch (error) {
    complain(error);
  }
}

async function choose(place: string, frames: Frame[]): Promise<Frame | undefined> {
  const shownFrames = frames.map((frame, depth) => ({ label: `#${depth} ${frameText(frame)}`, description: frame.inlined ? "inlined" : "", frame }));
  return (await vscode.window.showQuickPick(shownFrames, { title: place }))?.frame;
}

async function reveal(frame: Frame): Promise<void> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.file(localPath(frame.file ?? "")));
  const start = new vscode.Position(Math.max(frame.line - 1, 0), Math.max(frame.column - 1, 0));
  await vscode.window.showTextDocument(document, { selection: new vscode.Range(start, start) });
}

interface Found {
  readonly startIndex: number;
  readonly length: number;
  readonly place: string;
}

/** Places in a text, such as a line of a terminal: offsets into functions that the module has. */
function places(text: string): Found[] {
  const functions = shown()?.table.functions;
  return [...text.matchAll(/([\w.$:@?~]+)\+0x[0-9a-f]+/gi)]
    .filter(([, name]) => functions?.has(name))
    .map(({ 0: place, index }) => ({ startIndex: index, length: place.length, place }));
}

export const terminalLinks: vscode.TerminalLinkProvider<vscode.TerminalLink & Found> = {
  provideTerminalLinks: ({ line }) => places(line).map((found) => ({ ...found, tooltip: "Go to the source line" })),
  handleTerminalLink: ({ place }) => goTo(place),
};

export const documentLinks: vscode.DocumentLinkProvider = {
  provideDocumentLinks: (document) =>
    places(document.getText()).map(({ startIndex, length, place }) => {
      const range = new vscode.Range(document.positionAt(startIndex), document.positionAt(startIndex + length));
      return new vscode.DocumentLink(range, vscode.Uri.parse(`command:symd.goTo?${encodeURIComponent(JSON.stringify([place]))}`));
    }),
};

export const hover: vscode.HoverProvider = {
  async provideHover(document, position) {
    const module = shown();
    const found = shownFile(document);
    const code = found?.lines.get(position.line + 1) ?? [];
    const heat = found?.hot.get(position.line + 1);
    if (!module || (code.length === 0 && !heat)) return undefined;
    const listings = code.slice(0, MOST_LISTED).map((each) => module.daemon.instructions(module.name, each).catch((error: Error) => error));
    return new vscode.Hover(new vscode.MarkdownString(hoverText(code, await Promise.all(listings), heat)), document.lineAt(position.line).range);
  },
};
