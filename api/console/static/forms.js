// A form whose session has ended keeps what was typed: before it is sent, the page is asked for again, and its token is
// put into the form. Without this script the service refuses the form, and says why.

async function freshToken() {
  const page = await fetch(location.pathname, {redirect: "manual"});
  if (!page.ok) return null;
  const read = new DOMParser().parseFromString(await page.text(), "text/html");
  return read.querySelector("input[name=form_token]")?.value ?? null;
}

function ask(form) {
  const link = document.createElement("a");
  link.href = document.querySelector("a.brand").href + "login?next=/";
  link.target = "_blank";
  link.textContent = "Sign in in another tab";
  const note = document.createElement("p");
  note.className = "fault";
  note.setAttribute("role", "alert");
  note.append("You are not signed in any more, and nothing was sent. ", link, ", then send this again.");
  form.querySelector("[role=alert]")?.remove();
  form.append(note);
}

document.addEventListener("submit", async event => {
  const form = event.target;
  if (form.method !== "post" || !form.elements.form_token || form.dataset.fresh) return;
  event.preventDefault();
  let token = null;
  try {
    token = await freshToken();
  } catch { /* without the service the form is sent anyway, and the browser says so */
    token = form.elements.form_token.value;
  }
  if (token === null) {
    ask(form);
    return;
  }
  form.elements.form_token.value = token;
  form.dataset.fresh = "yes";
  form.requestSubmit(event.submitter);
});

// A page that comes back from the browser's history asks anew.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-fresh]")) delete form.dataset.fresh;
});
