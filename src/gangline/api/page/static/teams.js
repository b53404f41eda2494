// Teams: what is theirs, what they use of it, what they borrow and lend.

import { el } from "./words.js";

/** A bar for each team, all on one scale. */
export function show(teams, place, names) {
  const most = Math.max(1, ...teams.map((team) => Math.max(team.used, team.guaranteed)));
  place.replaceChildren(...teams.map((team) => row(team, most)));
  if (!teams.length) place.replaceChildren(el("p", { class: "quiet" }, "No team is set yet."));
  names.replaceChildren(...teams.map((team) => el("option", { value: team.team })));
}

function row(team, most) {
  const part = (gpus) => `${(100 * gpus) / most}%`;
  const own = el("i", { class: "own" });
  own.style.width = part(team.guaranteed_used);
  const loan = el("i", { class: "loan" });
  loan.style.left = part(team.guaranteed_used);
  loan.style.width = part(team.borrowed);
  const mark = el("i", { class: "mark" });
  mark.style.left = `calc(${part(team.guaranteed)} - 2px)`;
  const words = [
    `${team.used} of ${team.guaranteed} GPUs`,
    team.borrowed ? `${team.borrowed} borrowed` : "",
    team.lent ? `${team.lent} lent` : "",
    team.queued ? `${team.queued} jobs wait` : "",
  ].filter(Boolean).join(" · ");
  const bar = el("div", { class: "bar", role: "img", "aria-label": words }, own, loan, mark);
  const name = el("b", { title: team.team }, team.team);
  return el("div", { class: "team" }, name, bar, el("p", {}, words));
}
