// Nodes: health, service, what is out; filters by a click.

import { because } from "./causes.js";
import { now, page } from "./data.js";
import { fill, listing, sorted, typed } from "./table.js";
import { ago, el, empty, nodeLink, num, tag } from "./words.js";

const COLUMNS = [
  { key: "node", title: "Node", cell: (row) => nodeLink(row.node) },
  {
    key: "path",
    title: "Place",
    small: true,
    by: (row) => row.path.join("/"),
    cell: (row) => row.path.join(" / "),
  },
  { key: "health", title: "Health", cell: (row) => tag(row.health) },
  { key: "service", title: "Service", cell: (row) => tag(row.service) },
  {
    key: "held",
    title: "GPUs in use",
    number: true,
    cell: (row) => `${num(row.held)} of ${num(row.gpus)}`,
  },
  { key: "bad", title: "Out", number: true, cell: (row) => (row.bad ? num(row.bad) : "") },
  {
    key: "strikes",
    title: "Strikes",
    number: true,
    small: true,
    cell: (row) => (row.strikes ? num(row.strikes) : ""),
  },
  {
    key: "since",
    title: "Since",
    number: true,
    small: true,
    by: (row) => since(row),
    cell: (row) => ago(since(row), now()),
  },
  { key: "cause", title: "Why", words: true, fixed: true, small: true, cell: (row) => cause(row) },
];
const MOST = 100;

export const title = () => "Nodes";

const since = (row) => (row.service !== "open" ? row.service_since : row.health_since) || null;

function cause(row) {
  if (row.service !== "open") {
    return [row.service_cause, row.service_by && `by ${row.service_by}`].filter(Boolean).join(", ");
  }
  return row.health === "well" ? "" : because(row.health_cause);
}

/** Each node stands in one group. */
const group = (row) =>
  row.health !== "well"
    ? row.health
    : row.service !== "open"
      ? row.service
      : row.bad
        ? "GPUs out"
        : "well";

export function build({ root, query, setQuery }) {
  const { order = "node", group: kept = "", text = "" } = query();
  const parts = { order, kept, text, most: MOST, setQuery };
  parts.chips = el("div", { class: "chips", role: "group", "aria-label": "Nodes by condition" });
  const filters = el(
    "div",
    { class: "filters" },
    typed("Node or block", "text", text, (words) => {
      parts.text = words;
      setQuery({ text: words });
      draw(parts);
    }),
    parts.chips,
  );
  root.append(
    listing(parts, {
      title: "Nodes",
      name: "nodes",
      filters,
      rows,
      further: () => {
        parts.most += 400;
        draw(parts);
      },
    }),
  );
  return { refresh: () => refresh(parts) };
}

/** A fleet seldom changes much: what is the same is not drawn again. */
async function refresh(parts) {
  const { items } = await page("nodes");
  const text = JSON.stringify(items);
  if (text === parts.read) return;
  parts.read = text;
  parts.rows = items;
  await draw(parts);
}

function chips(parts) {
  const counts = new Map();
  for (const row of parts.rows) counts.set(group(row), (counts.get(group(row)) || 0) + 1);
  const made = [["", parts.rows.length], ...[...counts].sort((a, b) => b[1] - a[1])];
  parts.chips.replaceChildren(
    ...made.map(([key, count]) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(parts.kept === key),
          onclick: () => {
            parts.kept = key;
            parts.setQuery({ group: key });
            draw(parts);
          },
        },
        key || "all",
        el("b", {}, num(count)),
      ),
    ),
  );
}

async function draw(parts) {
  chips(parts);
  const text = parts.text.toLowerCase();
  const kept = parts.rows.filter(
    (row) =>
      (!parts.kept || group(row) === parts.kept) &&
      `${row.node}/${row.path.join("/")}`.toLowerCase().includes(text),
  );
  parts.shown = sorted(kept, COLUMNS, parts.order);
  const shown = num(Math.min(parts.most, kept.length));
  parts.count.textContent = `${shown} of ${num(kept.length)} nodes`;
  parts.more.hidden = kept.length <= parts.most;
  await fill(parts.table, {
    columns: COLUMNS,
    rows: parts.shown.slice(0, parts.most),
    order: parts.order,
    caption: "Nodes of the fleet",
    sort: (order) => {
      parts.order = order;
      parts.setQuery({ order });
      draw(parts);
    },
    none: parts.rows.length
      ? empty("No node matches.")
      : empty("No node has come up yet. On each node:", "gangline agent --bus URL"),
  });
}

const rows = (parts) => ({
  head: ["node", "path", "gpus", "held", "bad", "health", "service", "cause"],
  rows: parts.shown.map((row) => [
    row.node,
    row.path.join("/"),
    row.gpus,
    row.held,
    row.bad,
    row.health,
    row.service,
    cause(row),
  ]),
});
