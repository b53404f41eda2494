// Teams: guarantee, use, loans; what each got against what it had a right to; who lent to whom.

import { spark, useBar } from "./charts.js";
import { sentence } from "./causes.js";
import * as csv from "./csv.js";
import { now, page } from "./data.js";
import { fill, sorted } from "./table.js";
import { turn } from "./turns.js";
import { day, el, empty, gpuHours, num, panel, span, teamLink } from "./words.js";

const HOURS = [
  ["24", "a day"],
  ["168", "a week"],
  ["720", "30 days"],
];
const NEVER = -Infinity;
const FRESH_MS = 60_000;
const COLUMNS = (most) => [
  {
    key: "team",
    title: "Team",
    cell: (row) => [
      teamLink(row.team),
      row.parent ? el("span", { class: "quiet" }, ` in ${row.parent}`) : "",
    ],
  },
  {
    key: "bar",
    title: "Use",
    fixed: true,
    small: true,
    cell: (row) => el("div", { class: "wide-bar" }, useBar(row, most)),
  },
  { key: "guaranteed", title: "Guaranteed", number: true, cell: (row) => num(row.guaranteed) },
  { key: "used", title: "Used", number: true, cell: (row) => el("b", {}, num(row.used)) },
  { key: "borrowed", title: "Borrowed", number: true, cell: (row) => num(row.borrowed) },
  { key: "lent", title: "Lent", number: true, cell: (row) => num(row.lent) },
  { key: "running", title: "Running", number: true, cell: (row) => num(row.running) },
  { key: "queued", title: "Waiting", number: true, cell: (row) => num(row.queued) },
  {
    key: "borrow_limit",
    title: "May borrow",
    number: true,
    small: true,
    cell: (row) => (row.borrow_limit === null ? "any" : num(row.borrow_limit)),
  },
  { key: "weight", title: "Weight", number: true, small: true, cell: (row) => num(row.weight) },
];
const OF_MODELS = {
  key: "by_model",
  title: "Of models",
  fixed: true,
  small: true,
  cell: (row) =>
    models(row).map(([model, of]) =>
      el("div", {}, el("b", {}, num(of.used)), ` of ${num(of.guaranteed)} `, el("bdi", {}, model)),
    ),
};
const models = (row) => Object.entries(row.by_model || {});

export const title = () => "Teams";

export function build({ root, query, setQuery }) {
  const { hours: back = "168", order = "-used" } = query();
  const parts = { hours: back, order, setQuery, read: NEVER };
  parts.table = el("table");
  parts.cards = el("div", { class: "cards" });
  parts.loans = el("div", { class: "scroll", tabindex: 0 });
  parts.bands = el("div", { class: "scroll", tabindex: 0 });
  const hours = el(
    "select",
    {
      "aria-label": "How far back",
      onchange: (event) => {
        parts.hours = event.target.value;
        parts.read = NEVER;
        setQuery({ hours: parts.hours });
        refresh(parts);
      },
    },
    HOURS.map(([value, words]) => el("option", { value, selected: value === parts.hours }, words)),
  );
  root.append(
    el(
      "div",
      { class: "grid" },
      panel(
        "",
        "Now",
        [csv.button("teams", () => teamRows(parts))],
        el("div", { class: "scroll" }, parts.table),
      ),
      panel(
        "",
        "Delivered against entitled",
        [hours, csv.button("shares", () => shareRows(parts))],
        parts.cards,
      ),
      panel("w7", "Who lent to whom", [csv.button("loans", () => loanRows(parts))], parts.loans),
      panel(
        "w5",
        "How long jobs waited",
        [csv.button("waits", () => bandRows(parts))],
        parts.bands,
      ),
    ),
  );
  const moved = () => {
    parts.read = NEVER;
  };
  return { refresh: () => refresh(parts), moved };
}

async function refresh(parts) {
  parts.found = await page("overview");
  await table(parts);
  // Shares come in steps of five minutes: once a minute is often enough.
  if (now() - parts.read < FRESH_MS && now() >= parts.read) return;
  parts.shares = await page("shares", { hours: parts.hours });
  parts.read = now();
  for (const draw of [cards, loans, bands]) {
    await turn();
    draw(parts);
  }
}

async function table(parts) {
  const rows = parts.found.teams;
  const most = Math.max(1, ...rows.map((row) => Math.max(row.used, row.guaranteed)));
  // Guarantees of single models of GPU are told where there are any.
  const some = rows.some((row) => models(row).length);
  const columns = [...COLUMNS(most), ...(some ? [OF_MODELS] : [])];
  await fill(parts.table, {
    columns,
    rows: sorted(rows, columns, parts.order),
    order: parts.order,
    caption: "Teams, in GPUs and jobs",
    sort: (order) => {
      parts.order = order;
      parts.setQuery({ order });
      table(parts);
    },
    none: empty("No team is set yet. Make one:", "gangline team set vision --guaranteed 64"),
  });
}

function cards(parts) {
  const by = new Map();
  for (const [team, at, got, right] of parts.shares.items) {
    by.set(team, [...(by.get(team) || []), [at, got, right]]);
  }
  if (!by.size) {
    parts.cards.replaceChildren(empty("No GPU-time yet in this window."));
    return;
  }
  const hours = parts.shares.step_ms / 3_600_000;
  parts.cards.replaceChildren(
    ...[...by].map(([team, points]) => {
      const sum = (which) => hours * points.reduce((all, point) => all + point[which], 0);
      const [got, right] = [sum(1), sum(2)];
      const words = `${num(got)} GPU-hours delivered of ${num(right)} entitled`;
      return el(
        "div",
        { class: "card" },
        el(
          "header",
          {},
          el("b", {}, el("bdi", {}, team)),
          el("span", { class: "quiet" }, right ? `${num((100 * got) / right)} %` : ""),
        ),
        spark(points, `${team}: ${words}`),
        el("p", { class: "quiet" }, words),
      );
    }),
    el(
      "p",
      { class: "quiet" },
      "Area: GPUs delivered. Dashed line: GPUs entitled (the lesser of " +
        "demand, and guarantee with a weighted share of the rest).",
    ),
  );
}

