// Each picture as CSV: rows of texts and numbers, made here from what is drawn.

import { THIN, el } from "./words.js";

const DANGEROUS = /^[=+\-@\t\r]/;

/** One field; a text that a spreadsheet would run is put after a quote. */
export function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const plain = String(value).replaceAll(THIN, "");
  const text = DANGEROUS.test(plain) ? `'${plain}` : plain;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Lines of a head and rows. */
export const lines = (head, rows) =>
  [head, ...rows].map((row) => row.map(field).join(",")).join("\r\n");

/** A button that saves what `make` gives: {head, rows}. */
export function button(name, make) {
  const save = () => {
    const { head, rows } = make();
    const url = URL.createObjectURL(new Blob([lines(head, rows)], { type: "text/csv" }));
    el("a", { href: url, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return el("button", { type: "button", onclick: save, title: `Save ${name}.csv` }, "CSV");
}
