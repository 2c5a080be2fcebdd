// What is known and said of one episode, beside its player: review, notes, findings, metadata, lanes, history.
import { episodePath, get } from "../base/api.js";
import { fill, h } from "../base/dom.js";
import { moment, plain, shown, size } from "../base/format.js";
import { locationOf } from "../model/brief.js";
import { askCollection, askReview, askTag, note, rate, tag } from "./annotations.js";

/** @typedef {import("../base/api.js").Json} Json */

/** @param {string} uid @param {Json} about @returns {import("../base/dom.js").Child[]} */
export function drawFacts(uid, about) {
  const target = { episodes: [uid] };
  const rating = about.scores?.rating ?? null;
  const stars = [1, 2, 3, 4, 5].map((value) =>
    h("button", { class: "star", "aria-label": `Rate ${value}`, "aria-pressed": String(value <= (rating ?? 0)), onclick: () => void rate([uid], value) }, value <= (rating ?? 0) ? "★" : "☆"));
  const input = h("textarea", { rows: 2, "aria-label": "A note", placeholder: "Write a note" });
  const history = h("ol", { class: "history" });
  return [
    h("section", {}, h("h2", {}, "Review"),
      h("p", {}, about.review?.state ? h("span", { class: `tag state-${about.review.state}` }, about.review.state) : h("span", { class: "soft" }, "not reviewed"), " ", stars),
      h("div", { class: "actions" },
        h("button", { onclick: () => askReview(target) }, "Review ", h("kbd", {}, "r")),
        h("button", { onclick: () => void askTag(target) }, "Tag ", h("kbd", {}, "t")),
        h("button", { onclick: () => void askCollection(target) }, "Collect ", h("kbd", {}, "c"))),
      h("p", {}, about.tags.map((/** @type {string} */ name) =>
        h("span", { class: "tag" }, name, h("button", { class: "off", "aria-label": `Remove tag ${name}`, onclick: () => void tag(target, name, true) }, "✕"))))),
    h("section", {}, h("h2", {}, "Notes"),
      (about.notes || []).map((/** @type {Json} */ one) => h("p", { class: "note" }, one.text, h("small", {}, ` ${one.who} ${moment(one.at)}`))),
      h("form", {
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          if (input.value.trim()) void note(target, input.value.trim());
        },
      }, input, h("button", {}, "Add"))),
    about.findings && h("section", {}, h("h2", {}, "Findings of checks"),
      about.findings.map((/** @type {Json} */ one) => h("p", {}, h("span", { class: "flag" }, one.check), ` ${one.reason}`))),
    Object.keys(about.metadata).length > 0 && h("section", {}, h("h2", {}, "Metadata"), pairs(about.metadata)),
    h("section", {}, h("h2", {}, "Recorded"), pairs({
      reward: about.total_reward, success: about.success, ingested: about.ingested_at && `${moment(about.ingested_at)} UTC`,
      file: locationOf({ root: about.root, path: about.file_path, key: about.key }), ...(about.files.length > 1 ? { files: about.files.length } : {}),
      size: size(about.size), lineage: (about.lineage || []).map((/** @type {Json} */ one) => `${one.relation} ${one.source}`).join(", ") || null,
      collections: (about.collections || []).join(", ") || null,
    }), about.files.length === 1 && !about.key && h("a", { href: `/api/episodes/${encodeURIComponent(uid)}/file`, download: "" }, "Download the file")),
    about.scores && h("section", {}, h("h2", {}, "Scores"), pairs(about.scores)),
    h("section", {}, h("h2", {}, "Lanes"), pairs(Object.fromEntries(Object.entries(about.lanes)))),
    h("details", {}, h("summary", {}, "For programs"), pairs({ uid: about.uid, address: about.address })),
    h("details", {
      class: "audit",
      ontoggle: () => void get(`${episodePath(uid).replace("/episodes", "/api/episodes")}/history`).then((found) =>
        fill(history, found.items.map((/** @type {Json} */ one) => h("li", {}, one.kind === "review" ? (one.undoes ? "review undone" : `review: ${one.state}`) : `note: ${one.text}`, h("small", {}, ` ${one.who} ${one.at.slice(0, 19).replace("T", " ")}`))))),
    }, h("summary", {}, "History"), history),
  ];
}

/** @param {Json} values */
function pairs(values) {
  const rows = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "number" ? plain(value) : shown(value))]).flat());
}
