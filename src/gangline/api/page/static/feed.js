// The feed: decisions as they are made, newest first, in words.

import { clock, el, span } from "./words.js";

const HISTORY = 40;
const MOST = 200;
const QUIET = new Set(["MembersReady", "CheckpointRecorded", "WaitCauseChanged", "NodeBooted",
  "InputRejected"]);
const WORDS = {
  JobQueued: (d) => ["queued", `${d.spec ? `${d.spec.gpus} GPUs for ${d.spec.team}` : ""}`],
  JobRejected: (d) => ["rejected", d.text],
  JobHeld: (d) => ["held", d.why],
  JobReleased: () => ["released", ""],
  JobRequeued: (d) => ["queued again", `after ${d.cause}`],
  JobFinished: (d) => [d.outcome, d.reason],
  GangPlaced: (d) => ["placed", `attempt ${d.attempt} on ${seats(d)}`],
  GangStarted: (d) => ["started", d.resumed_ms ? `resumed at ${span(d.resumed_ms / 1000)}` : ""],
  GangStartAborted: (d) => ["start aborted", d.why],
  GangPreempted: (d) => ["preempted", `for ${d.claimant} (${d.cause})`],
  GangStopping: (d) => ["stopping", d.cause],
  GangReleased: (d) => ["out", d.cause],
  MemberEnded: (d) => ["member ended", `code ${d.code} on ${d.node}`],
  NodeAdded: (d) => ["joined", `${d.gpus} GPUs`],
  NodeHealthChanged: (d) => [d.health, d.cause],
  NodeServiceChanged: (d) => [d.service, d.cause],
  TeamChanged: (d) => ["team", `${d.guaranteed} GPUs guaranteed`],
  MembersReady: (d) => ["ready", (d.nodes || []).join(", ")],
  CheckpointRecorded: (d) => ["saved", `step ${d.step}, ${span(d.productive_ms / 1000)} of work`],
  WaitCauseChanged: (d) => [`waits: ${d.cause}`, d.text],
  Waits: (d) => [`waits: ${d.cause}`, ""],
  PriorityChanged: () => ["in another class", ""],
  ReservationPlanned: (d) => ["has a place kept", d.kind],
  ReservationReleased: (d) => ["has no place kept any more", d.why],
  NodeBooted: (d) => ["came up", d.address],
  GpuWithdrawn: (d) => [`GPU ${d.gpu} is out`, d.fault],
  GpuReturned: (d) => [`GPU ${d.gpu} is back`, ""],
  QueueConsidered: () => ["the queue was considered again", "nothing followed"],
  PolicyChanged: (d) => ["policy", Object.keys(d.values || {}).join(", ")],
  InputRejected: (d) => ["a fact changed nothing", `${d.reason} (${d.topic})`],
  LeadershipTaken: (d) => ["leads", `${d.leader}, term ${d.term} (${d.why})`],
};

const seats = (d) => (d.seats || []).map((seat) => seat.node).join(", ");

const plainly = (kind) => (d) => [kind, d.why || d.reason || ""];

/** What a decision says: a verb, and more. */
export function inWords(row) {
  return (WORDS[row.kind] || plainly(row.kind))(row.detail || {});
}

/** Where to begin to follow, so that the feed has a little history: some batches before the end. */
export function beginning(projections) {
  const position = (projections.find((view) => view.view === "decisions") || {}).position || "";
  const [topic, partition, offset] = position.split("-");
  return offset > HISTORY ? `${topic}-${partition}-${offset - HISTORY}` : "";
}

/** Put one decision on top; those that say little to people are left out. */
export function add(row, list) {
  if (QUIET.has(row.kind)) return;
  const [verb, more] = inWords(row);
  const about = row.job || row.node || row.team || "";
  const line = el("li", { class: "new" },
    el("time", { datetime: row.at }, clock(row.at)),
    el("span", {}, el("b", {}, about), ` ${verb}`, more ? ` · ${more}` : ""));
  list.prepend(line);
  while (list.children.length > MOST) list.lastChild.remove();
}
