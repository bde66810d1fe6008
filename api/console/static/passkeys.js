// What only a browser can do: ask an authenticator, and read the token behind the # of a link. Session tokens are
// exchanged for a cookie at once, and kept nowhere.

const root = new URL("../../", import.meta.url);

const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), each => each.charCodeAt(0));
const text = buffer =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

class Refused extends Error {}

const REASONS = {
  NotAllowedError: "The browser was interrupted, or has no passkey for this service.",
  InvalidStateError: "This device has a passkey of the account already.",
  SecurityError: "The browser uses no passkey at this address.",
  TypeError: "The service does not answer. Try again.",
};

async function post(path, body, headers = {}) {
  const answered = await fetch(new URL(path, root), {
    method: "POST",
    headers: {"Content-Type": "application/json", ...headers},
    body: JSON.stringify(body),
  });
  if (answered.status === 204) return null;
  const content = await answered.json();
  if (answered.ok) return content;
  const {message} = content.error;
  throw new Refused(`${message.charAt(0).toUpperCase()}${message.slice(1)}.`);
}

async function create(options) {
  const made = await navigator.credentials.create({publicKey: {
    ...options,
    challenge: bytes(options.challenge),
    user: {...options.user, id: bytes(options.user.id)},
    excludeCredentials: (options.excludeCredentials ?? []).map(each => ({...each, id: bytes(each.id)})),
  }});
  return {attestation: {id: made.id, rawId: text(made.rawId), type: made.type, response: {
    clientDataJSON: text(made.response.clientDataJSON),
    attestationObject: text(made.response.attestationObject),
    transports: made.response.getTransports(),
  }}};
}

async function find(options) {
  const found = await navigator.credentials.get({publicKey: {...options, challenge: bytes(options.challenge)}});
  return {assertion: {id: found.id, rawId: text(found.rawId), type: found.type, response: {
    clientDataJSON: text(found.response.clientDataJSON),
    authenticatorData: text(found.response.authenticatorData),
    signature: text(found.response.signature),
    userHandle: found.response.userHandle && text(found.response.userHandle),
  }}};
}

async function signIn(path, fields, ask) {
  const {challenge_id, options} = await post(`api/v0/auth/${path}/options`, fields);
  const credential = await ask(options);
  const {token} = await post(`api/v0/auth/${path}/finalize`, {...fields, challenge_id, ...credential});
  await post("login/session", {}, {Authorization: `Bearer ${token}`});
}

function takeToken() {
  const token = decodeURIComponent(location.hash.slice(1));
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

function ownersFields() {
  const fields = {};
  for (const input of document.querySelectorAll("[data-field]")) {
    if (!input.reportValidity()) return null;
    fields[input.dataset.field] = input.value.trim();
  }
  return fields;
}

// The form of the account goes with the answer of the authenticator; the cookie says whose it is.
async function addPasskey(token, fields, button) {
  const {form} = button;
  const answered = await fetch(form.dataset.options, {
    method: "POST",
    body: new URLSearchParams({form_token: form.elements.form_token.value}),
  });
  if (!answered.ok) throw new Refused("You are not signed in any more: load the page again.");
  const {challenge_id, options} = await answered.json();
  form.elements.credential.value = JSON.stringify({challenge_id, ...await create(options)});
  form.submit();
}

const WAYS = {
  login: () => signIn("passkey/login", {}, find),
  verify: (token, fields) => signIn("passkey/signup", {...fields, verification_token: token}, create),
  owner: (token, fields) => signIn("passkey/signup", {...fields, verification_token: token}, create),
  recover: token => signIn("recover", {magic_link_token: token}, create),
  add: addPasskey,
};

function offer(button) {
  const kind = button.dataset.passkey;
  const needsLink = !["login", "add"].includes(kind);
  const elsewhere = document.querySelector("[data-elsewhere]");
  if (!window.isSecureContext) {
    document.querySelector("[data-insecure]").hidden = false;
    return;
  }
  if (!elsewhere.dataset.origins.split(" ").includes(location.origin)) {
    const link = elsewhere.querySelector("a");
    const path = location.pathname.slice(root.pathname.length);
    link.href = `${link.getAttribute("href").replace(/\/$/, "")}/${path}${location.search}${location.hash}`;
    elsewhere.hidden = false;
    return;
  }
  const token = takeToken();
  if (needsLink && !token) {
    document.querySelector("[data-no-link]").hidden = false;
    return;
  }
  const fault = document.querySelector("[data-fault]");
  button.disabled = false;
  button.addEventListener("click", async event => {
    event.preventDefault();
    const fields = ownersFields();
    if (fields === null) return;
    button.disabled = true;
    fault.hidden = true;
    try {
      await WAYS[kind](token, fields, button);
      if (button.dataset.next) location.assign(button.dataset.next + (!needsLink && token ? `#${token}` : ""));
    } catch (error) {
      fault.textContent = error instanceof Refused ? error.message : REASONS[error.name] ?? `${error.message}.`;
      fault.hidden = false;
      button.disabled = false;
    }
  });
}

// A form that sends the token of a link, and a link to a page that hands it on.
function sendLink(form) {
  const token = takeToken();
  form.elements.token.value = token;
  form.querySelector("button").disabled = !token;
  form.querySelector("[data-no-link]").hidden = token !== "";
}

function keepLink(link) {
  link.hash = takeToken();
}

for (const form of document.querySelectorAll("form[data-link]")) sendLink(form);
for (const link of document.querySelectorAll("a[data-keeps-link]")) keepLink(link);
for (const note of document.querySelectorAll("[data-needs-script]")) note.hidden = true;
for (const button of document.querySelectorAll("button[data-passkey]")) offer(button);
