// The page: which part is shown, at which moment, and when it is read again.

import { sentence } from "./causes.js";
import { calmly, follow, now, page, shown, signIn } from "./data.js";
import * as health from "./health.js";
import * as decisions from "./page_decisions.js";
import * as job from "./page_job.js";
import * as jobs from "./page_jobs.js";
import * as node from "./page_node.js";
import * as nodes from "./page_nodes.js";
import * as overview from "./page_overview.js";
import * as queue from "./page_queue.js";
import * as teams from "./page_teams.js";
import * as timebar from "./timebar.js";
import { clock, el, inert, panel } from "./words.js";

const $ = (id) => document.getElementById(id);
const EVERY_MS = 10_000;
const CALM_MS = 1_000;
const BEHIND_MS = 2_000;
const PAGES = { overview, queue, jobs, teams, nodes, decisions };
const KEYS = { o: "/", q: "/queue", j: "/jobs", t: "/teams", n: "/nodes", d: "/decisions" };

/** What an address shows that names no page. */
const nowhere = {
  title: () => "No such page",
  build: ({ root }) => {
    const words = "The address may be mistyped. Every page is named at the top; ";
    const back = el("a", { href: "/" }, "the overview");
    root.append(
      panel("", "There is no such page", [], el("p", { class: "empty" }, words, back, " is one.")),
    );
    return { refresh: async () => {} };
  },
};

let current = null;
let seen = "";

/** The address without its part after the hash, which only says where on the page. */
const address = () => location.pathname + location.search;

/** The parameters of the address without the moment; parts of the page keep theirs there. */
const query = () => {
  const found = Object.fromEntries(new URLSearchParams(location.search));
  delete found.at;
  return found;
};

/** Put parameters into the address, so that what is seen can be shared; none for empty ones. */
function setQuery(changes) {
  const wanted = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === "" || value === null) wanted.delete(key);
    else wanted.set(key, value);
  }
  history.replaceState(null, "", `${location.pathname}${wanted.size ? `?${wanted}` : ""}`);
  seen = address();
}

function open(path) {
  const to = new URL(path, location.href);
  if (shown.at !== null) to.searchParams.set("at", shown.at);
  history.pushState(null, "", to.pathname + to.search);
  enter();
}

/** A part of the address as it was meant; as it stands where it is no text in UTF-8. */
function readable(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route() {
  const [first, ...rest] = location.pathname.split("/").filter(Boolean);
  const name = rest.map(readable).join("/");
  if (first === "jobs" && name) return [job, "jobs", name];
  if (first === "nodes" && name) return [node, "nodes", name];
  return [PAGES[first || "overview"] || nowhere, first || "overview", ""];
}

/** Show the part that the address names. */
async function enter() {
  seen = address();
  const at = new URLSearchParams(location.search).get("at");
  shown.at = at ? timebar.parse(at) : null;
  if (Number.isNaN(shown.at)) shown.at = null;
  const [part, place, name] = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === place) {
      link.setAttribute("aria-current", "page");
      link.parentElement.scrollLeft = link.offsetLeft - 60;
    } else link.removeAttribute("aria-current");
  }
  const root = $("page");
  const title = inert(part.title(name));
  document.title = `${title} · Gangline`;
  root.replaceChildren(el("h1", { class: "sr" }, title));
  $("tip").hidden = true;
  window.scrollTo(0, 0);
  const context = { root, name, open, query, setQuery, again: () => refresh() };
  current = part.build(context);
  timebar.draw();
  health.draw();
  await refresh();
}

async function refresh() {
  const mine = current;
  const places = () => [...$("page").querySelectorAll(".scroll, .map")];
  const before = places().map((each) => [each.scrollLeft, each.scrollTop]);
  try {
    await health.watched(() => mine.refresh());
    const after = places();
    if (mine === current && after.length === before.length) {
      // Only where somebody has scrolled: to put a place anywhere lays out the whole page at once.
      after.forEach((each, i) => before[i].some(Boolean) && each.scrollTo(...before[i]));
    }
    $("fresh").textContent = shown.at === null ? `Read at ${clock(Date.now())}` : "";
    fault("");
  } catch (error) {
    if (mine !== current) return;
    if (error.status === 401) {
      location.reload();
      return;
    }
    fault(error.message);
  }
}

function fault(words) {
  let box = $("trouble");
  if (!words) {
    if (box) box.remove();
    return;
  }
  if (!box) {
    box = el("p", { id: "trouble", class: "why", role: "alert" });
    $("page").prepend(box);
  }
  // Of one thing that is not there, the list of those that are leads on.
  const [, place, name] = route();
  const list = name ? el("a", { href: `/${place}` }, `All ${place}`) : "";
  box.replaceChildren(`${sentence(inert(words))}. `, list);
}

function travel(at) {
  setQuery({ at });
  shown.at = at;
  timebar.draw();
  health.draw();
  if (current.moved) current.moved();
  refresh();
}

/** Read again what is live, and what could not be read. */
const soon = calmly(async () => {
  if ((shown.at === null || $("trouble")) && !document.hidden) await refresh();
}, CALM_MS);

/** How far the past goes, and how far behind the views are: where they are, sooner again. */
let nextMeasure = null;
const measure = calmly(async () => {
  // What cannot be reached is said where it is shown.
  const behind = await timebar.refresh().then(health.know, () => true);
  clearTimeout(nextMeasure);
  nextMeasure = setTimeout(measure, behind ? BEHIND_MS : EVERY_MS);
}, 0);

function listen() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest ? event.target.closest("a[href^='/']") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.download) return;
    if (link.getAttribute("href").startsWith("/static")) return;
    event.preventDefault();
    open(link.getAttribute("href"));
  });
  window.addEventListener("popstate", () => seen !== address() && enter());
  $("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    await find(new FormData(event.target).get("job").trim());
  });
  $("look").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.look = root.dataset.look === "dark" ? "light" : "dark";
    localStorage.setItem("gangline-look", root.dataset.look);
    if (current.drawn) current.drawn();
    refresh();
  });
  document.addEventListener("keydown", keys);
}

async function find(text) {
  if (!text) return;
  const known = await page(`nodes/${encodeURIComponent(text)}`).catch(() => null);
  open(known ? `/nodes/${encodeURIComponent(text)}` : `/jobs?text=${encodeURIComponent(text)}`);
}

let went = false;
function keys(event) {
  const typing = event.target.closest && event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const button = { "[": "before", "]": "after", ",": "minute-before", ".": "minute-after" }[
    event.key
  ];
  if (button) $(button).click();
  else if (event.key === "/") {
    event.preventDefault();
    $("find").elements.job.focus();
  } else if (event.key === "g") {
    went = true;
    setTimeout(() => {
      went = false;
    }, 1200);
    return;
  } else if (went && KEYS[event.key]) open(KEYS[event.key]);
  went = false;
}

shown.who = await signIn($("sign-in"), $("sign-in-form"), $("sign-in-words"), (error) => {
  health.connection("dead");
  fault(error.message);
});
listen();
timebar.begin(travel);
measure();
await enter();
document.body.dataset.ready = String(now());
setInterval(soon, EVERY_MS);
document.addEventListener("visibilitychange", soon);
follow({
  heard: (row) => {
    if (shown.at !== null) return;
    if (current.heard) current.heard(row);
    soon();
  },
  state: (word) => {
    health.connection(word);
    if (word !== "live") return;
    soon();
    measure();
  },
});
