// The queue, the list of jobs, and one job in detail.

import { inWords } from "./feed.js";
import { get } from "./source.js";
import { ago, clock, el, fill, span, tag } from "./words.js";

const name = (row) => el("button", { class: "link", onclick: () => open(row.job) }, row.job);

const QUEUE = [
  { title: "#", cell: (row) => String(row.position), number: true },
  { title: "Job", cell: name },
  { title: "Team", cell: (row) => row.team },
  { title: "Class", cell: (row) => row.class },
  { title: "GPUs", cell: (row) => String(row.gpus), number: true },
  { title: "Waits", cell: (row) => ago(row.submitted_at), number: true },
  { title: "Starts", cell: (row) => estimate(row), number: true },
  { title: "Because", cell: (row) => because(row) || "deciding", words: true },
];

const JOBS = [
  { title: "Job", cell: name },
  { title: "Team", cell: (row) => row.team },
  { title: "Class", cell: (row) => row.class },
  { title: "GPUs", cell: (row) => String(row.gpus), number: true },
  { title: "State", cell: (row) => tag(row.state) },
  { title: "Age", cell: (row) => ago(row.submitted_at), number: true },
  { title: "Waited", cell: (row) => span(row.wait_s), number: true },
  { title: "Attempts", cell: (row) => String(row.attempts), number: true },
  { title: "Preempted", cell: (row) => String(row.preemptions || ""), number: true },
  { title: "Nodes", cell: (row) => (row.nodes || []).join(", ") },
  { title: "Reason", cell: (row) => row.reason_text || row.reason || "", words: true },
];

const ATTEMPTS = [
  { title: "Attempt", cell: (row) => String(row.attempt), number: true },
  { title: "State", cell: (row) => tag(row.state) },
  { title: "Nodes", cell: (row) => (row.seats || []).map((seat) => seat.node).join(", ") },
  { title: "Started", cell: (row) => (row.started_at ? clock(row.started_at) : "") },
  { title: "Ended", cell: (row) => (row.ended_at ? clock(row.ended_at) : "") },
  { title: "Resumed at", cell: (row) => (row.resumed_s ? span(row.resumed_s) : ""), number: true },
  { title: "Lost", cell: (row) => (row.lost_gpu_s ? span(row.lost_gpu_s) : ""), number: true },
  { title: "Because", cell: (row) => row.cause_text || row.cause || "", words: true },
];

function because(row) {
  return [row.reason, row.reason_text].filter(Boolean).join(": ");
}

function estimate(row) {
  if (!row.estimated_start_p50) return "";
  return row.estimated_start_p90
    ? `${ago(row.estimated_start_p50)} – ${ago(row.estimated_start_p90)}`
    : ago(row.estimated_start_p50);
}

/** The queue, in order. */
export function showQueue(rows, table, count) {
  fill(table, QUEUE, rows, "Nothing waits.");
  count.textContent = rows.length ? `${rows.length} jobs` : "";
}

/** Jobs, newest first. */
export function showJobs(rows, table, count) {
  fill(table, JOBS, rows, "No job matches.");
  count.textContent = `${rows.length} shown`;
}

/** One job in a dialog: why it waits, its attempts, its life. */
export async function open(job) {
  const dialog = document.getElementById("detail");
  document.getElementById("detail-title").textContent = job;
  const body = document.getElementById("detail-body");
  body.replaceChildren(el("p", { class: "quiet" }, "reading …"));
  if (!dialog.open) dialog.showModal();
  const path = `/v1/jobs/${encodeURIComponent(job)}`;
  try {
    const paths = [path, `${path}/why`, `${path}/events`];
    const [row, why, life] = await Promise.all(paths.map(get));
    body.replaceChildren(...detail(row, why, life.items));
  } catch (error) {
    body.replaceChildren(el("p", { class: "why" }, error.message));
  }
}

function detail(row, why, life) {
  const reason = because(why);
  const attempts = el("table");
  fill(attempts, ATTEMPTS, row.attempts_list, "It has not been placed yet.");
  const events = el("table");
  fill(events, [
    { title: "At", cell: (event) => clock(event.at) },
    { title: "What", cell: (event) => inWords(event)[0] },
    { title: "Detail", cell: (event) => inWords(event)[1] || "", words: true },
  ], life, "Nothing yet.");
  return [
    el("p", {}, tag(row.state), ` ${row.gpus} GPUs · team ${row.team} · ${row.class} · `
      + `submitted ${ago(row.submitted_at)} ago`),
    reason ? el("p", { class: "why" }, reason) : null,
    el("h3", {}, "Attempts"), el("div", { class: "scroll" }, attempts),
    el("h3", {}, "Its life"), el("div", { class: "scroll" }, events),
  ].filter(Boolean);
}
