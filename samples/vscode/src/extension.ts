// Binds everything to the editor: commands, links, hovers, what is drawn, and the debug adapter.
import * as vscode from "vscode";
import * as decorations from "./decorations.js";
import { closeModule, onDidChangeModule, openModule, openProfile, pathRules, python } from "./module.js";
import { documentLinks, goTo, hover, terminalLinks } from "./places.js";

export function activate(context: vscode.ExtensionContext): void {
  const adapter = context.asAbsolutePath("adapter/debug_adapter.py");
  context.subscriptions.push(
    vscode.commands.registerCommand("symd.openModule", openModule),
    vscode.commands.registerCommand("symd.openProfile", openProfile),
    vscode.commands.registerCommand("symd.goTo", goTo),
    vscode.commands.registerCommand("symd.closeModule", closeModule),
    vscode.languages.registerHoverProvider({ scheme: "file" }, hover),
    vscode.languages.registerDocumentLinkProvider([{ language: "log" }, { scheme: "output" }], documentLinks),
    vscode.window.registerTerminalLinkProvider(terminalLinks),
    vscode.window.onDidChangeVisibleTextEditors(decorations.drawAll),
    vscode.debug.onDidChangeBreakpoints(decorations.drawAll),
    vscode.debug.registerDebugConfigurationProvider("symd", {
      resolveDebugConfiguration: (_folder, asked) => ({ pathRules: pathRules(), ...asked }),
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory("symd", {
      createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(python(), [adapter]),
    }),
    onDidChangeModule(decorations.drawAll),
    decorations.heat,
    decorations.code,
    decorations.stops,
  );
}

export function deactivate(): void {
  closeModule();
}
