// The overview's pictures as rows, for CSV.

import { CAUSES } from "./charts.js";
import { day, exact } from "./words.js";

export const useRows = (parts) => ({
  head: ["from", ...CAUSES.map(([name]) => `${name} (GPUs)`)],
  rows: parts.made
    ? parts.made.times.map((at, i) => [
        day(at * 1000),
        ...parts.made.layers.map((layer) => layer[i]),
      ])
    : [],
});

export const teamRows = (parts) => ({
  head: ["team", "guaranteed", "used", "guaranteed_used", "borrowed", "lent", "queued"],
  rows: parts.found.teams.map((t) => [
    t.team,
    t.guaranteed,
    t.used,
    t.guaranteed_used,
    t.borrowed,
    t.lent,
    t.queued,
  ]),
});

export const waitRows = (parts) => ({
  head: ["reason", "jobs", "gpus"],
  rows: parts.found.queue.map((row) => [row.reason, row.jobs, row.gpus]),
});

const moment = (at) => (at ? exact(at) : null);

export const alarmRows = (parts) => ({
  head: [
    "node",
    "health",
    "health_since",
    "health_cause",
    "service",
    "service_since",
    "service_cause",
    "service_by",
    "gpus_out",
    "out_since",
    "out_cause",
  ],
  rows: parts.found.alarms.map((a) => [
    a.node,
    a.health,
    moment(a.health_since),
    a.health_cause,
    a.service,
    moment(a.service_since),
    a.service_cause,
    a.service_by,
    a.bad,
    moment(a.out_since),
    a.out_cause,
  ]),
});
