// The extension's questions from a terminal: node out/print.js unix:/run/user/1000/symd/symd.sock kernel.co shade.cl 13
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { Daemon } from "./daemon.js";
import { breakpointText, lineText } from "./words.js";

async function main([server, file, source, line]: string[]): Promise<void> {
  const daemon = new Daemon(server);
  try {
    const name = await daemon.add(readFileSync(file), basename(file));
    for (const [path, lines] of await daemon.lines(name)) {
      for (const [number, places] of [...lines].sort(([one], [other]) => one - other)) {
        console.log(`${path}:${number}: ${lineText(places)}`);
      }
    }
    console.log(`${source}:${line}: ${breakpointText(await daemon.breakpoint(name, source, Number(line)))}`);
  } finally {
    daemon.close();
  }
}

main(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
