// All jobs, newest first; at a past moment, those that were there.

import { because } from "./causes.js";
import { now, page, shown } from "./data.js";
import { choice, fill, listing, typed } from "./table.js";
import { el, empty, jobLink, millis, minutes, num, span, spoken, tag } from "./words.js";

const STATES = [
  "",
  "running",
  "queued",
  "starting",
  "preempting",
  "ended",
  "succeeded",
  "failed",
  "cancelled",
  "rejected",
];
const COLUMNS = [
  { key: "job", title: "Job", cell: (row) => jobLink(row.job) },
  { key: "state", title: "State", cell: (row) => tag(row.state) },
  { key: "team", title: "Team", cell: (row) => el("bdi", {}, row.team) },
  { key: "class", title: "Class", small: true, cell: (row) => tag(row.class) },
  { key: "gpus", title: "GPUs", number: true, cell: (row) => num(row.gpus) },
  {
    key: "node_count",
    title: "Nodes",
    number: true,
    small: true,
    cell: (row) => num(row.node_count || null),
  },
  {
    key: "age",
    title: "Submitted",
    number: true,
    cell: (row) =>
      `${minutes((now() - millis(row.submitted_at ?? row.submitted_ms)) / 1000)} ago`,
  },
  { key: "wait", title: "Waited", number: true, cell: (row) => span(row.wait_s) },
  {
    key: "attempts",
    title: "Attempts",
    number: true,
    small: true,
    cell: (row) => num(row.attempts),
  },
  {
    key: "preemptions",
    title: "Preempted",
    number: true,
    small: true,
    cell: (row) => (row.preemptions ? `${row.preemptions}×` : ""),
  },
  {
    key: "reason",
    title: "Reason",
    words: true,
    small: true,
    cell: (row) => spoken(row.reason_text) || because(row.reason),
  },
];

export const title = () => "Jobs";

export function build({ root, query, setQuery }) {
  const parts = { wanted: query(), limit: 100, setQuery };
  const want = (changes) => {
    Object.assign(parts.wanted, changes);
    setQuery(changes);
    show(parts);
  };
  const filters = el(
    "div",
    { class: "filters" },
    typed("Job", "text", parts.wanted.text, (text) => want({ text })),
    choice(
      "State",
      "state",
      STATES.map((state) => [state, state || "all"]),
      parts.wanted.state || "",
      (state) => want({ state }),
    ),
    typed("Team", "team", parts.wanted.team, (team) => want({ team })),
  );
  root.append(
    listing(parts, {
      title: "Jobs",
      name: "jobs",
      filters,
      rows,
      further: () => {
        parts.limit += 200;
        show(parts);
      },
    }),
  );
  return { refresh: () => show(parts) };
}

async function show(parts) {
  parts.found = await page("jobs", { ...parts.wanted, limit: Math.min(1000, parts.limit) });
  parts.count.textContent =
    `${num(parts.found.items.length)} shown` +
    (shown.at === null ? "" : ", of those that waited or held GPUs at that moment");
  parts.more.hidden = !parts.found.next || parts.limit >= 1000;
  await fill(parts.table, {
    columns: COLUMNS,
    rows: parts.found.items,
    caption: "Jobs, newest first",
    none: empty(
      "No job matches. The first one is submitted with",
      "gangline submit --team TEAM --gpus 8 -- python train.py",
    ),
  });
}

const rows = (parts) => ({
  head: [
    "job",
    "state",
    "team",
    "class",
    "gpus",
    "submitted",
    "wait_s",
    "attempts",
    "preemptions",
    "reason",
  ],
  rows: parts.found.items.map((row) => [
    row.job,
    row.state,
    row.team,
    row.class,
    row.gpus,
    row.submitted_at ?? row.submitted_ms,
    row.wait_s,
    row.attempts,
    row.preemptions,
    row.reason_text || row.reason,
  ]),
});
