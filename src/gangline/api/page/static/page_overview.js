// Overview: how much of the fleet is used and by whom, where what stands, and what is wrong.

import { Because, because } from "./causes.js";
import { reading, stacked, useBar, waitBar } from "./charts.js";
import * as csv from "./csv.js";
import { now, page, shown } from "./data.js";
import { FleetMap, KINDS, teamColour } from "./fleetmap.js";
import { alarmRows, teamRows, useRows, waitRows } from "./overview_rows.js";
import { QUIET, item } from "./tell.js";
import { turn } from "./turns.js";
import {
  ago,
  el,
  empty,
  gpus,
  nodeLink,
  num,
  panel,
  percent,
  tag,
  teamLink,
  tiles,
} from "./words.js";

const FEED = 14;
const HOURS = [
  ["24", "a day"],
  ["168", "a week"],
  ["720", "30 days"],
];

export const title = () => "Overview";

export function build({ root, open, query, setQuery }) {
  const parts = { query, setQuery, hours: query().hours || "168", made: null };
  parts.numbers = el("div", { class: "grid" });
  parts.under = el(
    "p",
    { class: "under", role: "status" },
    "Point at a GPU; click opens its node.",
  );
  parts.map = new FleetMap({
    opened: (node) => open(`/nodes/${encodeURIComponent(node)}`),
    said: (words) => {
      parts.under.textContent = words;
    },
  });
  parts.map.mode = query().colour || "state";
  parts.legend = el("ul", { class: "legend", "aria-label": "What the colours mean" });
  parts.chart = el("div", { class: "chart" });
  parts.reading = el("ul", { class: "legend", "aria-label": "Use by cause" });
  parts.teams = el("div", { class: "bars" });
  parts.waits = el("div", { class: "bars waits" });
  parts.alarms = el("div", { class: "scroll" });
  parts.feed = el("ol", { class: "feed two" });
  const first = "gangline submit --team TEAM --gpus 8 -- python train.py";
  parts.quiet = empty("Nothing was decided yet. The first job comes by", first);
  parts.quiet.hidden = true;
  root.append(parts.numbers, lay(parts));
  return {
    refresh: () => refresh(parts),
    moved: () => {
      parts.used = 0;
    },
    drawn: () => {
      parts.used = 0;
      parts.map.draw();
      legend(parts);
    },
    heard: (row) => heard(parts, row),
  };
}

function lay(parts) {
  const modes = el(
    "div",
    { class: "chips" },
    [
      ["state", "State"],
      ["team", "Team"],
    ].map(([mode, words]) =>
      el(
        "button",
        {
          type: "button",
          "data-mode": mode,
          "aria-pressed": String(parts.map.mode === mode),
          onclick: () => recolour(parts, mode),
        },
        words,
      ),
    ),
  );
  parts.modes = modes;
  const zoom = [
    ["−", -1, "Smaller"],
    ["+", 1, "Larger"],
  ].map(([words, by, label]) =>
    el(
      "button",
      {
        type: "button",
        "aria-label": label,
        onclick: () => parts.map.zoomed(by),
      },
      words,
    ),
  );
  const hours = el(
    "select",
    {
      "aria-label": "How far back",
      onchange: (event) => {
        parts.hours = event.target.value;
        parts.used = 0;
        parts.setQuery({ hours: parts.hours });
        refresh(parts);
      },
    },
    HOURS.map(([value, words]) => el("option", { value, selected: value === parts.hours }, words)),
  );
  return el(
    "div",
    { class: "grid below" },
    el(
      "div",
      { class: "w8 stack" },
      panel(
        "",
        "Fleet",
        [modes, ...zoom, csv.button("fleet", () => parts.map.csv())],
        parts.map.element,
        parts.map.aside,
        parts.legend,
        parts.under,
      ),
      panel(
        "",
        "Use by cause",
        [hours, csv.button("use", () => useRows(parts))],
        parts.chart,
        parts.reading,
      ),
    ),
    el(
      "div",
      { class: "w4 stack" },
      panel(
        "",
        "Who uses, borrows and lends",
        [csv.button("teams", () => teamRows(parts))],
        parts.teams,
      ),
      panel("", "Why jobs wait", [csv.button("reasons", () => waitRows(parts))], parts.waits),
      panel("", "What is wrong", [csv.button("alarms", () => alarmRows(parts))], parts.alarms),
    ),
    panel(
      "",
      "Latest decisions",
      [el("a", { href: "/decisions" }, "all")],
      parts.feed,
      parts.quiet,
    ),
  );
}

