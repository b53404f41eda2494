// Decisions in words: a verb, and more.

import { because, sentence } from "./causes.js";
import { clock, day, el, gpus, jobLink, nodeLink, span, spoken, time } from "./words.js";

/** Kinds that say little to people; the feed leaves them out unless they are asked for. */
export const QUIET = [
  "MembersReady",
  "CheckpointRecorded",
  "WaitCauseChanged",
  "NodeBooted",
  "InputRejected",
  "MemberEnded",
  "QueueConsidered",
];

/** Kinds by what people look for. */
export const GROUPS = {
  jobs: [
    "JobQueued",
    "JobRejected",
    "JobHeld",
    "JobReleased",
    "JobRequeued",
    "JobFinished",
    "PriorityChanged",
  ],
  starts: ["GangPlaced", "GangStarted", "GangStartAborted", "MembersReady"],
  preemptions: ["GangPreempted", "GangStopping", "GangReleased"],
  faults: ["NodeHealthChanged", "GpuWithdrawn", "GpuReturned", "GangStartAborted", "MemberEnded"],
  operators: [
    "NodeServiceChanged",
    "TeamChanged",
    "PolicyChanged",
    "NodeAdded",
    "NodeDropped",
    "MaintenanceAnnounced",
  ],
  plans: ["ReservationPlanned", "ReservationReleased", "WaitCauseChanged"],
  checkpoints: ["CheckpointRecorded"],
  scheduler: ["LeadershipTaken", "LogicUpgraded", "InputRejected"],
};

const WORDS = {
  JobQueued: (d) => ["queued", d.spec ? `${gpus(d.spec.gpus)} for ${d.spec.team}` : ""],
  JobRejected: (d) => ["rejected", spoken(d.text)],
  JobHeld: (d) => ["held", d.why],
  JobReleased: () => ["released", ""],
  JobRequeued: (d) => ["queued again", because(d.cause)],
  JobFinished: (d) => [d.outcome, d.reason],
  GangPlaced: (d) => ["placed", `attempt ${d.attempt} on ${seats(d)}`],
  GangStarted: (d) => ["started", d.resumed_ms ? `resumed at ${span(d.resumed_ms / 1000)}` : ""],
  GangStartAborted: (d) => ["start aborted", d.why],
  GangPreempted: (d) => ["preempted", `for ${d.claimant}: ${because(d.cause)}`],
  GangStopping: (d) => ["stopping", because(d.cause)],
  GangReleased: (d) => [
    "out",
    [because(d.cause), d.lost_gpu_ms ? `${span(d.lost_gpu_ms / 1000)} of GPU time lost` : ""]
      .filter(Boolean)
      .join(", "),
  ],
  MemberEnded: (d) => ["member ended", `code ${d.code} on ${d.node}`],
  NodeAdded: (d) => ["joined", gpus(d.gpus)],
  NodeHealthChanged: (d) => [d.health, because(d.cause)],
  NodeServiceChanged: (d) => [d.service, [d.cause, d.by].filter(Boolean).join(", by ")],
  TeamChanged: (d) => ["team", `${gpus(d.guaranteed)} guaranteed`],
  MembersReady: (d) => ["ready", few(d.nodes || [])],
  CheckpointRecorded: (d) => ["saved", `${span(d.productive_ms / 1000)} of work`],
  WaitCauseChanged: (d) => [`waits: ${because(d.cause)}`, spoken(d.text)],
  PriorityChanged: () => ["in another class", ""],
  ReservationPlanned: (d) => [
    "has a place kept",
    `${because(d.kind)}${d.start_ms ? `, ${day(d.start_ms)}` : ""}`,
  ],
  ReservationReleased: (d) => [
    "has no place kept any more",
    PLACE_LEFT[d.why] || d.why,
  ],
  MaintenanceAnnounced: (d) => ["maintenance announced", d.why],
  NodeBooted: (d) => ["came up", d.address],
  GpuWithdrawn: (d) => [`GPU ${d.gpu} is out`, d.fault],
  GpuReturned: (d) => [`GPU ${d.gpu} is back`, ""],
  QueueConsidered: () => ["the queue was considered again", "nothing followed"],
  PolicyChanged: (d) => ["policy", Object.keys(d.values || {}).join(", ")],
  InputRejected: (d) => ["a fact changed nothing", `${d.reason} (${d.topic})`],
  LeadershipTaken: (d) => ["leads", `${d.leader}, term ${d.term} (${d.why})`],
};

/** Why a place is kept for a job no longer. */
const PLACE_LEFT = {
  started: "it has started",
  changed: "it waits in another way now",
  overtaken: "an urgent job takes it",
  expired: "its time has passed",
  fault: "a node of it fell out",
  withdrawn: "a node of it was taken out",
  cancelled: "the job was cancelled",
  held: "the job is held",
};

const few = (names) =>
  names.length <= 3
    ? names.join(", ")
    : `${names.slice(0, 2).join(", ")} and ${names.length - 2} more nodes`;

const seats = (d) => few((d.seats || []).map((seat) => seat.node));

function other(kind, alternative) {
  if (kind === "JobRejected") return `nearest that could start: ${alternative}`;
  return alternative.startsWith("no ") ? alternative : `instead of ${alternative}`;
}

/** What an auditor needs to derive it again: what bound, what broke a tie, what else there was. */
export function certificate(row) {
  const { text, certificate: found } = row.detail || {};
  const { binding, alternative } = found || {};
  const said = alternative && (text || "").includes(alternative);
  return [
    binding && `decided by: ${because(binding)}`,
    alternative && !said && other(row.kind, alternative),
    row.tie,
  ]
    .filter(Boolean)
    .map(spoken);
}

/** The same as lines under a decision. */
export const proven = (lines) =>
  lines.map((words) => el("div", { class: "proof" }, sentence(words)));

/** What a decision says: a verb, and more. */
export function inWords(row) {
  const tell = WORDS[row.kind] || ((d) => [row.kind, d.why || d.reason || ""]);
  return tell(row.detail || {});
}

/** What a decision is about, as a link. */
export function about(row) {
  if (row.job) return jobLink(row.job);
  if (row.node) return nodeLink(row.node);
  return el("b", { class: "name" }, row.team || "");
}

/** A decision as an item of a list. */
export function item(row) {
  const [verb, more] = inWords(row);
  return el(
    "li",
    {},
    time(row.at, clock),
    el(
      "span",
      {},
      about(row),
      ` ${verb}`,
      more ? el("span", { class: "quiet" }, ` · ${more}`) : "",
    ),
  );
}

/** All of a decision: what it says, and its certificate. */
export function detail(row) {
  const [, more] = inWords(row);
  return [more || "", ...proven(certificate(row))];
}
