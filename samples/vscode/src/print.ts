// The extension's questions from a terminal: node out/print.js unix:/run/user/1000/symd/symd.sock kernel.co shade.cl:13 shade+0x98
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { Daemon } from "./daemon.js";
import { answerText, breakpointText, lineText } from "./words.js";

async function main([server, file, ...asked]: string[]): Promise<void> {
  const daemon = new Daemon(server);
  try {
    const name = await daemon.add(readFileSync(file), basename(file));
    for (const [path, lines] of (await daemon.lines(name)).lines) {
      for (const [number, places] of [...lines].sort(([one], [other]) => one - other)) {
        console.log(`${path}:${number}: ${lineText(places)}`);
      }
    }
    for (const each of asked) {
      const [, source, line] = /^(.+):(\d+)$/.exec(each) ?? [];
      console.log(`${each}: ${source ? breakpointText(await daemon.breakpoint(name, source, Number(line))) : answerText(await daemon.symbolize(name, each))}`);
    }
  } finally {
    daemon.close();
  }
}

main(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
