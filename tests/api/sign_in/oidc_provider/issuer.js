// An OpenID Connect issuer on the loopback: `node issuer.js MODULE`, where MODULE is oidc-provider's entry point.
//
// The first line on stdin is its configuration in JSON: port (0 is any), accounts (claims by subject), clients, keys. It
// answers with its URL. A later line {"advance": SECONDS} sets its clock forward; it answers with that line. It ends with
// stdin, so also when the test that started it is killed.

import { createServer } from "node:http";
import { createInterface } from "node:readline";

const { Provider } = await import(process.argv[2]);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const configuration = JSON.parse((await lines.next()).value);

let ahead = 0;
const now = Date.now;
Date.now = () => now() + ahead;

const server = createServer();
await new Promise((listening) => server.listen(configuration.port, "127.0.0.1", listening));
const url = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(url, {
  clients: configuration.clients,
  jwks: { keys: configuration.keys },
  pkce: { required: () => true },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  findAccount: (_, subject) =>
    subject in configuration.accounts && {
      accountId: subject,
      claims: () => ({ sub: subject, ...configuration.accounts[subject] }),
    },
  cookies: { keys: ["only for tests"] },
});
server.on("request", provider.callback());
console.log(url);

for await (const line of lines) {
  ahead += JSON.parse(line).advance * 1000;
  console.log(line);
}
process.exit();
