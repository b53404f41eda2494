// The map: one cell a GPU on one canvas, nodes in the order of the tree. 8,000 elements are slow.

import { el } from "./words.js";

const KINDS = [
  ["r", "running", "--running"],
  ["s", "starting", "--starting"],
  ["x", "stopping", "--stopping"],
  [".", "free", "--free"],
  ["b", "out", "--out"],
  ["l", "not known to be empty", "--limbo"],
  ["-", "node takes no work", "--away"],
];

let fleet = { nodes: [] };
let boxes = [];
let [cell, gap, between] = [11, 2, 7];

/** Large cells while there are few, small ones for a whole fleet. */
function choose(gpus) {
  if (gpus <= 256) return [18, 3, 12];
  return gpus <= 2_048 ? [11, 2, 7] : [6, 1, 4];
}

/** Draw the legend once. */
export function legend(list) {
  list.replaceChildren(...KINDS.map(([, word, colour]) => {
    const swatch = el("i");
    swatch.style.background = `var(${colour})`;
    return el("li", {}, swatch, word);
  }));
}

/** Show a fleet of columns: nodes, paths, health, service, gpu_states, jobs. */
export function show(found, map, words) {
  fleet = found;
  [cell, gap, between] = choose(fleet.gpu_states.join("").length);
  draw(map);
  const free = fleet.gpu_states.join("").split(".").length - 1;
  map.setAttribute("role", "img");
  map.setAttribute("aria-label", `${fleet.nodes.length} nodes, ${free} GPUs free`);
  if (!fleet.nodes.length) words.textContent = "No node has come up yet.";
}

/** Say what is under the pointer. */
export function hover(event, map, words) {
  const canvas = map.querySelector("canvas");
  const edge = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
  const box = boxes.find((b) => x >= b.x && x < b.x + b.width && y >= b.y && y < b.y + cell + gap);
  if (!box) return;
  const index = box.node;
  const gpu = Math.min(fleet.gpu_states[index].length - 1, Math.floor((x - box.x) / (cell + gap)));
  const kind = KINDS.find(([letter]) => letter === fleet.gpu_states[index][gpu]);
  const jobs = (fleet.jobs[index] || []).join(", ");
  words.textContent = [
    `${fleet.nodes[index]} (${pathOf(index)}), GPU ${gpu}: ${kind ? kind[1] : ""}`,
    `${fleet.health[index]}, ${fleet.service[index]}`,
    jobs && `jobs: ${jobs}`,
  ].filter(Boolean).join(" · ");
}

const pathOf = (index) => (fleet.paths[index] || []).join("/");

function draw(map) {
  const canvas = map.querySelector("canvas");
  const style = getComputedStyle(document.documentElement);
  const colours = Object.fromEntries(
    KINDS.map(([key, , name]) => [key, style.getPropertyValue(name)]));
  boxes = place(map.clientWidth);
  const height = boxes.length ? boxes[boxes.length - 1].y + cell + between + 14 : 20;
  const scale = window.devicePixelRatio || 1;
  canvas.width = map.clientWidth * scale;
  canvas.height = height * scale;
  canvas.style.width = `${map.clientWidth}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "11px system-ui, sans-serif";
  for (const box of boxes) paint(pen, box, colours, style.getPropertyValue("--quiet"));
}

/** Where each node stands: rows of nodes under the name of their domain. */
function place(width) {
  const order = fleet.nodes.map((_, index) => index).sort((a, b) => {
    const [left, right] = [a, b].map((i) => `${pathOf(i)}/${fleet.nodes[i]}`);
    return left.localeCompare(right, undefined, { numeric: true });
  });
  const placed = [];
  let [x, y, domain] = [0, -cell, null];
  for (const node of order) {
    const path = pathOf(node);
    const wide = fleet.gpu_states[node].length * (cell + gap);
    const begins = path !== domain;
    if (begins) [x, y, domain] = [0, y + cell + (domain === null ? 14 : 26), path];
    else if (x + wide > width) [x, y] = [0, y + cell + between];
    placed.push({ node, x, y, width: wide, title: begins ? path : "" });
    x += wide + between;
  }
  return placed;
}

function paint(pen, box, colours, quiet) {
  const states = fleet.gpu_states[box.node];
  const takesWork = fleet.health[box.node] === "well" && fleet.service[box.node] === "open";
  if (box.title) {
    pen.fillStyle = quiet;
    pen.fillText(box.title, box.x, box.y - 4);
  }
  for (let gpu = 0; gpu < states.length; gpu += 1) {
    const state = states[gpu] === "." && !takesWork ? "-" : states[gpu];
    const x = box.x + gpu * (cell + gap);
    pen.fillStyle = colours[state] || colours["-"];
    pen.fillRect(x, box.y, cell, cell);
    if (state === "b" || state === "-") cross(pen, x, box.y, quiet);
  }
}

/** A stroke through cells that cannot be used: not only their colour says so. */
function cross(pen, x, y, colour) {
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x + 2, y + cell - 2);
  pen.lineTo(x + cell - 2, y + 2);
  pen.stroke();
}
