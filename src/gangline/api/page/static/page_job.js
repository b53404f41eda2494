// One job: why it waits, its life as a picture, where its ranks are, what was decided, its output.

import * as actions from "./actions.js";
import { because, sentence } from "./causes.js";
import * as csv from "./csv.js";
import { now, page, shown } from "./data.js";
import { gantt } from "./gantt.js";
import { Output } from "./joblog.js";
import { basis, starts } from "./page_queue.js";
import { fill } from "./table.js";
import { certificate, inWords, proven } from "./tell.js";
import {
  ago,
  clock,
  day,
  el,
  empty,
  gpuHours,
  jobLink,
  millis,
  num,
  panel,
  span,
  spoken,
  tag,
  teamLink,
  tiles,
  time,
} from "./words.js";

const OPEN = ["queued", "starting", "running", "preempting"];

export const title = (name) => `Job ${name}`;

/** How near together a gang stands. */
const within = (level) => (level === "fleet" ? "across the fleet" : `whole within one ${level}`);

const nodesOf = ({ seats }) => (seats.length === 1 ? "1 node" : `${num(seats.length)} nodes`);

export function build({ root, name }) {
  const parts = { name, head: el("div", { class: "title" }), body: el("div", { class: "grid" }) };
  parts.output = new Output(name);
  parts.below = el("div", { class: "grid below", hidden: true }, parts.output.element);
  root.append(parts.head, parts.body, parts.below);
  return { refresh: () => refresh(parts) };
}

async function refresh(parts) {
  const found = await page(`jobs/${encodeURIComponent(parts.name)}`);
  parts.found = found;
  // What is the same is not made anew: whoever reads or has the keyboard there is not disturbed.
  const queue = { ...found.queue, waited_s: 0 };
  const text = JSON.stringify({ ...found, at_ms: shown.at, queue });
  const same = text === parts.read;
  parts.read = text;
  if (!same) draw(parts);
  parts.below.hidden = shown.at !== null;
  parts.output.know(found.attempts.length, OPEN.includes(found.job.state));
  parts.picture.replaceChildren(gantt(found, now(), parts.picture.clientWidth));
}

function draw(parts) {
  const { found } = parts;
  const { job } = found;
  parts.head.replaceChildren(el("h1", {}, el("bdi", {}, job.job)), tag(job.state), buttons(job));
  parts.body.replaceChildren(
    ...[
      summary(found),
      why(found),
      lane(parts),
      ranks(found),
      found.attempts.length ? attempts(parts) : null,
      story(parts),
      about(job),
    ].filter(Boolean),
  );
}

function buttons(job) {
  const path = `/v1/jobs/${encodeURIComponent(job.job)}`;
  const common = { need: "jobs", team: job.team };
  if (!OPEN.includes(job.state)) return el("div", { class: "actions" });
  const why = ["why", "Why (colleagues read it)"];
  return el(
    "div",
    { class: "actions" },
    actions.button("Priority", {
      ...common,
      path: `${path}/priority`,
      title: "Change the class",
      text: "urgent and high may preempt lower classes.",
      fields: [["priority", "Class", "select", ["low", "normal", "high", "urgent"]]],
    }),
    job.held
      ? actions.button("Release", {
          ...common,
          path: `${path}/release`,
          text: "It may start again.",
        })
      : actions.button("Hold", {
          ...common,
          path: `${path}/hold`,
          fields: [why],
          text: "It does not start until it is released.",
        }),
    actions.button("Cancel job", {
      ...common,
      path: `${path}/cancel`,
      danger: true,
      fields: [why],
      text: "It ends; a running gang gets its grace to save.",
    }),
  );
}

function summary(found) {
  const { job } = found;
  return tiles([
    [num(job.gpus), "GPUs", `${job.class}, team ${job.team}`],
    [day(job.submitted_at), "submitted", `${ago(job.submitted_at, now())} ago by ${job.actor}`],
    [
      job.started_at && millis(job.started_at) <= now() ? span(job.wait_s) : "not yet",
      "waited for its first start",
    ],
    [num(found.attempts.length), "attempts", `${num(job.preemptions)} preemptions`],
    [span(found.attempts.length ? job.productive_s : 0), "work kept"],
    [gpuHours((job.lost_gpu_s || 0) * 1000), "GPU-hours lost", "done again"],
  ]);
}