async function refresh(parts) {
  const asked = [page("overview"), page("fleet")];
  if (!(now() - (parts.used || 0) < 60_000)) asked.push(page("usage", { hours: parts.hours }));
  const [found, fleet, usage] = await Promise.all(asked);
  parts.found = found;
  const steps = [
    () => numbers(parts, found),
    () => parts.map.show(fleet, found.teams.map((team) => team.team)),
    () => parts.map.describe(),
    () => legend(parts),
    () => teams(parts, found.teams),
    () => waits(parts, found.queue),
    () => alarms(parts, found.alarms),
    () => usage && use(parts, usage),
  ];
  for (const step of steps) {
    step();
    await turn();
    if (parts.found !== found) return;
  }
  const kinds = shown.at !== null || !parts.feed.children.length;
  if (!kinds) return;
  const rows = (await latest()).map(item);
  parts.feed.replaceChildren(...rows);
  parts.quiet.hidden = rows.length > 0;
}

async function latest() {
  const rows = (await page("decisions", { limit: 120 })).items;
  return rows.filter(loud).slice(0, FEED);
}

function numbers(parts, found) {
  const { fleet } = found;
  const of = (state) => (found.jobs.find((row) => row.state === state) || { jobs: 0 }).jobs;
  const waiting = found.queue.reduce((sum, row) => sum + row.jobs, 0);
  const wanted = found.queue.reduce((sum, row) => sum + row.gpus, 0);
  const loans = found.teams.reduce((sum, row) => sum + (row.parent ? 0 : row.borrowed), 0);
  parts.numbers.replaceChildren(
    tiles([
      [
        percent(fleet.held, fleet.total),
        "GPUs in use",
        `${num(fleet.held)} of ${num(fleet.total)}`,
        "/teams",
      ],
      [num(fleet.free), "GPUs free", `on ${num(fleet.nodes)} nodes`, "/nodes?order=held"],
      [
        num(fleet.unhealthy),
        "GPUs unhealthy",
        `${num(found.alarms.length)} nodes need a look`,
        "/nodes?order=-bad",
      ],
      [
        num(of("running")),
        "jobs running",
        `${num(of("starting"))} starting, ` + `${num(of("preempting"))} stopping`,
        "/jobs?state=running",
      ],
      [num(waiting), "jobs waiting", `for ${gpus(wanted)}`, "/queue"],
      [num(loans), "GPUs borrowed", "beyond guarantees", "/teams?order=-borrowed"],
    ]),
  );
}

function recolour(parts, mode) {
  parts.map.mode = mode;
  parts.map.lit = null;
  for (const button of parts.modes.children) {
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  }
  parts.setQuery({ colour: mode === "state" ? "" : mode });
  parts.map.draw();
  legend(parts);
}

function legend(parts) {
  const { map } = parts;
  if (!map.fleet) return;
  const none = !map.fleet.total;
  map.element.hidden = none;
  parts.under.hidden = none;
  if (none) {
    const words = "No node has come up yet. On each node:";
    parts.legend.replaceChildren(el("li", {}, empty(words, "gangline agent --bus URL")));
    return;
  }
  if (map.mode === "team") {
    const gpus = new Map();
    for (const [, team, count] of map.fleet.jobs) gpus.set(team, (gpus.get(team) || 0) + count);
    parts.legend.replaceChildren(
      ...map.teams.filter((team) => gpus.has(team)).map((team) =>
        el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              "aria-pressed": String(map.lit === team),
              onclick: () => {
                map.lit = map.lit === team ? null : team;
                map.draw();
                legend(parts);
              },
            },
            swatch(teamColour(map.teams, team)),
            team,
            el("span", { class: "quiet" }, num(gpus.get(team))),
          ),
        ),
      ),
    );
    return;
  }
  const counts = {};
  for (const row of map.rows()) {
    for (const [key, count] of Object.entries(row.counts)) counts[key] = (counts[key] || 0) + count;
  }
  const style = getComputedStyle(document.documentElement);
  parts.legend.replaceChildren(
    ...KINDS.filter(([letter]) => counts[letter] || "r.".includes(letter)).map(
      ([letter, word, colour]) =>
        el(
          "li",
          {},
          swatch(style.getPropertyValue(colour)),
          word,
          el("span", { class: "quiet" }, num(counts[letter] || 0)),
        ),
    ),
  );
}

function swatch(colour) {
  const made = el("i", { class: "swatch" });
  made.style.background = colour;
  return made;
}

