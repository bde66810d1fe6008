// Verify an identity token by OpenID Connect Discovery, and what a registry says of an image, by libraries of others.
import crypto from "node:crypto";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { Verifier, toSignedEntity, toTrustMaterial } from "@sigstore/verify";
import { createRemoteJWKSet, jwtVerify } from "jose";

const [issuer, audience, token, images, digest] = process.argv.slice(2);

async function fetched(url) {
  const answer = await fetch(url, { headers: { Accept: "application/vnd.oci.image.manifest.v1+json" } });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.json();
}

async function claims() {
  const { jwks_uri, id_token_signing_alg_values_supported: algorithms } = await fetched(
    `${issuer}/.well-known/openid-configuration`,
  );
  const keys = createRemoteJWKSet(new URL(jwks_uri));
  return (await jwtVerify(token, keys, { issuer, audience, algorithms, maxTokenAge: "1h" })).payload;
}

// The envelope is the layer of the manifest that cosign attaches to an image under this tag.
async function statement() {
  const attached = await fetched(`${images}/manifests/${digest.replace(":", "-")}.att`);
  const dsseEnvelope = await fetched(`${images}/blobs/${attached.layers[0].digest}`);
  const hint = dsseEnvelope.signatures[0].keyid;
  const { keys } = await fetched(`${issuer}/.well-known/provenance-keys.json`);
  const key = keys.find((each) => each.kid === hint);
  const found = { publicKey: crypto.createPublicKey({ format: "jwk", key }), validFor: () => true };
  const nobody = TrustedRoot.fromJSON({ mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1" });
  const none = { tlogThreshold: 0, ctlogThreshold: 0, tsaThreshold: 0 };
  const bundle = bundleFromJSON({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: { publicKey: { hint }, tlogEntries: [] },
    dsseEnvelope,
  });
  new Verifier(toTrustMaterial(nobody, () => found), none).verify(toSignedEntity(bundle));
  const said = JSON.parse(Buffer.from(dsseEnvelope.payload, "base64"));
  if (said.subject[0].digest.sha256 !== digest.replace("sha256:", "")) throw new Error("SUBJECT");
  return said;
}

async function attempt(check) {
  try {
    return await check();
  } catch (error) {
    return { refused: error.code ?? error.message };
  }
}

console.log(JSON.stringify({ claims: await attempt(claims), statement: await attempt(statement) }));