/** Lenders in rows, borrowers in columns. */
function loans(parts) {
  const found = parts.shares.loans;
  if (!found.length) {
    parts.loans.replaceChildren(empty("Nobody lent anything in this window."));
    return;
  }
  const name = (team) => team || "unguaranteed pool";
  const total = (key, team) =>
    found.filter((row) => row[key] === team).reduce((sum, row) => sum + row.gpu_ms, 0);
  const lenders = [...new Set(found.map((row) => row.lender))].sort(
    (a, b) => total("lender", b) - total("lender", a),
  );
  const borrowers = [...new Set(found.map((row) => row.borrower))].sort(
    (a, b) => total("borrower", b) - total("borrower", a),
  );
  const most = Math.max(...found.map((row) => row.gpu_ms));
  const of = (lender, borrower) =>
    found.find((row) => row.lender === lender && row.borrower === borrower)?.gpu_ms;
  const cell = (ms) =>
    el(
      "td",
      { "data-weight": ms ? Math.max(1, Math.ceil((3 * ms) / most)) : null },
      ms ? gpuHours(ms) : "·",
    );
  const [lender, borrower] = [lenders[0], borrowers[0]];
  const summary =
    `${sentence(name(lender))} lent most, ${gpuHours(total("lender", lender))} GPU-hours; ` +
    `${name(borrower)} borrowed most, ${gpuHours(total("borrower", borrower))} GPU-hours.`;
  parts.loans.replaceChildren(
    el("p", { class: "said" }, summary),
    el(
      "table",
      { class: "loans" },
      el(
        "caption",
        { class: "quiet" },
        `GPU-hours lent, ${day(parts.shares.from_ms)} to ` +
          `${day(parts.shares.to_ms)}: lender in rows, borrower in columns`,
      ),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Lender"),
          borrowers.map((team) => el("th", { scope: "col" }, name(team))),
          el("th", { scope: "col" }, "All"),
        ),
      ),
      el(
        "tbody",
        {},
        lenders.map((lender) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, name(lender)),
            borrowers.map((borrower) => cell(of(lender, borrower))),
            el("td", {}, el("b", {}, gpuHours(total("lender", lender)))),
          ),
        ),
      ),
    ),
  );
}

const BANDS = ["1-7", "8-127", "128+"];

/** Teams in rows, sizes in columns: within which time half and nine of ten of the jobs started. */
function bands(parts) {
  const found = parts.shares.bands;
  const teams = [...new Set(found.map((row) => row.team))];
  const columns = BANDS.map((band) => ({
    key: band,
    title: `${band.replace("-", "–")} GPUs`,
    number: true,
    cell: (team) => waited(found.find((row) => row.team === team && row.band === band)),
  }));
  const named = (team) => (team ? teamLink(team) : el("b", {}, "all teams"));
  const made = el("table", { class: "waited" });
  fill(made, {
    columns: [{ key: "team", title: "Team", cell: named }, ...columns],
    rows: teams,
    caption: "Waits until the first start, by team and size: half within, 90 % within",
    none: empty("No job started in this window."),
  });
  const words = "Half of the jobs started within the first time, 90 % within the second.";
  parts.bands.replaceChildren(made, teams.length ? el("p", { class: "under" }, words) : "");
}

const jobsOf = ({ started }) => (started === 1 ? "1 job" : `${num(started)} jobs`);

function waited(row) {
  if (!row) return "·";
  return el(
    "span",
    { title: `${jobsOf(row)} started` },
    el("b", {}, span(Number(row.p50_s))),
    ` / ${span(Number(row.p90_s))}`,
    el("small", { class: "quiet" }, jobsOf(row)),
  );
}

const TEAM_FIELDS = [
  "team",
  "parent",
  "guaranteed",
  "used",
  "guaranteed_used",
  "borrowed",
  "lent",
  "running",
  "queued",
  "weight",
];
const teamRows = (parts) => {
  const { teams } = parts.found;
  const some = teams.some((team) => models(team).length);
  const one = ([model, of]) => `${of.used} of ${of.guaranteed} ${model}`;
  return {
    head: [...TEAM_FIELDS, ...(some ? ["by_model"] : [])],
    rows: teams.map((team) => [
      ...TEAM_FIELDS.map((name) => team[name]),
      ...(some ? [models(team).map(one).join("; ")] : []),
    ]),
  };
};
const shareRows = (parts) => ({
  head: ["team", "from", "delivered_gpus", "entitled_gpus"],
  rows: parts.shares.items.map(([team, at, ...rest]) => [
    team,
    new Date(at).toISOString(),
    ...rest,
  ]),
});
const loanRows = (parts) => ({
  head: ["lender", "borrower", "gpu_hours"],
  rows: parts.shares.loans.map((row) => [row.lender, row.borrower, row.gpu_ms / 3_600_000]),
});
const bandRows = (parts) => ({
  head: ["team", "band", "started", "p50_s", "p90_s"],
  rows: parts.shares.bands.map((row) => [
    row.team,
    row.band,
    row.started,
    Number(row.p50_s),
    Number(row.p90_s),
  ]),
});
