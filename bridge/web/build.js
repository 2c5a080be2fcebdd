// Bundle the pages into static/, with the licences of what is in the bundle.
import { build } from "esbuild";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "static");
rmSync(target, { recursive: true, force: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: { main: "pages/main.js" },
  outdir: target,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  metafile: true,
  chunkNames: "chunks/[name]-[hash]",
  logLevel: "warning",
});
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const inside = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (inside) packages.add(inside[1]);
}
const licences = [...packages].sort().map((name) => {
  const folder = join(here, "node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name}: expected a licence in its package, found none`);
  return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(target, "LICENCES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
const bytes = Object.values(result.metafile.outputs).reduce((sum, output) => sum + output.bytes, 0);
console.log(`static/: ${Math.round(bytes / 1000)} kB, with ${[...packages].sort().join(", ") || "nothing of others"}`);
if (bytes > 500_000) throw new Error(`expected at most 500 kB, found ${bytes} bytes`);
