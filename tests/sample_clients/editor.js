// As much of the module "vscode" as the sample extension asks for, and a run of it: node editor.js EXTENSION ASKED, where ASKED is JSON:
// server, python, module, profile; source, the document that is open, named shown by the compiler, with a breakpoint at line; printed, a line of a
// terminal that has places, the first of which is followed. What is drawn, hovered over and opened is printed as JSON.
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");

const [extension, words] = process.argv.slice(2);
const asked = JSON.parse(words);
const settings = { server: asked.server, python: asked.python, pathRules: { [path.dirname(asked.shown)]: path.dirname(asked.source) } };
const files = [asked.module, asked.profile];
const styles = ["heat", "code", "stops"];
const [commands, drawn, opened] = [{}, {}, []];
let [hover, links, drawings] = [];

const uri = (file) => ({ fsPath: file, toString: () => `file://${file}` });
const range = (number) => ({ start: { line: number } });
const lines = fs.readFileSync(asked.source, "utf8").split("\n");
const document_ = { uri: uri(asked.source), lineCount: lines.length, lineAt: (number) => ({ range: range(number) }) };
const ignored = () => ({ dispose() {} });
const complain = (text) => {
  console.error(text);
  process.exitCode = 1;
};

class SourceBreakpoint {
  enabled = true;
  location = { uri: document_.uri, range: range(asked.line - 1) };
}

const vscode = {
  EventEmitter: class {
    event = (listener) => (this.listener = listener);
    fire = () => this.listener?.();
  },
  Hover: class {
    constructor(contents) {
      this.text = contents.value;
    }
  },
  MarkdownString: class {
    constructor(value) {
      this.value = value;
    }
  },
  Position: class {
    constructor(line, character) {
      Object.assign(this, { line, character });
    }
  },
  Range: class {
    constructor(start) {
      this.start = start;
    }
  },
  SourceBreakpoint,
  ThemeColor: class {},
  Uri: { file: uri },
  commands: { registerCommand: (name, run) => (commands[name] = run) },
  debug: {
    breakpoints: [new SourceBreakpoint()],
    onDidChangeBreakpoints: ignored,
    registerDebugAdapterDescriptorFactory: ignored,
    registerDebugConfigurationProvider: ignored,
  },
  languages: { registerDocumentLinkProvider: ignored, registerHoverProvider: (_, provider) => (hover = provider) },
  window: {
    visibleTextEditors: [{ document: document_, setDecorations: (style, all) => ((drawn[style.name] = all), drawings?.()) }],
    createTextEditorDecorationType: () => ({ name: styles.shift() }),
    onDidChangeVisibleTextEditors: ignored,
    registerTerminalLinkProvider: (provider) => (links = provider),
    showErrorMessage: complain,
    showWarningMessage: complain,
    showOpenDialog: async () => [uri(files.shift())],
    showQuickPick: async (choices) => choices[0],
    showTextDocument: async (document, { selection }) => opened.push([document.fsPath, selection.start.line + 1, selection.start.character + 1]),
  },
  workspace: {
    fs: { readFile: async (file) => fs.readFileSync(file.fsPath) },
    getConfiguration: () => ({ get: (name) => settings[name] }),
    openTextDocument: async (file) => file,
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

/** Run a command, and wait until what it changes is drawn: breakpoints come last. */
async function draws(command) {
  const done = new Promise((resolve) => (drawings = () => drawn.stops && resolve()));
  delete drawn.stops;
  await commands[command]();
  if (!process.exitCode) await done;
}

async function main() {
  const { activate, deactivate } = require(extension);
  activate({ subscriptions: [], asAbsolutePath: (file) => file });
  await draws("symd.openModule");
  if (asked.profile) await draws("symd.openProfile");
  const entries = (all) => (all ?? []).map((each) => [each.range.start.line + 1, each.renderOptions.after.contentText]);
  const shown = Object.fromEntries(Object.entries(drawn).map(([style, all]) => [style, entries(all)]));
  const hovers = [];
  for (const [line] of shown.code) hovers.push([line, (await hover.provideHover(document_, { line: line - 1 })).text]);
  const found = links.provideTerminalLinks({ line: asked.printed ?? "" });
  if (found.length > 0) await links.handleTerminalLink(found[0]);
  await draws("symd.closeModule");
  const places = found.map(({ startIndex, length }) => asked.printed.slice(startIndex, startIndex + length));
  console.log(JSON.stringify({ ...shown, hovers, links: places, opened, left: Object.values(drawn).flat().length }));
  deactivate();
}

main();
