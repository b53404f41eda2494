// Decisions as they are made, or as they were; with filters. The feed stands still in the past.

import * as csv from "./csv.js";
import { page, shown } from "./data.js";
import { choice, fill, typed } from "./table.js";
import { GROUPS, QUIET, about, detail, inWords } from "./tell.js";
import { clock, day, el, empty, num, panel, time } from "./words.js";

const PAGE = 100;
const LOUD = Object.values(GROUPS)
  .flat()
  .filter((kind) => !QUIET.includes(kind));

export const title = () => "Decisions";

export function build({ root, query, setQuery }) {
  const parts = { wanted: query(), rows: [], setQuery };
  parts.table = el("table");
  parts.count = el("p", { class: "under", role: "status" });
  parts.more = el("button", { type: "button", onclick: () => older(parts) }, "Show older");
  const want = (changes) => {
    Object.assign(parts.wanted, changes);
    setQuery(changes);
    show(parts);
  };
  const kinds = [
    ["", "what matters"],
    ["all", "everything"],
    ...Object.keys(GROUPS).map((name) => [name, name]),
  ];
  root.append(
    panel(
      "",
      "Decisions",
      [csv.button("decisions", () => rows(parts))],
      el(
        "div",
        { class: "filters" },
        choice("Kind", "kind", kinds, parts.wanted.kind || "", (kind) => want({ kind })),
        typed("Job", "job", parts.wanted.job, (job) => want({ job })),
        typed("Node", "node", parts.wanted.node, (node) => want({ node })),
        typed("Team", "team", parts.wanted.team, (team) => want({ team })),
      ),
      el("div", { class: "scroll tall" }, parts.table),
      parts.count,
      parts.more,
    ),
  );
  return { refresh: () => show(parts) };
}

/** Which decisions are wanted, as the API understands it. */
function wanted(parts) {
  const { kind, ...rest } = parts.wanted;
  const kinds = kind === "all" ? [] : kind ? GROUPS[kind] || [] : [...new Set(LOUD)];
  return { job: rest.job, node: rest.node, team: rest.team, kinds: kinds.join(","), limit: PAGE };
}

async function show(parts) {
  const found = await page("decisions", wanted(parts));
  parts.rows = found.items;
  parts.next = found.next;
  await draw(parts);
}

async function older(parts) {
  const found = await page("decisions", { ...wanted(parts), before: parts.next });
  parts.rows = [...parts.rows, ...found.items];
  parts.next = found.next;
  await draw(parts);
}

async function draw(parts) {
  parts.count.textContent =
    `${num(parts.rows.length)} shown` +
    (shown.at === null ? ", live" : "; the live feed is paused in the past");
  parts.more.hidden = !parts.next;
  await fill(parts.table, {
    caption: "Decisions, newest first",
    columns: [
      {
        key: "at",
        title: "At",
        cell: (row) => time(row.at, (at) => `${day(at)}${clock(at).slice(5)}`),
      },
      { key: "about", title: "About", cell: about },
      { key: "verb", title: "What", cell: (row) => el("b", {}, inWords(row)[0]) },
      { key: "more", title: "Detail", words: true, cell: (row) => detail(row) },
      { key: "team", title: "Team", small: true, cell: (row) => row.team || "" },
      {
        key: "position",
        title: "Position",
        small: true,
        cell: (row) => el("code", { class: "quiet" }, `${row.position}.${row.item}`),
      },
    ],
    rows: parts.rows,
    none: empty("Nothing was decided that matches. Clear the filters to see more."),
  });
}

const rows = (parts) => ({
  head: ["at", "kind", "job", "node", "team", "what", "detail", "position"],
  rows: parts.rows.map((row) => [
    row.at,
    row.kind,
    row.job,
    row.node,
    row.team,
    ...inWords(row),
    `${row.position}.${row.item}`,
  ]),
});