function teams(parts, rows) {
  if (!rows.length) {
    parts.teams.replaceChildren(
      empty("No team is set yet. Make one:", "gangline team set vision --guaranteed 64"),
    );
    return;
  }
  const most = Math.max(...rows.map((team) => Math.max(team.used, team.guaranteed)));
  const ordered = [...rows].sort((a, b) => b.used - a.used);
  parts.teams.replaceChildren(
    ...ordered.map((team) =>
      el(
        "div",
        { class: "bar-row" },
        teamLink(team.team),
        useBar(team, most),
        el(
          "span",
          { class: "figures", title: "used of guaranteed; borrowed or lent" },
          el("b", {}, num(team.used)),
          el("span", { class: "quiet" }, ` / ${num(team.guaranteed)} `),
          team.borrowed ? `+${num(team.borrowed)}` : team.lent ? `−${num(team.lent)}` : "",
        ),
      ),
    ),
    el(
      "p",
      { class: "quiet" },
      "GPUs used / guaranteed, + borrowed (striped), − lent. " + "The stroke marks the guarantee.",
    ),
  );
}

/** What waits by its reason; each leads to those jobs in the queue. */
function waits(parts, rows) {
  if (!rows.length) {
    parts.waits.replaceChildren(el("p", { class: "empty" }, "Nothing waits."));
    return;
  }
  const most = Math.max(...rows.map((row) => row.gpus));
  const ordered = [...rows].sort((a, b) => b.gpus - a.gpus);
  parts.waits.replaceChildren(
    ...ordered.map((row) => {
      const words = Because(row.reason) || "Not decided yet";
      const to = `/queue?reason=${encodeURIComponent(row.reason)}`;
      return el(
        "div",
        { class: "bar-row" },
        el("a", { href: to, class: "name", title: words }, words),
        waitBar(row, most),
        el(
          "span",
          { class: "figures" },
          el("b", {}, num(row.jobs)),
          el("span", { class: "quiet" }, ` ${row.jobs === 1 ? "job" : "jobs"}, ${gpus(row.gpus)}`),
        ),
      );
    }),
  );
}

/** The worst that holds of a node: its sign and word, why, and since when. */
function wrong(row) {
  if (row.health !== "well") {
    const why = because(row.health_cause);
    return { sign: row.health, word: row.health, why, since: row.health_since };
  }
  if (row.service !== "open") {
    const why = [row.service_cause, row.service_by && `by ${row.service_by}`];
    const since = row.service_since;
    return { sign: row.service, word: row.service, why: why.filter(Boolean).join(", "), since };
  }
  return { sign: "out", word: `${gpus(row.bad)} out`, why: row.out_cause, since: row.out_since };
}

function alarms(parts, rows) {
  if (!rows.length) {
    const some = parts.found.fleet.nodes > 0;
    const words = some ? "Nothing. All nodes are well and open." : "No node yet.";
    parts.alarms.replaceChildren(el("p", { class: "empty" }, words));
    return;
  }
  const body = rows
    .slice(0, 60)
    .map((row) =>
      el(
        "tr",
        {},
        el("td", {}, nodeLink(row.node)),
        el("td", {}, tag(wrong(row).sign, wrong(row).word)),
        el("td", { class: "quiet why-short" }, wrong(row).why),
        el("td", { class: "number quiet" }, ago(wrong(row).since, now())),
      ),
    );
  parts.alarms.replaceChildren(
    el(
      "table",
      {},
      el("caption", { class: "sr" }, "Nodes that need a look"),
      el(
        "thead",
        { class: "sr" },
        el(
          "tr",
          {},
          ["node", "what", "why", "for"].map((word) => el("th", { scope: "col" }, word)),
        ),
      ),
      el("tbody", {}, body),
    ),
  );
}

function use(parts, usage) {
  parts.used = now();
  parts.usage = usage;
  if (!parts.usage.items.length) {
    parts.chart.replaceChildren(empty("No GPU-time yet in this window."));
    parts.reading.replaceChildren();
    return;
  }
  const read = (index, made) => parts.reading.replaceChildren(...reading(made, index));
  const { made } = stacked(parts.chart, parts.usage, read);
  parts.made = made;
  read(null, made);
}

/** Whether a decision is worth a line here; that a finished gang is out, its end says too. */
const loud = (row) =>
  !QUIET.includes(row.kind) && !(row.kind === "GangReleased" && row.detail.cause === "finished");

function heard(parts, row) {
  if (!loud(row)) return;
  parts.quiet.hidden = true;
  const line = item(row);
  line.classList.add("new");
  parts.feed.prepend(line);
  while (parts.feed.children.length > FEED) parts.feed.lastChild.remove();
}
