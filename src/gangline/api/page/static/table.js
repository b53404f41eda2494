// Tables: columns that can be sorted and left out, rows with links.

import * as csv from "./csv.js";
import { turn } from "./turns.js";
import { el, inert, panel } from "./words.js";

const SLICE = 25;
const filling = new WeakMap();

/**
 * Fill a table, in turns where it is long; a later call for the same table wins.
 * columns: {key, title, cell(row), number, words, small}. order: key, or -key for descending.
 * sort: called with a new order; columns with `fixed` cannot be sorted by.
 */
export async function fill(table, { columns, rows, none, caption, order, sort }) {
  const head = el(
    "tr",
    {},
    columns.map((column) => heading(column, order, sort)),
  );
  const mine = {};
  filling.set(table, mine);
  const body = [];
  for (const row of rows) {
    if (body.length && body.length % SLICE === 0) await turn();
    if (filling.get(table) !== mine) return;
    body.push(line(columns, row));
  }
  if (!rows.length) {
    body.push(el("tr", {}, el("td", { class: "words", colspan: columns.length }, none)));
  }
  if (!table.tHead) {
    table.replaceChildren(
      el("caption", { class: "sr" }, caption),
      el("thead", {}, head),
      el("tbody", {}, body),
    );
    return;
  }
  settle(table.tHead, [head]);
  settle(table.tBodies[0], body);
}

const line = (columns, row) =>
  el(
    "tr",
    {},
    columns.map((column) =>
      el("td", { class: classes(column), "data-label": column.title }, column.cell(row)),
    ),
  );

/** Put rows in their places; what is there already stays, with the keyboard that may be in it. */
function settle(place, wanted) {
  const old = new Map([...place.children].map((row) => [row.textContent, row]));
  const kept = new Set();
  const rows = wanted.map((row) => {
    const same = old.get(row.textContent);
    if (!same || kept.has(same) || !same.isEqualNode(row)) return row;
    kept.add(same);
    return same;
  });
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  for (const row of [...place.children]) if (!kept.has(row)) row.remove();
  let next = place.firstChild;
  for (const row of rows) {
    if (row === next) next = next.nextSibling;
    else place.insertBefore(row, next);
  }
  if (held && !held.isConnected) again(place, held)?.focus({ preventScroll: true });
}

/** What says in a new row what an element said in the old one. */
const again = (place, held) =>
  [...place.querySelectorAll("a, button")].find(
    (each) => each.getAttribute("href") === held.getAttribute("href") && alike(each, held),
  );

const alike = (one, other) => unsorted(one) === unsorted(other);
const unsorted = (each) => each.textContent.replace(/ [↑↓]$/, "");

const classes = (column) =>
  [column.number ? "number" : "", column.words ? "words" : "", column.small ? "hide-small" : ""]
    .filter(Boolean)
    .join(" ") || null;

function heading(column, order, sort) {
  const is = order && order.replace("-", "") === column.key;
  const down = is && order.startsWith("-");
  const title =
    sort && !column.fixed
      ? el(
          "button",
          { type: "button", onclick: () => sort(is && !down ? `-${column.key}` : column.key) },
          column.title,
          is ? (down ? " ↓" : " ↑") : "",
        )
      : column.title;
  const way = is ? (down ? "descending" : "ascending") : null;
  return el("th", { scope: "col", class: classes(column), "aria-sort": way }, title);
}

const collator = new Intl.Collator("en", { numeric: true });

/** Of equals, the one whose name comes first. */
const first = (a, b) => collator.compare(a.node || a.team || "", b.node || b.team || "");

/** Rows sorted here, by a column's `by(row)` or its key. */
export function sorted(rows, columns, order) {
  const key = order.replace("-", "");
  const column = columns.find((each) => each.key === key) || {};
  const of = column.by || ((row) => row[key]);
  const way = order.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (x === y) return first(a, b);
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    if (typeof x === "number") return way * (x - y);
    return way * collator.compare(String(x), String(y));
  });
}

/** A labelled select. options: [value, words]. */
export function choice(label, name, options, value, changed) {
  const select = el(
    "select",
    { name, onchange: (event) => changed(event.target.value) },
    options.map(([key, words]) => el("option", { value: key, selected: key === value }, words)),
  );
  return el("label", {}, label, select);
}

/** A labelled field that is heard while it is typed into. */
export function typed(label, name, value, changed) {
  const input = el("input", { name, value: inert(value || ""), autocomplete: "off", size: 16 });
  let timer = null;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(input.value.trim()), 250);
  });
  return el("label", {}, label, input);
}

/**
 * A long list: its panel with filters, table, count, and a button that shows more.
 * Puts `table`, `count` and `more` into `parts`, for whoever draws.
 */
export function listing(parts, { title, name, tools = [], filters, rows, further }) {
  parts.table = el("table");
  parts.count = el("p", { class: "under", role: "status" });
  parts.more = el("button", { type: "button", onclick: further }, "Show more");
  return panel(
    "",
    title,
    [...tools, csv.button(name, () => rows(parts))],
    filters,
    el("div", { class: "scroll tall" }, parts.table),
    parts.count,
    parts.more,
  );
}
