// One node: what runs there, what was wrong with it, and who did what to it.

import * as actions from "./actions.js";
import { because } from "./causes.js";
import * as csv from "./csv.js";
import { now, page, shown } from "./data.js";
import { fill } from "./table.js";
import { inWords } from "./tell.js";
import {
  ago,
  day,
  el,
  empty,
  jobLink,
  millis,
  num,
  panel,
  span,
  tag,
  tiles,
  time,
} from "./words.js";

export const title = (name) => `Node ${name}`;

export function build({ root, name }) {
  const parts = { name, head: el("div", { class: "title" }), body: el("div", { class: "grid" }) };
  root.append(parts.head, parts.body);
  return { refresh: () => refresh(parts) };
}

async function refresh(parts) {
  const found = await page(`nodes/${encodeURIComponent(parts.name)}`);
  parts.found = found;
  // What is the same is not made anew: whoever reads or has the keyboard there is not disturbed.
  const text = JSON.stringify({ ...found, at_ms: shown.at });
  if (text === parts.read) return;
  parts.read = text;
  const { node } = found;
  parts.head.replaceChildren(
    el("h1", {}, el("bdi", {}, node.node)),
    tag(node.health),
    tag(node.service),
    buttons(node),
  );
  parts.body.replaceChildren(summary(node), jobs(node), about(node), faults(parts), story(parts));
}

function buttons(node) {
  const path = `/v1/nodes/${encodeURIComponent(node.node)}`;
  const why = ["why", "Why (colleagues read it)"];
  const need = "operate";
  return el(
    "div",
    { class: "actions" },
    node.service === "open"
      ? actions.button("Cordon", {
          need,
          path: `${path}/cordon`,
          fields: [why],
          text: "No new work comes here; what runs goes on.",
        })
      : actions.button("Uncordon", {
          need,
          path: `${path}/uncordon`,
          text: "It takes new work again.",
        }),
    actions.button("Drain", {
      need,
      path: `${path}/drain`,
      danger: true,
      fields: [why, ["deadline", "Deadline, as 2h; empty: none", "text", "2h"]],
      text: "It is emptied; what still runs at the deadline is stopped and queued again.",
    }),
  );
}

function summary(node) {
  const held = node.held ?? node.used ?? 0;
  return tiles([
    [`${num(held)} of ${num(node.gpus)}`, "GPUs in use"],
    [num(node.bad), "GPUs out"],
    [num(node.jobs.length), "jobs here"],
    [num(node.strikes || 0), "strikes", "count towards quarantine"],
    [(node.path || []).join(" / ") || "–", "place in the tree"],
  ]);
}

function jobs(node) {
  const list = node.jobs.length
    ? el(
        "ul",
        { class: "feed" },
        node.jobs.map((job) => el("li", { class: "plain" }, jobLink(job))),
      )
    : empty("Nothing runs here.");
  return panel("w4", "What runs here", [], list);
}

function about(node) {
  const labels = Object.entries(node.labels || {}).map(([key, value]) => `${key}=${value}`);
  const facts = [
    ["Health", [tag(node.health), " ", because(node.health_cause)]],
    ["Since", ago(node.health_since, now())],
    ["Service", [tag(node.service), " ", node.service_cause || ""]],
    ["Set by", node.service_by],
    ["Deadline", node.deadline ? day(node.deadline) : ""],
    [
      "Window",
      node.maintenance && node.maintenance.from_ms
        ? `${day(node.maintenance.from_ms)} to ` +
          `${day(node.maintenance.until_ms)}: ${node.maintenance.why || ""}`
        : "",
    ],
    ["Labels", labels.join(", ")],
    ["Address", node.address],
    ["Agent", node.agent_version],
  ];
  return panel(
    "w8",
    "How it is",
    [],
    el(
      "dl",
      { class: "facts" },
      facts
        .filter(([, value]) => value)
        .flatMap(([word, value]) => [el("dt", {}, word), el("dd", {}, value)]),
    ),
  );
}

const FAULTS = [
  { key: "kind", title: "Fault", cell: (row) => el("b", {}, row.kind) },
  {
    key: "gpu",
    title: "GPU",
    number: true,
    cell: (row) => (row.gpu === null ? "node" : num(row.gpu)),
  },
  { key: "from", title: "From", cell: (row) => time(row.from_at) },
  {
    key: "for",
    title: "For",
    number: true,
    cell: (row) =>
      row.to_at && millis(row.to_at) <= now()
        ? span((millis(row.to_at) - row.from_ms) / 1000)
        : "goes on",
  },
  { key: "strike", title: "Strike", cell: (row) => (row.strike ? "yes" : "") },
];

function faults(parts) {
  const table = el("table");
  fill(table, {
    columns: FAULTS,
    rows: parts.found.faults,
    caption: "Faults, newest first",
    none: empty("Nothing was ever wrong with it."),
  });
  return panel(
    "w5",
    "Faults",
    [
      csv.button("faults", () => ({
        head: ["node", "gpu", "kind", "from", "to"],
        rows: parts.found.faults.map((row) => [
          row.node,
          row.gpu,
          row.kind,
          row.from_at,
          row.to_at,
        ]),
      })),
    ],
    el("div", { class: "scroll", tabindex: 0 }, table),
  );
}

function story(parts) {
  const table = el("table");
  fill(table, {
    caption: "Decisions about the node, newest first",
    columns: [
      { key: "at", title: "At", cell: (row) => time(row.at) },
      { key: "verb", title: "What", cell: (row) => el("b", {}, inWords(row)[0]) },
      {
        key: "more",
        title: "Why and who",
        words: true,
        cell: (row) => [row.job ? jobLink(row.job) : "", " ", inWords(row)[1] || ""],
      },
    ],
    rows: parts.found.decisions,
    none: empty("Nothing yet."),
  });
  return panel(
    "w7",
    "Its history",
    [
      csv.button("history", () => ({
        head: ["at", "kind", "what", "detail"],
        rows: parts.found.decisions.map((row) => [row.at, row.kind, ...inWords(row)]),
      })),
    ],
    el("div", { class: "scroll", tabindex: 0 }, table),
  );
}
