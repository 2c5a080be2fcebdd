// Show the page that the server named.
import "./main.css";
import { ApiError } from "./base/api.js";
import { say } from "./base/dom.js";
import { restoreTheme } from "./components/shell.js";

/** @type {Record<string, () => Promise<unknown>>} */
const PAGES = {
  episodes: async () => (await import("./episodes_page.js")).showEpisodes(),
  episode: async () => (await import("./episode_page.js")).showEpisode(),
  search: async () => (await import("./search_page.js")).showSearch(),
  compare: async () => (await import("./compare_page.js")).showCompare(),
  map: async () => (await import("./map_page.js")).showMap(),
  review: async () => (await import("./review_page.js")).showReview(),
  collections: async () => (await import("./collections_page.js")).showCollections(),
  maintenance: async () => (await import("./maintenance_page.js")).showMaintenance(),
  login: async () => (await import("./login_page.js")).showLogin(),
};

// What the server refuses is shown, whatever asked for it: a button must never do nothing without a word.
window.addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof ApiError)) return;
  event.preventDefault();
  say(event.reason.message, { error: true });
});
restoreTheme();
await PAGES[document.body.dataset.page || ""]?.();
