// A form keeps what was typed when its session has ended or the service does not answer: before it is sent, the page is
// asked for again, and its token is put into the form. Without this script the service refuses the form, and says why.
// Until it is answered, its page takes nothing else: a second press would send it twice, and what is typed meanwhile
// would go with the page.

const page = document.getElementById("main");

// A page that leads to the sign-in, or has no forms, is that of somebody without a session. One that is refused is not
// needed: the service refuses the form too, and says why.
async function freshToken(form) {
  const answer = await fetch(location.pathname, {redirect: "manual"});
  if (answer.type === "opaqueredirect") return null;
  if (answer.status >= 500) throw new Error("the service is about to restart");
  if (!answer.ok) return form.elements.form_token.value;
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  // The head of a page has forms of the user, also on pages of the host's owner, whose forms have another token.
  const part = page.contains(form) ? "main " : "";
  return (read.querySelector(`${part}input[name=form_token]`) ?? read.querySelector("input[name=form_token]"))?.value ?? null;
}

function giveBack(button) {
  page.inert = false;
  button?.focus();
}

// Stop, by its button or the Escape key, leaves the page in place, and so its form must be usable again.
function giveBackIfStopped(form, button) {
  const stopped = () => {
    delete form.dataset.fresh;
    giveBack(button);
    note(form, "You stopped this, but it may have been done: reload the page to see.");
  };
  if (window.navigation) {
    navigation.addEventListener("navigateerror", stopped, {once: true});
  } else {
    addEventListener("keydown", event => event.key === "Escape" && page.inert && stopped());
  }
}

function note(form, ...parts) {
  const shown = document.createElement("p");
  shown.className = "fault";
  shown.setAttribute("role", "alert");
  shown.append(...parts);
  form.querySelector("[data-note]")?.remove();
  shown.dataset.note = "";
  form.append(shown);
}

function askToSignIn(form) {
  const link = document.createElement("a");
  link.href = document.querySelector("a.brand").href + "login?next=/";
  link.target = "_blank";
  link.textContent = "Sign in in another tab";
  note(form, "You are not signed in any more, and nothing was sent. ", link, ", then send this again.");
}

document.addEventListener("submit", async event => {
  const {target: form, submitter} = event;
  if (form.method !== "post" || !form.elements.form_token || form.dataset.fresh) return;
  event.preventDefault();
  page.inert = true;
  let token = null;
  try {
    token = await freshToken(form);
  } catch {
    giveBack(submitter);
    note(form, "The service does not answer, and nothing was sent. It may be restarting: send this again in a moment.");
    return;
  }
  if (token === null || !form.isConnected) { // news of a build may have replaced its buttons
    giveBack(submitter);
    if (token === null) askToSignIn(form);
    return;
  }
  form.elements.form_token.value = token;
  form.dataset.fresh = "yes";
  giveBackIfStopped(form, submitter);
  form.requestSubmit(submitter);
});

// A page that comes back from the browser's history asks anew.
addEventListener("pageshow", event => {
  if (!event.persisted) return;
  page.inert = false;
  for (const form of document.querySelectorAll("form[data-fresh]")) delete form.dataset.fresh;
});
