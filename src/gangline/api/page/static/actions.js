// What can be done from the page: each asks first, says what it did, and why it cannot.

import { post, shown } from "./data.js";
import { el } from "./words.js";

/** Why the signed-in one may not; empty when they may. need: "jobs" of a team, or "operate". */
export function mayNot(need, team) {
  if (shown.at !== null) return "Go back to live to change things.";
  const who = shown.who;
  if (!who) return "Sign in to change things.";
  if (who.role === "operate") return "";
  if (need === "jobs" && who.team === team && who.role !== "audit" && who.role !== "read")
    return "";
  return `${who.name} may not: it has the role ${who.role}${who.team ? ` in ${who.team}` : ""}.`;
}

/** A button for an action. fields: of the body, [name, label, kind, options]. */
export function button(words, { path, title, text, fields = [], need, team, danger, fixed = {} }) {
  const reason = mayNot(need, team);
  const open = () => ask({ title: title || words, text, fields, path, words, danger, fixed });
  return el(
    "button",
    {
      type: "button",
      class: danger ? "danger" : null,
      disabled: Boolean(reason),
      title: reason || title || words,
      onclick: open,
    },
    words,
  );
}

function ask({ title, text, fields, path, words, danger, fixed }) {
  const dialog = document.getElementById("ask");
  const alert = el("p", { role: "alert" });
  const form = el(
    "form",
    { method: "dialog" },
    fields.map(input),
    alert,
    el(
      "div",
      { class: "row" },
      el("button", { type: "button", onclick: () => dialog.close() }, "Leave it"),
      el("button", { class: danger ? "danger" : "strong" }, words),
    ),
  );
  let asking = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (asking) return;
    asking = true;
    const body = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
    try {
      const found = await post(path, { ...fixed, ...body });
      dialog.close();
      done(`${title}: asked for, ${found.position || "done"}`);
    } catch (error) {
      alert.textContent = error.message;
      asking = false;
    }
  });
  dialog.replaceChildren(
    el("h2", { id: "ask-title" }, title),
    el("p", { class: "quiet" }, text),
    form,
  );
  dialog.showModal();
}

function input([name, label, kind, options]) {
  const made =
    kind === "select"
      ? el(
          "select",
          { name },
          options.map((word) => el("option", {}, word)),
        )
      : el("input", { name, placeholder: options || "", maxlength: 200, autocomplete: "off" });
  return el("label", {}, label, made);
}

/** Say for a while what was done. */
function done(words) {
  const note = document.getElementById("done");
  note.textContent = words;
  note.hidden = false;
  setTimeout(() => {
    note.hidden = true;
  }, 8_000);
}
