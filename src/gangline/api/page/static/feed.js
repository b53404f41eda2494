// The feed: decisions as they are made, newest first, in words.

import { clock, el, span } from "./words.js";

const MOST = 200;
const QUIET = new Set(["MembersReady", "CheckpointRecorded", "WaitCauseChanged", "NodeBooted"]);
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
  LeadershipTaken: (d) => ["leads", `${d.leader}, term ${d.term} (${d.why})`],
};

const seats = (d) => (d.seats || []).map((seat) => seat.node).join(", ");

const plainly = (kind) => (d) => [kind, d.why || d.reason || ""];

/** Put one decision on top; those that say little to people are left out. */
export function add(row, list) {
  if (QUIET.has(row.kind)) return;
  const [verb, more] = (WORDS[row.kind] || plainly(row.kind))(row.detail || {});
  const about = row.job || row.node || row.team || "";
  const line = el("li", { class: "new" },
    el("time", { datetime: row.at }, clock(row.at)),
    el("span", {}, el("b", {}, about), ` ${verb}`, more ? ` · ${more}` : ""));
  list.prepend(line);
  while (list.children.length > MOST) list.lastChild.remove();
}