function why(found) {
  const { job, queue } = found;
  if (queue) {
    return el(
      "p",
      { class: "why" },
      el("b", {}, `It waits: ${because(queue.reason) || "not decided yet"}.`),
      queue.reason_text ? `${sentence(spoken(queue.reason_text))}.` : "",
      el(
        "span",
        { class: "quiet line" },
        `Place ${num(queue.position)} in the queue. Estimated start: `,
        starts(queue),
        queue.start_p90_ms ? `; ${basis(queue)}.` : "",
      ),
    );
  }
  if (!job.reason && !job.reason_text) return null;
  const nearest = job.nearest ? ` Nearest that could start: ${job.nearest}` : "";
  return el(
    "p",
    { class: "why" },
    el("b", {}, `${job.state}: ${because(job.reason)}`),
    spoken(job.reason_text) + nearest,
  );
}

function lane(parts) {
  parts.picture = el("div", { class: "chart" });
  const legend = el(
    "ul",
    { class: "legend" },
    [
      ["--away", "waits"],
      ["--starting", "starting"],
      ["--running", "running; strokes are checkpoints"],
      ["--stopping", "stopping"],
      ["--out", "✕ a fault"],
    ].map(([colour, words]) => {
      const swatch = el("i", { class: "swatch" });
      swatch.style.background = `var(${colour})`;
      return el("li", {}, swatch, words);
    }),
  );
  return panel("", "Its life", [csv.button("life", () => lifeRows(parts))], parts.picture, legend);
}

/** Where the ranks are: nodes by block, in the order of their ranks. */
function ranks(found) {
  const last = [...found.attempts].reverse().find((each) => each.seats.length);
  if (!last) return null;
  const blocks = new Map();
  for (const seat of last.seats) {
    const block = (found.paths[seat.node] || []).join(" / ") || "fleet";
    blocks.set(block, [...(blocks.get(block) || []), seat]);
  }
  const title = last.ended_at
    ? `Ranks of attempt ${last.attempt} (ended)`
    : `Ranks of attempt ${last.attempt}`;
  return panel(
    "",
    title,
    [
      el(
        "span",
        { class: "quiet" },
        `${within(last.level)}, on ${nodesOf(last)}`,
      ),
    ],
    el(
      "div",
      { class: "ranks scroll" },
      [...blocks].map(([block, list]) =>
        el(
          "div",
          { class: "block" },
          el("b", {}, block),
          el("div", {}, list.map(rank)),
        ),
      ),
    ),
  );
}

function rank(seat) {
  const last = seat.first_rank + seat.gpus.length - 1;
  const gpus = `${seat.gpus[0]}–${seat.gpus[seat.gpus.length - 1]}`;
  return el(
    "a",
    { href: `/nodes/${encodeURIComponent(seat.node)}` },
    seat.node,
    el("span", {}, `rank ${seat.first_rank}–${last} · GPU ${gpus}`),
  );
}

const ATTEMPTS = [
  { key: "attempt", title: "Attempt", cell: (row) => num(row.attempt) },
  { key: "state", title: "State", cell: (row) => tag(row.state) },
  { key: "placed", title: "Placed", cell: (row) => time(row.placed_at) },
  { key: "ended", title: "Ended", cell: (row) => time(row.ended_at) },
  { key: "nodes", title: "Nodes", number: true, cell: (row) => num(row.seats.length) },
  {
    key: "resumed",
    title: "Resumed at",
    number: true,
    cell: (row) => (row.resumed_s ? span(row.resumed_s) : ""),
  },
  { key: "saves", title: "Checkpoints", number: true, cell: (row) => num(row.checkpoints) },
  {
    key: "lost",
    title: "Lost",
    number: true,
    cell: (row) => (row.lost_gpu_s ? `${gpuHours(row.lost_gpu_s * 1000)} GPU-h` : ""),
  },
  {
    key: "cause",
    title: "Why it ended",
    words: true,
    cell: (row) => [
      row.claimant ? el("span", {}, "made room for ", jobLink(row.claimant), ": ") : "",
      because(row.cause_text || row.cause),
    ],
  },
];

function attempts(parts) {
  const table = el("table");
  fill(table, {
    columns: ATTEMPTS,
    rows: parts.found.attempts,
    caption: "Attempts",
    none: empty("It has not been placed yet."),
  });
  return panel("", "Attempts", [], el("div", { class: "scroll" }, table));
}

