// Builds the plugins of this folder: `node build.mjs TOOLCHAIN OUT [FOLDER …]`, and those in further folders, laid out
// as `ozzie plugins new` does. TOOLCHAIN is the folder with AssemblyScript in its node_modules; OUT gets NAME/NAME.wasm for
// each. The same sources and the same toolchain give the same bytes: paths in the code are relative.

import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [toolchain, out, ...further] = process.argv.slice(2).map((each) => resolve(each));
const { default: asc } = await import(pathToFileURL(join(toolchain, "node_modules/assemblyscript/dist/asc.js")));
const here = dirname(fileURLToPath(import.meta.url));
const shipped = readdirSync(here).filter((name) => existsSync(join(here, name, "plugin.ts")));

async function build(name, folder, source, options) {
  process.chdir(folder);
  const file = relative(folder, join(out, name, `${name}.wasm`));
  const { error, stderr } = await asc.main([source, "--outFile", file, "--config", options]);
  if (error) {
    process.stderr.write(`${name}: ${error.message}\n${stderr}`);
    process.exitCode = 1;
  }
}

for (const name of shipped) await build(name, here, `${name}/plugin.ts`, "templates/assemblyscript/asconfig.json");
for (const folder of further) await build(basename(folder), folder, "plugin.ts", "asconfig.json");
