// What every page has: its head with the other pages, the theme, and word of what changed meanwhile.
import { get } from "../base/api.js";
import { fill, h } from "../base/dom.js";
import { number } from "../base/format.js";
import { endCommonKeys, listen, onChangeKey, onKey, showKeys } from "../base/keys.js";
import { undoLast } from "./annotations.js";

/** @type {[string, string, string][]} */
const PAGES = [
  ["/", "Episodes", "episodes"],
  ["/search", "Search", "search"],
  ["/map", "Map", "map"],
  ["/review", "Review", "review"],
  ["/collections", "Collections", "collections"],
  ["/maintenance", "Maintenance", "maintenance"],
];
const POLL_MS = 2000;
/** @type {string | null} the archive's state when the page was opened: what changes while it loads counts, too */
let begun = null;

/** @param {string} title */
export function setTitle(title) {
  document.title = `${title} · wshard`;
}

/**
 * Make the page's frame, and return where its content goes.
 * @param {string} title
 * @returns {HTMLElement}
 */
export function makeShell(title) {
  const page = document.body.dataset.page;
  const archive = document.body.dataset.archive || "";
  const account = h("span", { class: "account" });
  const news = h("span", { class: "news", "aria-live": "polite" });
  const main = h("main", { id: "content", tabindex: -1 });
  const links = PAGES.map(([path, name, id]) =>
    h("a", { href: path, "aria-current": id === page ? "page" : false }, name));
  fill(document.body,
    h("a", { class: "skip", href: "#content" }, "Skip to the content"),
    h("header", { class: "top" },
      h("a", { class: "brand", href: "/", title: archive }, shortName(archive)),
      h("nav", { "aria-label": "Pages" }, links),
      news, account,
      h("button", { class: "quiet", title: "Keys (?)", "aria-label": "Show the keys", onclick: showKeys }, "?"),
      h("button", { class: "quiet", title: "Light or dark", "aria-label": "Switch between light and dark", onclick: switchTheme }, "◐")),
    main);
  setTitle(title);
  listen();
  onChangeKey("u", "undo the last change", () => void undoLast());
  onKey("g", "go to the episodes", () => location.assign("/"));
  endCommonKeys();
  void get("/api/state").then((state) => {
    fill(account, [state.account, state.role === "reader" ? "read-only" : ""].filter(Boolean).join(" · "));
    begun = state.instant;
    onState((now) => showNews(news, now, state.episodes));
  }, () => {});
  return main;
}

/**
 * Say what goes on: how far a job is, and how many episodes came since the page was opened, whoever ingests them.
 * @param {HTMLElement} place
 * @param {Record<string, any>} now
 * @param {number} before
 */
function showNews(place, now, before) {
  const job = now.running;
  const more = now.episodes - before;
  fill(place, more > 0 && `+${number(more)} ${more === 1 ? "episode" : "episodes"} `,
    job && h("a", { href: "/maintenance" }, `${job.kind.split(" ", 2).join(" ")} ${job.what} `,
      job.total > 0 && h("progress", { max: job.total, value: job.done, "aria-label": job.kind })));
}

/** @param {string} place */
function shortName(place) {
  return place.replace(/\/+$/, "").split("/").at(-1) || place;
}

/** Take the theme that was chosen last, and draw anew when the system's changes. */
export function restoreTheme() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("themechange")));
  const chosen = localStorage.getItem("wshard-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("wshard-theme", dark ? "light" : "dark");
  window.dispatchEvent(new Event("themechange"));
}

/** @type {((state: Record<string, any>) => void)[]} */
const watching = [];

/** @param {(state: Record<string, any>) => void} act what is given the archive's state, again and again */
function onState(act) {
  if (watching.push(act) > 1) return;
  const look = async () => {
    if (!document.hidden) {
      await get("/api/state").then((state) => watching.forEach((one) => one(state)), () => {}); // the next look may be answered
    }
    setTimeout(() => void look(), POLL_MS);
  };
  void look();
}

/**
 * Call `act` when somebody else, or another program, has changed the archive.
 * @param {() => void} act
 */
export function onArchiveChange(act) {
  /** @type {string | null} */
  let known = null;
  onState(({ instant }) => {
    if ((known ?? begun ?? instant) !== instant) act();
    known = instant;
  });
}
