// Words, numbers and small elements that all parts of the page share.

// Unicode's own lists: controls, formats, fillers, what has no picture, and halves of characters.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const COLOURS = /\u001b\[[0-9;]*m/g;
const SVG = "http://www.w3.org/2000/svg";

/** Text of others, with what cannot be seen or turns text around shown as a box. */
export const inert = (text) => String(text).replace(UNSEEN, "▯");

/** The same for what programs print: lines stay lines, and colours of terminals go. */
export const inertLines = (text) =>
  text
    .replaceAll("\r\n", "\n")
    .replace(COLOURS, "")
    .replace(UNSEEN, (each) => (each === "\n" || each === "\t" ? each : "▯"));

/** An element with attributes and children; texts are always texts, never HTML. */
export function el(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}

/** The same for pictures. */
export function svg(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

function dress(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : value);
    }
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === "") continue;
    made.append(child instanceof Node ? child : inert(child));
  }
  return made;
}

/** What stands between thousands: a thin space, that no language takes for a comma or a point. */
export const THIN = "\u202f";

const FORMATS = [0, 1].map(
  (digits) =>
    new Intl.NumberFormat("en", { maximumFractionDigits: digits, minimumFractionDigits: digits }),
);

/** A number as people read it: the one place where numbers are written. */
const written = (value, digits) => FORMATS[digits].format(value).replaceAll(",", THIN);

/** `1 234`. */
export const num = (value) =>
  value === null || value === undefined ? "" : written(Math.round(value) || 0, 0);

// Numbers of the scheduler's sentences; not names that are made of digits, nor what is to be typed.
const COUNTED = new RegExp(
  [
    String.raw`(?<=\b(?:uses|is|most|needs|with) |\()\d{4,}(?![\w.:=/-])`,
    String.raw`(?<= |^)\d{4,}(?= (?:GPUs|nodes|more|other|are|may|of|free)\b)`,
  ].join("|"),
  "g",
);

/** The scheduler's words with their numbers as the page writes them. */
export const spoken = (text) =>
  text ? text.replace(COUNTED, (digits) => written(BigInt(digits), 0)) : "";

/** `1 GPU`, `8 GPUs`. */
export const gpus = (count) => (count === 1 ? "1 GPU" : `${num(count)} GPUs`);

/** `93.4 %`. */
export const percent = (part, all) =>
  all ? `${written(Math.round((1000 * part) / all) / 10 || 0, 1)} %` : "–";

/** GPU-milliseconds as GPU-hours. */
export function gpuHours(ms) {
  const hours = ms / 3600000;
  return written(hours, hours !== 0 && Math.abs(hours) < 10 ? 1 : 0);
}

/** `1h 30m` of seconds. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of [
    ["d", 86400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ]) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

/** The same to the minute, for what is looked at while it grows: `12s`, `1m`, `1h 30m`. */
export const minutes = (seconds) =>
  span(seconds >= 60 ? Math.floor(seconds / 60) * 60 : seconds);

/** Milliseconds of whatever names a moment; null for none. */
export function millis(moment) {
  if (moment === null || moment === undefined || moment === "") return null;
  return typeof moment === "number" ? moment : new Date(moment).getTime();
}

/** How long before (or after) the moment that is shown. */
export function ago(moment, from) {
  const at = millis(moment);
  if (at === null) return "";
  const passed = (from - at) / 1000;
  return passed < -1 ? `in ${span(-passed)}` : span(passed);
}

/** `03:04:05`, UTC. */
export const clock = (moment) => new Date(millis(moment)).toISOString().slice(11, 19);

/** `30 Nov 03:04`, UTC. */
export function day(moment) {
  const at = new Date(millis(moment));
  const month = at.toLocaleString("en", { month: "short", timeZone: "UTC" });
  return `${at.getUTCDate()} ${month} ${at.toISOString().slice(11, 16)}`;
}

/** `2026-11-30 03:04:05`, UTC. */
export const exact = (moment) =>
  new Date(millis(moment)).toISOString().slice(0, 19).replace("T", " ");

/** A time that says all of itself when pointed at. */
export function time(moment, words = day) {
  const at = millis(moment);
  if (at === null) return "";
  return el("time", { datetime: new Date(at).toISOString(), title: `${exact(at)} UTC` }, words(at));
}

/** A state, class or health: a sign and its word. */
export const tag = (word, words = word) => el("span", { class: `tag ${word}` }, words);

/** A link to a job, node or team, that keeps the moment. */
export const jobLink = (job) => link(`/jobs/${encodeURIComponent(job)}`, job);
export const nodeLink = (node) => link(`/nodes/${encodeURIComponent(node)}`, node);
export const teamLink = (team) => link(`/queue?team=${encodeURIComponent(team)}`, team);

function link(to, words) {
  return el("a", { href: to, class: "name" }, el("bdi", {}, words));
}

/** A panel with a title and tools. */
export function panel(width, title, tools, ...children) {
  const head = el("header", {}, el("h2", {}, title), el("div", { class: "tools" }, ...tools));
  return el("section", { class: `panel ${width}`, "aria-label": title }, head, ...children);
}

/** What stands where nothing is yet: what to do first. */
export function empty(words, command) {
  return el("p", { class: "empty" }, words, " ", command ? el("code", {}, command) : null);
}

/** Definition tiles: [value, word, more, to]; `to`: the page that says more. */
export function tiles(rows) {
  return el(
    "dl",
    { class: "tiles" },
    rows.map(([value, word, more, to]) =>
      el(
        "div",
        {},
        el("dt", {}, to ? el("a", { href: to }, word) : word),
        el("dd", {}, value),
        more ? el("dd", { class: "more" }, more) : null,
      ),
    ),
  );
}
