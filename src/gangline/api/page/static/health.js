// Whether what is shown is live, and if not why: the API is silent or away, its views are behind.

import { shown } from "./data.js";
import { exact, inert, num, span } from "./words.js";

const $ = (id) => document.getElementById(id);
const LATE_MS = 8_000;
const BEHIND_S = 30;
const WORDS = {
  live: "live",
  dead: "not reachable, trying again",
  late: "no answer yet, waiting",
  behind: "behind",
  paused: "paused in the past",
};

let connected = "connecting";
let late = false;
let behind = "";

/** The stream of decisions is live or dead, or its like. */
export function connection(word) {
  connected = word;
  draw();
}

/** Say how it stands, in a word. */
export function draw() {
  const now = connected === "live" && behind ? "behind" : connected;
  const word = late ? "late" : shown.at !== null && connected !== "dead" ? "paused" : now;
  $("live").className = word;
  $("live-text").textContent = WORDS[word] || word;
}

/** Work with the API; where it is silent for long, that is said and not taken for quiet. */
export async function watched(work) {
  const timer = setTimeout(() => {
    late = true;
    draw();
  }, LATE_MS);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    late = false;
    draw();
  }
}

/** Learn how far the views are, from what `/page/timeline` says; whether they are behind. */
export function know({ views, now_ms: nowMs }) {
  behind = words(views, nowMs);
  $("behind").hidden = !behind;
  $("behind").textContent = inert(behind);
  draw();
  return Boolean(behind);
}

/** Why the views do not show the present; empty where they do. */
function words(views, nowMs) {
  const { at_ms: at, lag_s: lag, lag_events: left, looked_ms: looked, problem, making } = views;
  if (making) {
    const come = at === null ? "" : `, and has come to ${exact(at)} UTC`;
    return `The past of this fleet is being made${come}. A moment, please.`;
  }
  if (at === null) return "";
  const since = `What you see is of ${exact(at)} UTC`;
  const silent = (nowMs - looked) / 1000;
  if (problem) return `${since}, or partly later: a view stands still. ${problem}`;
  if (silent > BEHIND_S) {
    return `${since}: no projector has looked into the log for ${span(silent)}.`;
  }
  if (lag <= BEHIND_S) return "";
  return `${since}, ${span(lag)} ago: the views still have ${num(left)} records to read.`;
}
