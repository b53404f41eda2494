// The queue: order, class, team, why each waits and what would start it.

import { Because, sentence } from "./causes.js";
import { now, page } from "./data.js";
import { choice, fill, listing, typed } from "./table.js";
import { ago, day, el, empty, jobLink, minutes, num, spoken, tag } from "./words.js";

const PAGE = 100;
const ALL = [
  { key: "position", title: "#", number: true, cell: (row) => num(row.position) },
  { key: "job", title: "Job", cell: (row) => jobLink(row.job) },
  { key: "team", title: "Team", cell: (row) => el("bdi", {}, row.team) },
  { key: "class", title: "Class", cell: (row) => tag(row.class) },
  { key: "gpus", title: "GPUs", number: true, cell: (row) => num(row.gpus) },
  { key: "waited_s", title: "Waits for", number: true, cell: (row) => minutes(row.waited_s) },
  { key: "start_p50_ms", title: "Starts", cell: (row) => starts(row) },
  {
    key: "reason",
    title: "Because",
    words: true,
    cell: (row) => [
      el("b", {}, `${plain(row.reason)}.`),
      row.reason_text ? ` ${sentence(spoken(row.reason_text))}` : "",
    ],
  },
];
export const title = () => "Queue";

const plain = (reason) => Because(reason) || "Not decided yet";

/** What the estimate rests on. */
export const basis = (row) =>
  `half of such plans started by ${day(row.start_p50_ms)}, ` +
  `nine of ten by ${day(row.start_p90_ms)} UTC`;

function range(first, last) {
  if (!last.startsWith("in ")) return "any moment";
  return `${first.startsWith("in ") ? first : "now"} – ${last.replace("in ", "")}`;
}

/** The estimate as a range: half of all starts by the first time, nine of ten by the second. */
export function starts(row) {
  if (row.start_p50_ms === null) return el("span", { class: "quiet" }, "no plan yet");
  const first = ago(row.start_p50_ms, now());
  if (!row.start_p90_ms) return el("span", { title: "as planned then" }, day(row.start_p50_ms));
  const last = ago(row.start_p90_ms, now());
  return el("span", { title: basis(row) }, range(first, last));
}

export function build({ root, query, setQuery }) {
  const parts = { wanted: { order: "position", ...query() }, first: 0, setQuery };
  parts.hidden = new Set((parts.wanted.hide || "").split(",").filter(Boolean));
  delete parts.wanted.hide;
  parts.facts = el("div", { class: "filters" });
  const columns = el(
    "details",
    {},
    el("summary", {}, "Columns"),
    el(
      "div",
      { class: "chips" },
      ALL.slice(2).map((column) =>
        el(
          "button",
          {
            type: "button",
            "aria-pressed": String(!parts.hidden.has(column.key)),
            onclick: (event) => hide(parts, column.key, event.target),
          },
          column.title,
        ),
      ),
    ),
  );
  root.append(
    listing(parts, {
      title: "Queue",
      name: "queue",
      tools: [columns],
      filters: parts.facts,
      rows,
      further: () => {
        parts.first += PAGE;
        show(parts);
      },
    }),
  );
  return {
    refresh: () => show(parts),
    moved: () => {
      parts.first = 0;
    },
  };
}

function want(parts, changes) {
  Object.assign(parts.wanted, changes);
  parts.first = 0;
  parts.setQuery(changes.order === "position" ? { order: "" } : changes);
  show(parts);
}

function hide(parts, key, button) {
  if (parts.hidden.has(key)) parts.hidden.delete(key);
  else parts.hidden.add(key);
  button.setAttribute("aria-pressed", String(!parts.hidden.has(key)));
  parts.setQuery({ hide: [...parts.hidden].join(",") });
  draw(parts);
}

async function show(parts) {
  parts.found = await page("queue", { ...parts.wanted, limit: PAGE + parts.first });
  if (!parts.drawn) filters(parts);
  await draw(parts);
}

function filters(parts) {
  parts.drawn = true;
  const { facets } = parts.found;
  const options = (counts, words) => [
    ["", "all"],
    ...Object.entries(counts).map(([key, count]) => [
      key,
      `${words ? words(key) : key} (${count})`,
    ]),
  ];
  parts.facts.replaceChildren(
    typed("Job", "text", parts.wanted.text, (text) => want(parts, { text })),
    choice("Team", "team", options(facets.team), parts.wanted.team, (team) =>
      want(parts, { team }),
    ),
    choice("Reason", "reason", options(facets.reason, plain), parts.wanted.reason, (reason) =>
      want(parts, { reason }),
    ),
    choice("Class", "class", options(facets.class), parts.wanted.class, (value) =>
      want(parts, { class: value }),
    ),
  );
}

async function draw(parts) {
  const { found } = parts;
  parts.count.hidden = !found.total;
  parts.count.textContent =
    `${num(found.items.length)} of ${num(found.matching)} that match, ` +
    `${num(found.total)} jobs wait; those that match ask for ${num(found.gpus)} GPUs.`;
  parts.more.hidden = found.items.length >= found.matching;
  await fill(parts.table, {
    columns: ALL.filter((column) => !parts.hidden.has(column.key)),
    rows: found.items,
    caption: "Jobs that wait, in order",
    order: parts.wanted.order,
    sort: (order) => want(parts, { order }),
    none: found.total
      ? empty("No waiting job matches. Clear the filters to see all.")
      : empty(
          "Nothing waits. To try it:",
          "gangline submit --team TEAM --gpus 8 -- python train.py",
        ),
  });
}

const rows = (parts) => ({
  head: [
    "position",
    "job",
    "team",
    "class",
    "gpus",
    "waited_s",
    "start_p50",
    "start_p90",
    "reason",
    "reason_text",
  ],
  rows: parts.found.items.map((row) => [
    row.position,
    row.job,
    row.team,
    row.class,
    row.gpus,
    row.waited_s,
    row.start_p50_ms && day(row.start_p50_ms),
    row.start_p90_ms && day(row.start_p90_ms),
    row.reason,
    row.reason_text,
  ]),
});