function story(parts) {
  const waits = parts.found.waits.map((each) => ({
    at: each.from_ms,
    kind: "waits",
    verb: `waits: ${because(each.cause)}`,
    more: each.to_ms ? `for ${span((each.to_ms - each.from_ms) / 1000)}` : "until now",
  }));
  const decided = gathered(parts.found.decisions).map((row) => {
    if (row.members) {
      const members = `${num(row.members)} members`;
      const over = row.kind === "MemberEnded";
      return {
        at: millis(row.at),
        kind: row.kind,
        verb: over ? "members ended" : "ready",
        more: over ? `${members}, code ${row.detail.code}` : members,
      };
    }
    const [verb, more] = inWords(row);
    const proof = certificate(row);
    return { at: millis(row.at), kind: row.kind, verb, more, proof };
  });
  parts.story = [...waits, ...decided].sort((a, b) => b.at - a.at);
  const table = el("table");
  fill(table, {
    caption: "Decisions and waits, newest first",
    columns: [
      {
        key: "at",
        title: "At",
        cell: (row) => time(row.at, (at) => `${day(at)}${clock(at).slice(5)}`),
      },
      { key: "verb", title: "What", cell: (row) => el("b", {}, row.verb) },
      {
        key: "more",
        title: "Detail and certificate",
        words: true,
        cell: (row) => [row.more || "", ...proven(row.proof || [])],
      },
    ],
    rows: parts.story,
    none: empty("Nothing yet."),
  });
  return panel(
    "w8",
    "What was decided",
    [
      csv.button("story", () => ({
        head: ["at", "kind", "what", "detail", "certificate"],
        rows: parts.story.map((row) => [
          new Date(row.at).toISOString(),
          row.kind,
          row.verb,
          row.more,
          (row.proof || []).join("; "),
        ]),
      })),
    ],
    el("div", { class: "scroll", tabindex: 0 }, table),
  );
}

const OF_MEMBERS = ["MemberEnded", "MembersReady"];

/** The members of a gang move together: one line for all that follow each other with one code. */
function gathered(rows) {
  return rows.reduce((list, row) => {
    const last = list[list.length - 1];
    const alike =
      last &&
      OF_MEMBERS.includes(row.kind) &&
      last.kind === row.kind &&
      last.detail.code === row.detail.code &&
      last.detail.attempt === row.detail.attempt;
    if (alike) last.members = (last.members || 1) + 1;
    else list.push({ ...row });
    return list;
  }, []);
}

function about(job) {
  const spec = job.spec || {};
  const save = spec.checkpoint ? `every ${span(spec.checkpoint.interval_ms / 1000)}` : "none";
  const topology = spec.topology
    ? `${spec.topology.kind}${spec.topology.level ? `:${spec.topology.level}` : ""}`
    : "";
  const labels = Object.entries(spec.labels || {})
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
  const facts = [
    ["Team", teamLink(job.team)],
    ["Class", tag(job.class)],
    ["GPUs", num(job.gpus)],
    ["GPUs a node", spec.gpus_per_node ? num(spec.gpus_per_node) : "any split"],
    ["Topology", topology],
    ["Limit", spec.limit_ms ? span(spec.limit_ms / 1000) : "none declared"],
    ["Checkpoints", save],
    ["Retries", `${num(job.retries_used)} of ${num(spec.retries)} used`],
    ["Labels", labels],
    ["Submission", job.submission],
    ["Number", num(job.number)],
  ];
  return panel(
    "w4",
    "What it asked for",
    [],
    el(
      "dl",
      { class: "facts" },
      facts
        .filter(([, value]) => value !== "" && value !== null)
        .flatMap(([word, value]) => [el("dt", {}, word), el("dd", {}, value)]),
    ),
  );
}

const lifeRows = (parts) => ({
  head: ["lane", "what", "from", "to"],
  rows: [
    ...parts.found.waits.map((each) => [
      "waits",
      each.cause,
      day(each.from_ms),
      each.to_ms && day(each.to_ms),
    ]),
    ...parts.found.attempts.map((each) => [
      `attempt ${each.attempt}`,
      each.cause || each.state,
      each.placed_at,
      each.ended_at,
    ]),
    ...parts.found.faults.map((each) => [
      each.node,
      each.kind,
      day(each.from_ms),
      each.to_ms && day(each.to_ms),
    ]),
  ],
});
