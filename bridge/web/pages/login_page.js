// Signing in: by an account's token, or by the link that the server printed.
import { append, h } from "./base/dom.js";

/** @returns {string} the page to go on to, of this server only */
function nextPage() {
  // Read as browsers read it: they leave out tabs and take "\\" for "/", so that "/\t/host" is another host.
  try {
    const next = new URL(new URLSearchParams(location.search).get("next") || "/", location.origin);
    return next.origin === location.origin ? next.href : "/";
  } catch {
    return "/"; // no address at all
  }
}

export async function showLogin() {
  document.title = "Sign in · wshard";
  // A link on another site's page comes without the cookie; this page's own request has it.
  const known = await fetch("/api/state");
  if (known.ok) {
    location.replace(nextPage());
    return;
  }
  const byToken = Boolean(document.body.dataset.byToken);
  append(document.body, [h("main", { class: "login" }, h("h1", {}, "wshard"), byToken ? tokenForm() : printedLink())]);
}

function printedLink() {
  return h("div", {},
    h("p", {}, "This browser is not signed in. Open the link that ", h("code", {}, "wshard serve"), " printed; it works once."),
    h("p", {}, "Was it used already? Stop the server with Ctrl-C and start it again for a new one."));
}

function tokenForm() {
  const input = h("input", { type: "password", autocomplete: "current-password", required: true, id: "token" });
  const problem = h("p", { class: "problem", role: "alert" });
  return h("form", {
    onsubmit: async (/** @type {Event} */ event) => {
      event.preventDefault();
      const answer = await fetch("/login", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ token: input.value.trim() }),
      });
      if (answer.ok) location.replace(nextPage());
      else problem.textContent = (await answer.json()).message;
    },
  }, h("label", { for: "token" }, "Your token"), input, h("button", { class: "primary" }, "Sign in"), problem);
}
