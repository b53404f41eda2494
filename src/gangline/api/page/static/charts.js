// Charts: use by cause stacked over time (uPlot), and small pictures in SVG.

import { clock, day, el, num, percent, svg } from "./words.js";

/** What the ledger's accounts are to people: name, accounts, colour, a sign for the legend. */
export const CAUSES = [
  ["work", ["productive", "unsaved", "checkpointing"], "--running", "█"],
  ["lost work", ["lost"], "--out", "▒"],
  ["starting and stopping", ["starting", "stopping", "stalled", "lingering"], "--starting", "▚"],
  ["kept for a plan", ["reserved"], "--reserved", "▤"],
  ["stranded by topology", ["stranded"], "--stranded", "▥"],
  ["idle", ["idle_lendable"], "--free", "░"],
  ["out of service", ["drained", "unhealthy"], "--away", "▨"],
];

const WALL = 2200;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** GPUs by cause in each step: {times (s), layers: one list for each cause}. */
export function layers(found) {
  const steps = new Map();
  for (const [from, account, gpuMs] of found.items) {
    const row = steps.get(from) || {};
    row[account] = (row[account] || 0) + gpuMs;
    steps.set(from, row);
  }
  const times = [...steps.keys()].sort((a, b) => a - b);
  const last = times.length - 1;
  const step = found.step_s * 1000;
  // Of the first and the last step only a part lies in the window.
  const lasts = times.map((from, i) =>
    Math.max(
      300_000,
      Math.min(from + step, i < last ? Infinity : found.to_ms) - Math.max(from, found.from_ms),
    ),
  );
  return {
    times: times.map((from) => Math.max(from, found.from_ms) / 1000),
    layers: CAUSES.map(([, accounts]) =>
      times.map(
        (from, i) =>
          accounts.reduce((sum, account) => sum + (steps.get(from)[account] || 0), 0) / lasts[i],
      ),
    ),
  };
}

/**
 * Draw use by cause, stacked; read: called with the index under the pointer, or null.
 *
 * The last step is drawn to its end: a cell that is minutes old has no other.
 */
export function stacked(place, found, read) {
  const made = layers(found);
  const last = made.times.length - 1;
  const closes = Math.min(made.times[last] + found.step_s, found.to_ms / 1000);
  const end = Math.max(made.times[last] + 1, closes);
  const sums = made.layers.reduce((stack, layer) => {
    const below = stack[stack.length - 1];
    stack.push(layer.map((value, i) => value + (below ? below[i] : 0)));
    return stack;
  }, []);
  const order = CAUSES.map((_, i) => i).reverse();
  const wall = window.innerWidth >= WALL;
  const axis = {
    stroke: css("--quiet"),
    grid: { stroke: css("--line"), width: 1 },
    ticks: { show: false },
    font: `${wall ? 15 : 11}px Inter, sans-serif`,
  };
  const counts = (_, ticks) => ticks.map(num);
  const dates = (_, ticks) => ticks.map((at) => day(at * 1000));
  const under = (index) => (index === null || index === undefined ? null : Math.min(index, last));
  const options = {
    width: Math.max(200, place.clientWidth),
    height: 220,
    padding: [10, 34, 0, 0],
    tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, points: { show: false } },
    scales: { y: { range: (_, __, most) => [0, most * 1.02 || 1] } },
    axes: [
      { ...axis, space: wall ? 140 : 90, size: 30, values: dates },
      { ...axis, size: 62, label: "GPUs", labelSize: 18, labelFont: axis.font, values: counts },
    ],
    series: [
      {},
      ...order.map((i) => ({
        label: CAUSES[i][0],
        fill: css(CAUSES[i][2]),
        stroke: css("--panel"),
        width: 0.6,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(plot) => read(under(plot.cursor.idx), made)] },
  };
  place.replaceChildren();
  const drawn = order.map((i) => [...sums[i], sums[i][last]]);
  const plot = new window.uPlot(options, [[...made.times, end], ...drawn], place);
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", "GPUs by cause over time; the table below says the same");
  return { plot, made };
}

/** The legend with values: all of the window, or the step under the pointer. */
export function reading(made, index) {
  const values = made.layers.map((layer) =>
    index === null
      ? layer.reduce((sum, value) => sum + value, 0) / Math.max(1, layer.length)
      : layer[index],
  );
  const all = values.reduce((sum, value) => sum + value, 0);
  const title =
    index === null || made.times[index] === undefined
      ? "on average"
      : `at ${day(made.times[index] * 1000)}`;
  return [
    el("li", { class: "quiet" }, title),
    ...CAUSES.map(([name, , colour], i) => {
      const swatch = el("i", { class: "swatch" });
      swatch.style.background = `var(${colour})`;
      return el(
        "li",
        {},
        swatch,
        name,
        el("span", { class: "quiet" }, `${num(values[i])} GPUs, ${percent(values[i], all)}`),
      );
    }),
  ];
}

/** A team's use: what is inside its guarantee, what it borrowed, and where its guarantee ends. */
export function useBar(team, most) {
  const x = (gpus) => (1000 * gpus) / Math.max(1, most);
  const lines = [];
  const [from, to] = [x(team.guaranteed_used), x(team.guaranteed_used + team.borrowed)];
  for (let at = from + 8; at < to; at += 14) {
    lines.push(svg("line", { class: "loan-lines", x1: at, x2: at, y1: 0, y2: 16 }));
  }
  return svg(
    "svg",
    {
      class: "bar",
      viewBox: "0 0 1000 16",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label":
        `${team.team}: ${team.used} GPUs used of ${team.guaranteed} guaranteed, ` +
        `${team.borrowed} borrowed, ${team.lent} lent`,
    },
    svg("rect", { class: "own", width: from, height: 16 }),
    svg("rect", { class: "loan", x: from, width: Math.max(0, to - from), height: 16 }),
    lines,
    svg("rect", { class: "mark", x: Math.max(0, x(team.guaranteed) - 2), width: 4, height: 16 }),
  );
}

/** How many GPUs wait for one reason, beside the others. */
export function waitBar(row, most) {
  return svg(
    "svg",
    { class: "bar", viewBox: "0 0 1000 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "wait", width: (1000 * row.gpus) / Math.max(1, most), height: 16 }),
  );
}

/** Delivered as an area, entitled as a dashed line. points: [ms, delivered, entitled]. */
export function spark(points, label) {
  const most = Math.max(1, ...points.map(([, got, right]) => Math.max(got, right)));
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const x = (at) => ((300 * (at - first)) / Math.max(1, last - first)).toFixed(1);
  const y = (gpus) => (52 - (48 * gpus) / most).toFixed(1);
  const line = (which) => points.map((point) => `${x(point[0])},${y(point[which])}`).join(" ");
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: "0 0 300 53",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    svg("polygon", { class: "got", points: `0,52 ${line(1)} 300,52` }),
    svg("polyline", { class: "right", points: line(2), "vector-effect": "non-scaling-stroke" }),
  );
}

/** Words of a step. */
export const stepWords = (from, to) => `${day(from)} to ${clock(to)}`;
