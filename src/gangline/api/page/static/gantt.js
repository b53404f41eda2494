// A job's life: a lane for its waits, one for each attempt, signs for checkpoints and faults.

import { because } from "./causes.js";
import { clock, day, millis, span, svg } from "./words.js";

const LANE = 26;
const LEFT = 84;
// What fits beside a bar.
const SHORT = { infrastructure: "fault", user: "failed", start_aborted: "not ready" };

/** The picture. found: what the API says of the job; until: the moment that is shown. */
export function gantt(found, until, width) {
  const from = found.job.submitted_ms;
  const ends = [millis(found.job.ended_at), ...found.attempts.map((each) => millis(each.ended_at))];
  const live = !millis(found.job.ended_at);
  const to = Math.max(from + 60_000, live ? until : Math.max(...ends.filter(Boolean)));
  const wide = Math.max(120, width - LEFT - (width < 520 ? 62 : 76));
  const x = (at) => LEFT + (wide * (Math.min(to, Math.max(from, at)) - from)) / (to - from);
  const rows = found.attempts.length + 1;
  const drawn = [
    lane("waits", 0, width),
    ...found.waits.flatMap((each) => wait(each, x, until)),
    ...found.attempts.flatMap((each, i) => [
      lane(`attempt ${each.attempt}`, i + 1, width),
      ...attempt(each, i + 1, x, until),
    ]),
    ...found.decisions
      .filter((row) => row.kind === "CheckpointRecorded")
      .map((row) => saved(row, found.attempts, x)),
    ...found.faults.flatMap((each) => fault(each, found.attempts, x)),
    ...ticks(from, to, x, rows * LANE, wide < 520 ? 2 : 5),
  ];
  return svg(
    "svg",
    {
      class: "gantt",
      width,
      height: rows * LANE + 26,
      role: "img",
      "aria-label":
        `${found.attempts.length} attempts between ${day(from)} and ${day(to)}; ` +
        "the tables below say the same",
    },
    drawn,
  );
}

function lane(words, row, width) {
  const y = row * LANE;
  return svg(
    "g",
    {},
    svg("text", { x: 0, y: y + 17 }, words),
    svg("line", { class: "lane", x1: 0, x2: width, y1: y + LANE - 0.5, y2: y + LANE - 0.5 }),
  );
}

function bar(kind, [from, to], row, title, words = "") {
  const wide = Math.max(1.5, to - from);
  const text =
    wide > 7 * words.length + 10 && words
      ? svg("text", { class: "in", x: from + 6, y: row * LANE + 17 }, words)
      : null;
  return svg(
    "g",
    {},
    svg(
      "rect",
      {
        class: kind,
        x: from,
        y: row * LANE + 5,
        width: wide,
        height: LANE - 10,
        rx: 3,
      },
      svg("title", {}, title),
    ),
    text,
  );
}

function wait(each, x, until) {
  const to = each.to_ms ?? until;
  const lasted = span((to - each.from_ms) / 1000);
  const title = `${because(each.cause)}: ${lasted} from ${day(each.from_ms)}`;
  return [bar("wait", [x(each.from_ms), x(to)], 0, title, because(each.cause))];
}

function attempt(each, row, x, until) {
  const times = ["placed_at", "started_at", "stopping_at", "ended_at"].map((key) =>
    millis(each[key]),
  );
  const [placed, started, stopping, ended] = times;
  const end = ended ?? until;
  const parts = [];
  if (placed) {
    const to = started ?? end;
    parts.push(bar("start", [x(placed), x(to)], row, `starting: ${span((to - placed) / 1000)}`));
  }
  if (started) {
    const to = stopping ?? end;
    parts.push(
      bar(
        "run",
        [x(started), x(to)],
        row,
        `running: ${span((to - started) / 1000)}`,
        `${each.gpus} GPUs`,
      ),
    );
  }
  if (stopping) {
    const why = because(each.cause) || "told to";
    const title = `stopping (${why}): ${span((end - stopping) / 1000)}`;
    parts.push(bar("stop", [x(stopping), x(end)], row, title));
  }
  if (ended && each.cause) {
    const words = SHORT[each.cause] || each.cause;
    // Where it broke stands a cross.
    const left = x(ended) + (each.cause === "infrastructure" ? 10 : 5);
    parts.push(svg("text", { x: left, y: row * LANE + 17 }, words));
  }
  return parts;
}

function saved(row, attempts, x) {
  const at = millis(row.at);
  const lane = 1 + attempts.findIndex((each) => each.attempt === (row.detail || {}).attempt);
  if (lane < 1) return svg("g");
  return svg(
    "line",
    { class: "save", x1: x(at), x2: x(at), y1: lane * LANE + 6, y2: lane * LANE + LANE - 6 },
    svg("title", {}, `checkpoint at ${clock(at)}`),
  );
}

/** A cross on the attempt that stood there when it broke. */
function fault(each, attempts, x) {
  const lane =
    1 +
    attempts.findIndex(
      (attempt) =>
        attempt.placed_ms <= each.from_ms &&
        (millis(attempt.ended_at) ?? Infinity) >= each.from_ms - 120_000 &&
        attempt.seats.some(
          (seat) => seat.node === each.node && (each.gpu === null || seat.gpus.includes(each.gpu)),
        ),
    );
  if (lane < 1) return [];
  const [at, y] = [x(each.from_ms), lane * LANE + LANE / 2];
  const path = `M${at - 5},${y - 5}L${at + 5},${y + 5}M${at + 5},${y - 5}L${at - 5},${y + 5}`;
  return [
    svg(
      "path",
      { class: "fault", d: path },
      svg("title", {}, `${each.kind} on ${each.node} at ${clock(each.from_ms)}`),
    ),
  ];
}

function ticks(from, to, x, y, count) {
  return Array.from({ length: count }, (_, i) => {
    const at = from + ((to - from) * i) / (count - 1);
    const anchor = i === 0 ? "start" : i === count - 1 ? "end" : "middle";
    return svg("text", { x: x(at), y: y + 18, "text-anchor": anchor }, day(at));
  });
}
