// The time: a slider over all that was decided, steps by decision and minute, and a field to type.
// While the past is shown, the live feed stands still and says so.

import { get, shown } from "./data.js";
import { day, exact, span } from "./words.js";

const $ = (id) => document.getElementById(id);
const STEPS = 1000;
let line = { from_ms: null, to_ms: null, bars: [], steps: 240 };
let moved = () => {};

/** The end of the line: the clock, as the fleet goes on without decisions too. */
const end = () => Math.max(line.to_ms || 0, Date.now());

/** Ask again how far the past goes, and what happened in it; gives the answer. */
export async function refresh() {
  line = await get("/page/timeline");
  draw();
  return line;
}

/** Listen to everything. changed: called when another moment is to be shown. */
export function begin(changed) {
  moved = changed;
  let timer = null;
  $("slider").addEventListener("input", () => {
    say(position());
    clearTimeout(timer);
    timer = setTimeout(() => go(Number($("slider").value) === STEPS ? null : position()), 120);
  });
  $("before").addEventListener("click", () => byDecision("before"));
  $("after").addEventListener("click", () => byDecision("next"));
  $("minute-before").addEventListener("click", () => byMinute(-1));
  $("minute-after").addEventListener("click", () => byMinute(1));
  $("to-live").addEventListener("click", () => go(null));
  $("go").addEventListener("submit", (event) => {
    event.preventDefault();
    const at = parse($("moment").value.trim());
    $("moment").setAttribute("aria-invalid", String(Number.isNaN(at)));
    if (Number.isNaN(at)) $("track-words").textContent = "not a time: try 03:00, or 2h";
    else go(at);
  });
  window.addEventListener("resize", draw);
}

/** Milliseconds of what was typed: a time (UTC), milliseconds, `2h` ago; null for live. */
export function parse(text) {
  const at = read(text);
  // Nobody has seen the future: what comes next is shown as it comes.
  return at === null || at >= Date.now() ? null : Math.max(0, at);
}

function read(text) {
  if (!text || text === "now" || text === "live") return null;
  const sizes = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  const back = /^(\d+(?:\.\d+)?)\s*([smhd])(?:\s*ago)?$/.exec(text);
  if (back) return Date.now() - Number(back[1]) * sizes[back[2]];
  if (/^\d{12,}$/.test(text)) return Number(text);
  if (/^\d{1,2}:\d{2}(:\d{2})?$/.test(text)) {
    const today = new Date().toISOString().slice(0, 10);
    const at = Date.parse(`${today}T${text.replace(/^(\d):/, "0$1:")}Z`);
    return at > Date.now() ? at - 864e5 : at;
  }
  // As the page itself writes times: the last one that has been.
  const short = /^(\d{1,2} [A-Za-z]{3}) (\d{1,2}:\d{2}(?::\d{2})?)$/.exec(text);
  if (short) {
    const year = new Date().getUTCFullYear();
    const at = Date.parse(`${short[1]} ${year} ${short[2]} UTC`);
    return at > Date.now() ? Date.parse(`${short[1]} ${year - 1} ${short[2]} UTC`) : at;
  }
  const iso = text.replace(" ", "T");
  return Date.parse(/[zZ]$|[+-]\d\d:?\d\d$/.test(iso) || iso.length <= 10 ? iso : `${iso}Z`);
}

const position = () => {
  const part = Number($("slider").value) / STEPS;
  return Math.round(line.from_ms + part * (end() - line.from_ms));
};

async function byDecision(way) {
  const from = shown.at ?? (line.to_ms || Date.now()) + 1;
  const found = await get(`/page/step?at=${Math.round(from)}&way=${way}`);
  if (found.at_ms !== null) go(found.at_ms);
  else if (way === "next") go(null);
}

function byMinute(by) {
  const at = (shown.at ?? Date.now()) + by * 60_000;
  go(at >= Date.now() ? null : at);
}

function go(at) {
  moved(at === null ? null : Math.round(at));
}

/** Show which moment is shown. */
export function draw() {
  const { at } = shown;
  const empty = line.from_ms === null;
  $("slider").disabled = empty;
  $("first").textContent = empty ? "nothing yet" : day(line.from_ms);
  document.body.classList.toggle("past", at !== null);
  $("past").hidden = at === null;
  if (!empty) {
    const part = at === null ? 1 : (at - line.from_ms) / (end() - line.from_ms);
    $("slider").value = String(Math.round(STEPS * Math.min(1, Math.max(0, part))));
  }
  $("slider").setAttribute("aria-valuetext", at === null ? "live" : `${exact(at)} UTC`);
  say(at);
  if (at !== null) {
    const before = !empty && at < line.from_ms;
    $("past").textContent =
      (before ? `Nothing was decided before ${exact(line.from_ms)} UTC. ` : "") +
      `You see ${exact(at)} UTC, ${span((Date.now() - at) / 1000)} ago. ` +
      "The live feed is paused.";
    if (document.activeElement !== $("moment")) $("moment").value = exact(at);
  } else if (document.activeElement !== $("moment")) $("moment").value = "";
  activity();
}

function say(at) {
  $("track-words").textContent = at === null ? "live" : `${exact(at)} UTC`;
}

/** How much happened: starts as grey bars, evictions and faults as signs above them. */
function activity() {
  const canvas = $("activity");
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const most = Math.max(1, ...line.bars.map((bar) => bar.starts + bar.evictions));
  const wide = width / line.steps;
  for (const bar of line.bars) {
    const x = bar.step * wide;
    const tall = (height - 5) * Math.sqrt(bar.starts / most);
    pen.fillStyle = style.getPropertyValue("--away");
    pen.fillRect(x, height - tall, Math.max(1, wide - 0.6), tall);
    const out = (height - 5) * Math.sqrt(bar.evictions / most);
    pen.fillStyle = style.getPropertyValue("--stopping");
    pen.fillRect(x, height - out, Math.max(1, wide / 2), out);
    if (bar.faults) {
      pen.fillStyle = style.getPropertyValue("--out");
      pen.fillRect(x, 0, Math.max(2, wide), Math.min(5, 1 + bar.faults));
    }
  }
}
