// Write every example of the deliveries of GitHub and of its Enterprise Servers with its signature, a line each.
// Arguments: the folder of the packages, the secret.
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[2]}/package.json`);
const { Webhooks } = await import(pathToFileURL(require.resolve("@octokit/webhooks")));
const webhooks = new Webhooks({ secret: process.argv[3] });
const folder = dirname(require.resolve("@octokit/webhooks-examples/package.json"));
const indexes = readdirSync(folder).map((name) => join(folder, name, "index.json"));
const groups = indexes.filter((path) => existsSync(path)).flatMap((path) => require(path));
const written = [];
for (const { name, examples } of groups) {
  for (const example of examples) {
    const body = JSON.stringify(example);
    written.push(JSON.stringify({ name, body, signature: await webhooks.sign(body) }));
  }
}
process.stdout.write(written.join("\n"));
