// Words and small elements that all parts of the page share.

/** An element with attributes and children; texts are always texts, never HTML. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** `1h30m` of seconds. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join("") || "0s";
}

/** How long ago a time was, or how far ahead it is. */
export function ago(moment) {
  if (!moment) return "";
  const passed = (Date.now() - new Date(moment).getTime()) / 1000;
  return passed < -1 ? `in ${span(-passed)}` : span(passed);
}

/** The time of day. */
export function clock(moment) {
  return new Date(moment).toLocaleTimeString([], { hour12: false });
}

/** A state as a tag. */
export function tag(word) {
  return el("span", { class: `tag ${word}` }, word);
}

/** Fill a table: columns are {title, cell(row) -> text or element, number, words}. */
export function fill(table, columns, rows, empty) {
  const head = el("tr", {}, ...columns.map(
    (column) => el("th", { scope: "col", class: column.number ? "number" : null }, column.title)));
  const body = rows.map((row) => el("tr", {}, ...columns.map((column) => el(
    "td", { class: column.number ? "number" : column.words ? "words" : null }, column.cell(row)))));
  if (!rows.length) {
    body.push(el("tr", {}, el("td", { colspan: columns.length, class: "words" }, empty)));
  }
  table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...body));
}
