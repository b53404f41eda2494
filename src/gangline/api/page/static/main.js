// The page: reads the views, follows decisions, and reads again whatever they may have changed.

import * as feed from "./feed.js";
import * as fleet from "./fleet.js";
import * as jobs from "./jobs.js";
import { calmly, follow, get, signIn } from "./source.js";
import * as teams from "./teams.js";
import { clock, el } from "./words.js";

const $ = (id) => document.getElementById(id);
const EVERY_MS = 10_000;
const CALM_MS = 700;

const parts = [
  async () => numbers(await get("/v1/summary")),
  async () => fleet.show(await get("/v1/fleet"), $("map"), $("fleet-words")),
  async () => teams.show((await get("/v1/teams")).items, $("team-rows"), $("team-names")),
  async () => jobs.showQueue(
    (await get("/v1/queue?limit=500")).items, $("queue-table"), $("queue-count")),
  async () => jobs.showJobs(await wantedJobs(), $("jobs-table"), $("jobs-count")),
];

function numbers(found) {
  const of = (rows, key, word) => (rows.find((row) => row[key] === word) || { jobs: 0 }).jobs;
  const waiting = found.queue.reduce((sum, row) => sum + row.jobs, 0);
  const shown = [
    [found.fleet.held, "GPUs held"],
    [found.fleet.free, "free"],
    [found.fleet.unhealthy, "unhealthy"],
    [found.fleet.total, "in all"],
    [of(found.jobs, "state", "running"), "jobs running"],
    [waiting, "waiting"],
  ];
  $("numbers").replaceChildren(...shown.map(
    ([value, word]) => el("div", {}, el("dt", {}, word), el("dd", {}, String(value)))));
  const lag = Math.max(0, ...found.projections.map((view) => view.lag_s || 0));
  const stuck = found.projections.filter((view) => view.problem);
  document.title = `${found.fleet.held}/${found.fleet.total} · Gangline`;
  const behind = lag > 3 ? `views ${Math.round(lag)} s behind` : "";
  say(stuck.length ? `view ${stuck[0].view} is stuck` : behind);
}

async function wantedJobs() {
  const wanted = new FormData($("filter"));
  const query = new URLSearchParams({ limit: "300" });
  for (const key of ["state", "team"]) if (wanted.get(key)) query.set(key, wanted.get(key));
  const text = String(wanted.get("text")).trim().toLowerCase();
  const rows = (await get(`/v1/jobs?${query}`)).items;
  return text ? rows.filter((row) => row.job.toLowerCase().includes(text)) : rows;
}

let connected = "connecting";
function say(trouble) {
  $("live").className = trouble && connected === "live" ? "" : connected;
  const word = { live: "live", dead: "not reachable, trying again" }[connected] || connected;
  $("live-text").textContent = trouble || `${word} · ${clock(Date.now())}`;
}

async function refresh() {
  const done = await Promise.allSettled(parts.map((part) => part()));
  const failed = done.find((part) => part.status === "rejected");
  if (failed) say(failed.reason.message);
}

const soon = calmly(refresh, CALM_MS);

fleet.legend($("legend"));
$("map").addEventListener("pointermove", (event) => fleet.hover(event, $("map"), $("fleet-words")));
$("filter").addEventListener("input", soon);
$("filter").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("resize", soon);
await signIn($("sign-in"), $("sign-in-form"), $("sign-in-words"));
setInterval(soon, EVERY_MS);
await refresh();
const found = await get("/v1/summary").catch(() => null);
follow({
  after: found ? feed.beginning(found.projections) : "end",
  heard: (row) => { feed.add(row, $("feed-list")); soon(); },
  state: (word) => { connected = word; say(""); if (word === "live") soon(); },
});
