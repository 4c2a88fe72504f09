// As much of the module "vscode" as the sample extension asks for, and a run of it: node editor.js EXTENSION SERVER MODULE SOURCE SHOWN LINE.
// SOURCE is the document that is open, named SHOWN by the compiler, with a breakpoint at LINE. Prints what is drawn, as JSON.
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");

const [extension, server, module_, source, shown, line] = process.argv.slice(2);
const uri = (file) => ({ fsPath: file, toString: () => `file://${file}` });
const range = (number) => ({ start: { line: number } });
const commands = {};
const drawn = {};
const styles = ["code", "stops"];
const settings = { server, pathRules: { [path.dirname(shown)]: path.dirname(source) } };

class SourceBreakpoint {
  constructor(location) {
    this.location = location;
    this.enabled = true;
  }
}

const lines = fs.readFileSync(source, "utf8").split("\n");
const document_ = { uri: uri(source), lineCount: lines.length, lineAt: (number) => ({ range: range(number) }) };
const editor = { document: document_, setDecorations: (style, all) => (drawn[style.name] = all) };
const ignored = () => ({ dispose() {} });

const vscode = {
  ThemeColor: class {},
  MarkdownString: class {
    constructor(value) {
      this.value = value;
    }
  },
  SourceBreakpoint,
  commands: { registerCommand: (name, run) => (commands[name] = run) },
  debug: { onDidChangeBreakpoints: ignored, breakpoints: [new SourceBreakpoint({ uri: uri(source), range: range(Number(line) - 1) })] },
  window: {
    visibleTextEditors: [editor],
    createTextEditorDecorationType: () => ({ name: styles.shift() }),
    onDidChangeVisibleTextEditors: ignored,
    showErrorMessage: (text) => {
      console.error(text);
      process.exitCode = 1;
    },
    showOpenDialog: async () => [uri(module_)],
  },
  workspace: {
    fs: { readFile: async (file) => fs.readFileSync(file.fsPath) },
    getConfiguration: () => ({ get: (name) => settings[name] }),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function main() {
  const { activate, deactivate } = require(extension);
  activate({ subscriptions: [] });
  await commands["symd.openModule"]();
  while (!drawn.stops && !process.exitCode) await new Promise((resolve) => setImmediate(resolve));
  const entry = (each) => [each.range.start.line + 1, each.renderOptions.after.contentText, each.hoverMessage?.value ?? ""];
  const first = { code: drawn.code?.map(entry), stops: drawn.stops?.map(entry) };
  await commands["symd.closeModule"]();
  console.log(JSON.stringify({ ...first, left: [...drawn.code, ...drawn.stops].length }));
  deactivate();
}

main();
