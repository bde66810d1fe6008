// Write every example of GitHub's deliveries with its signature, a line each. Arguments: the folder of the packages, the
// secret.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[2]}/package.json`);
const { Webhooks } = await import(pathToFileURL(require.resolve("@octokit/webhooks")));
const webhooks = new Webhooks({ secret: process.argv[3] });
const groups = require("@octokit/webhooks-examples/api.github.com/index.json");
const written = [];
for (const { name, examples } of groups) {
  for (const example of examples) {
    const body = JSON.stringify(example);
    written.push(JSON.stringify({ name, body, signature: await webhooks.sign(body) }));
  }
}
process.stdout.write(written.join("\n"));
