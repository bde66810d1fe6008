"use strict";

const ROOT = new URL("../..", document.currentScript.src).href;
const OPENAPI = `${ROOT}api/v0/openapi.json`;
const KEPT_AS = "ci-daemon.authorized";

// A token survives a reload but not its tab: otherwise every later user of the browser could use it.
const storage = (() => {
  try {
    return window.sessionStorage;
  } catch {
    return undefined; // the browser blocks storage for this site
  }
})();

const keptAuthorization = {
  statePlugins: {
    auth: {
      wrapActions: {
        persistAuthorizationIfNeeded: (_original, { authSelectors }) => () => {
          storage?.setItem(KEPT_AS, JSON.stringify(authSelectors.authorized()));
        },
      },
    },
  },
};

// The document names the service's configured address. The page may have another, such as localhost, and its policy lets it
// ask its own alone.
const askedHere = {
  statePlugins: {
    spec: {
      wrapActions: {
        updateJsonSpec: (original) => (document) => original({ ...document, servers: [{ url: ROOT.replace(/\/$/, "") }] }),
      },
    },
  },
};

function restoreAuthorization({ authActions }) {
  const kept = storage?.getItem(KEPT_AS);
  if (kept) authActions.restoreAuthorization({ authorized: JSON.parse(kept) });
}

// An operation is shown if its method, path, name, summary, description and tag together contain all words.
function saysAll(words, tag, entry) {
  const operation = entry.get("operation");
  const said = ["operationId", "summary", "description"].map((name) => operation.get(name));
  const text = [entry.get("method"), entry.get("path"), tag, ...said].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

const filterByWords = {
  fn: {
    opsFilter: (taggedOperations, phrase) => {
      const words = phrase.toLowerCase().split(/\s+/);
      return taggedOperations
        .map((group, tag) => group.update("operations", (all) => all.filter((entry) => saysAll(words, tag, entry))))
        .filter((group) => group.get("operations").size > 0);
    },
  },
  wrapComponents: {
    FilterContainer:
      (_original, { React }) =>
      ({ layoutSelectors, layoutActions }) => {
        const filter = layoutSelectors.currentFilter();
        const field = React.createElement("input", {
          className: "operation-filter-input",
          type: "search",
          placeholder: "Filter by words of path, summary or description",
          "aria-label": "Filter operations",
          value: typeof filter === "string" ? filter : "",
          onChange: (event) => layoutActions.updateFilter(event.target.value),
        });
        return React.createElement("section", { className: "filter wrapper" }, field);
      },
  },
};

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followColorScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followColorScheme);
followColorScheme();

const ui = SwaggerUIBundle({
  url: OPENAPI,
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  docExpansion: "list",
  filter: true,
  plugins: [askedHere, keptAuthorization, filterByWords],
  onComplete: () => restoreAuthorization(ui),
  validatorUrl: null,
});
