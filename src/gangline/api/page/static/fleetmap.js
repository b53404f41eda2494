// The map: one cell a GPU on one canvas, a tile a block, in the order of the tree.
//
// Gangs are drawn together: where neighbours belong to one gang there is no gap between them. What
// colours tell is told by shape too: full is running, half is starting or stopping, a dot is free,
// a cross is out, a stroke takes no work. A hidden table says the same by block.

import { el, inert, num } from "./words.js";

export const KINDS = [
  ["r", "running", "--running"],
  ["s", "starting", "--starting"],
  ["x", "stopping", "--stopping"],
  [".", "free", "--free"],
  ["-", "takes no work", "--away"],
  ["b", "out", "--out"],
  ["l", "not known to be empty", "--limbo"],
];
const TEAM_COLOURS = [
  "#2f7ed8",
  "#e0912f",
  "#1b9e77",
  "#c66fa5",
  "#6db6e8",
  "#c8502a",
  "#b8a317",
  "#7a6bd1",
  "#8a5a44",
  "#7b8794",
  "#3f8f3f",
  "#b03060",
];
const HEAD = 16;
const BETWEEN = 9;

const WALL = 2200;

/** The colour of a team, by its place in the alphabet. */
export const teamColour = (teams, team) =>
  TEAM_COLOURS[Math.max(0, teams.indexOf(team)) % TEAM_COLOURS.length];

/** Nodes with the state and gang of each GPU, from what the API sends. */
export function unpack(found) {
  const sizes = found.sizes.flatMap(([count, size]) => Array(count).fill(size));
  const cells = { letters: [], gangs: [] };
  for (const [count, letter, gang] of found.runs) {
    for (let i = 0; i < count; i += 1) {
      cells.letters.push(letter);
      cells.gangs.push(gang);
    }
  }
  let [at, index] = [0, 0];
  const blocks = found.blocks.map((block) => ({
    path: block.path,
    nodes: block.nodes.map((name) => {
      const size = sizes[index];
      index += 1;
      const node = { name, path: block.path, away: found.away[name] || null, from: at, size };
      at += size;
      return node;
    }),
  }));
  return { blocks, ...cells, jobs: found.gangs, total: at };
}

/** A map in a place. opened: called with a node's name. */
export class FleetMap {
  constructor({ opened, said }) {
    this.opened = opened;
    this.said = said;
    this.mode = "state";
    this.lit = null;
    this.zoom = 0;
    this.focus = null;
    this.boxes = [];
    this.canvas = el("canvas");
    this.table = el("table");
    this.aside = el("div", { class: "sr" }, this.table);
    this.element = el(
      "div",
      {
        class: "map",
        tabindex: 0,
        role: "application",
        "aria-label": "Fleet map: arrows go from node to node, Enter opens one, + and - zoom",
      },
      this.canvas,
    );
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => this.tip(null));
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    document.fonts.ready.then(() => this.draw());
  }

  /** teams: all there are, so that a team keeps its colour whoever else comes or goes. */
  show(found, teams) {
    this.fleet = unpack(found);
    this.teams = [...new Set([...teams, ...found.gangs.map((gang) => gang[1])])].sort();
    this.draw();
  }

  /** The side of a cell that lets the whole fleet be seen, or larger by the zoom. */
  side(width) {
    const { blocks } = this.fleet;
    const wide = Math.max(...blocks.map((block) => Math.max(...block.nodes.map((n) => n.size))));
    const high = Math.max(...blocks.map((block) => block.nodes.length));
    const tallest = Math.max(420, 0.68 * window.innerHeight);
    let side = 22;
    while (side > 4) {
      const columns = Math.max(1, Math.floor(width / (wide * side + BETWEEN)));
      const rows = Math.ceil(blocks.length / columns);
      const tall = rows * (high * side + HEAD + BETWEEN);
      if (tall <= tallest && columns * (wide * side) <= width) break;
      side -= 1;
    }
    return Math.min(30, side + 4 * this.zoom);
  }

  /** Where each block stands: rows of equally many, spread over the width. */
  place(width) {
    const side = this.side(width);
    const { blocks } = this.fleet;
    const wide = (block) => Math.max(...block.nodes.map((node) => node.size)) * side;
    const widest = Math.max(...blocks.map(wide)) + BETWEEN;
    const fit = Math.max(1, Math.floor((width + BETWEEN) / widest));
    const columns = Math.ceil(blocks.length / Math.ceil(blocks.length / fit));
    const pitch = columns < fit / 2 ? widest : Math.min(2 * widest, (width + BETWEEN) / columns);
    let [y, tall] = [0, 0];
    this.boxes = blocks.map((block, i) => {
      if (i && i % columns === 0) [y, tall] = [y + tall + BETWEEN, 0];
      const high = block.nodes.length * side;
      tall = Math.max(tall, high + HEAD);
      const x = Math.round((i % columns) * pitch);
      return { block, x, y: y + HEAD, side, wide: wide(block), high };
    });
    return y + tall + 2;
  }

  draw() {
    if (!this.fleet || !this.element.clientWidth) return;
    const width = this.element.clientWidth;
    const height = this.fleet.blocks.length ? this.place(width) : 24;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    this.pen.font = `${window.innerWidth >= WALL ? 13 : 11}px Inter, system-ui, sans-serif`;
    const style = getComputedStyle(document.documentElement);
    this.ink = Object.fromEntries(
      [
        ...KINDS.map(([letter, , name]) => [letter, name]),
        ["quiet", "--quiet"],
        ["ink", "--ink"],
        ["line", "--line"],
        ["panel", "--panel"],
        ["accent", "--accent"],
      ].map(([key, name]) => [key, style.getPropertyValue(name).trim()]),
    );
    for (const box of this.boxes) this.paintBlock(box);
    this.paintFocus();
  }

  paintBlock(box) {
    const { pen } = this;
    const name = inert(box.block.path[box.block.path.length - 1] || "");
    pen.fillStyle = this.ink.quiet;
    pen.fillText(name, box.x, box.y - 4);
    box.block.nodes.forEach((node, row) => {
      for (let gpu = 0; gpu < node.size; gpu += 1) this.paintCell(box, node, row, gpu);
    });
  }

  paintCell(box, node, row, gpu) {
    const { pen, fleet } = this;
    const at = node.from + gpu;
    const gang = fleet.gangs[at];
    let letter = fleet.letters[at];
    if (letter === "." && node.away) letter = "-";
    const below = box.block.nodes[row + 1];
    const right = gpu + 1 < node.size && gang >= 0 && fleet.gangs[at + 1] === gang;
    const down = below && gang >= 0 && gpu < below.size && fleet.gangs[below.from + gpu] === gang;
    const gap = box.side < 8 ? 1 : 1.5;
    const [x, y] = [box.x + gpu * box.side, box.y + row * box.side];
    const [w, h] = [box.side - (right ? 0 : gap), box.side - (down ? 0 : gap)];
    pen.globalAlpha = this.dim(gang) ? 0.16 : 1;
    pen.fillStyle = this.colour(letter, gang);
    this.shape(letter, { x, y, w, h });
    pen.globalAlpha = 1;
  }

  colour(letter, gang) {
    if (this.mode === "team" && gang >= 0) {
      return teamColour(this.teams, this.fleet.jobs[gang][1]);
    }
    return this.ink[letter];
  }

  dim(gang) {
    if (this.lit === null) return false;
    return gang < 0 || this.fleet.jobs[gang][1] !== this.lit;
  }

  shape(letter, { x, y, w, h }) {
    const { pen } = this;
    if (letter === "s") pen.fillRect(x, y + h / 2, w, h / 2);
    else if (letter === "x") pen.fillRect(x, y, w, h / 2);
    else if (letter === "." && w > 6) pen.fillRect(x + w / 2 - 1.5, y + h / 2 - 1.5, 3, 3);
    else pen.fillRect(x, y, w, h);
    if (letter === ".") {
      pen.strokeStyle = this.ink["."];
      pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    if (letter === "b")
      this.strokes(
        [
          [x, y, x + w, y + h],
          [x + w, y, x, y + h],
        ],
        this.ink.panel,
      );
    if (letter === "-") this.strokes([[x, y + h, x + w, y]], this.ink.panel);
  }

  strokes(found, colour) {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (const [a, b, c, d] of found) {
      pen.moveTo(a, b);
      pen.lineTo(c, d);
    }
    pen.stroke();
    pen.lineWidth = 1;
  }

  paintFocus() {
    const found = this.focus && this.find(this.focus);
    if (!found) return;
    const { pen } = this;
    pen.strokeStyle = this.ink.ink;
    pen.lineWidth = 2;
    const { box, row } = found;
    pen.strokeRect(box.x - 1, box.y + row * box.side - 1, box.wide + 1, box.side + 1);
    pen.lineWidth = 1;
  }

  find(name) {
    for (const box of this.boxes) {
      const row = box.block.nodes.findIndex((node) => node.name === name);
      if (row >= 0) return { box, row, node: box.block.nodes[row] };
    }
    return null;
  }

  under(event) {
    const edge = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    for (const box of this.boxes) {
      if (x < box.x || x >= box.x + box.wide || y < box.y || y >= box.y + box.high) continue;
      const row = Math.floor((y - box.y) / box.side);
      const node = box.block.nodes[row];
      const gpu = Math.floor((x - box.x) / box.side);
      return node && gpu < node.size ? { node, gpu } : null;
    }
    return null;
  }

  words({ node, gpu }) {
    const at = node.from + gpu;
    const gang = this.fleet.gangs[at];
    const letter = this.fleet.letters[at] === "." && node.away ? "-" : this.fleet.letters[at];
    const kind = KINDS.find(([each]) => each === letter);
    const lines = [`${node.name} · GPU ${gpu}: ${kind ? kind[1] : letter}`];
    if (gang >= 0) {
      const [job, team, gpus] = this.fleet.jobs[gang];
      lines.push(`${job} of ${team}, ${num(gpus)} GPUs`);
    }
    if (node.away)
      lines.push(node.away.filter((word) => !["well", "open"].includes(word)).join(", "));
    return lines;
  }

  point(event) {
    const found = this.under(event);
    this.tip(found ? this.words(found) : null, event);
  }

  tip(lines, event) {
    const tip = document.getElementById("tip");
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines.map((line, i) => el(i ? "div" : "b", {}, line)));
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 10);
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 10)}px`;
  }

  click(event) {
    const found = this.under(event);
    if (found) {
      this.tip(null);
      this.opened(found.node.name);
    }
  }

  zoomed(by) {
    this.zoom = Math.max(0, Math.min(5, this.zoom + by));
    this.draw();
  }

  key(event) {
    const nodes = this.fleet ? this.fleet.blocks.flatMap((block) => block.nodes) : [];
    if (event.key === "+") this.zoomed(1);
    else if (event.key === "-") this.zoomed(-1);
    else if (event.key === "Enter" && this.focus) this.opened(this.focus);
    else if (event.key.startsWith("Arrow") && nodes.length) {
      const at = nodes.findIndex((node) => node.name === this.focus);
      const block = this.focus ? this.find(this.focus).box.block.nodes.length : 1;
      const by = { ArrowDown: 1, ArrowUp: -1, ArrowRight: block, ArrowLeft: -block }[event.key];
      const next = nodes[Math.max(0, Math.min(nodes.length - 1, at < 0 ? 0 : at + by))];
      this.focus = next.name;
      this.draw();
      this.said(this.words({ node: next, gpu: 0 }).join(" · "));
    } else return;
    event.preventDefault();
  }

  /** How many GPUs of each kind a block has: the table that stands for the picture. */
  rows() {
    const { fleet } = this;
    return fleet.blocks.map((block) => {
      const counts = Object.fromEntries(KINDS.map(([letter]) => [letter, 0]));
      for (const node of block.nodes) {
        for (let at = node.from; at < node.from + node.size; at += 1) {
          const letter = fleet.letters[at] === "." && node.away ? "-" : fleet.letters[at];
          counts[letter] = (counts[letter] || 0) + 1;
        }
      }
      return { block: block.path.join("/"), nodes: block.nodes.length, counts };
    });
  }

  /** Say in the table what the picture shows. */
  describe() {
    const rows = this.rows();
    this.table.replaceChildren(
      el("caption", {}, "GPUs of each block by state"),
      el(
        "tr",
        {},
        ["block", "nodes", ...KINDS.map(([, word]) => word)].map((word) =>
          el("th", { scope: "col" }, word),
        ),
      ),
      ...rows.map((row) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, row.block),
          el("td", {}, num(row.nodes)),
          KINDS.map(([letter]) => el("td", {}, num(row.counts[letter]))),
        ),
      ),
    );
  }

  /** One row a GPU, for CSV. */
  csv() {
    const { fleet } = this;
    const rows = fleet.blocks.flatMap((block) =>
      block.nodes.flatMap((node) =>
        Array.from({ length: node.size }, (_, gpu) => {
          const gang = fleet.jobs[fleet.gangs[node.from + gpu]] || ["", ""];
          const letter = fleet.letters[node.from + gpu];
          const kind = KINDS.find(([each]) => each === letter);
          return [
            block.path.join("/"),
            node.name,
            gpu,
            kind ? kind[1] : letter,
            gang[0],
            gang[1],
            node.away ? node.away[0] : "well",
            node.away ? node.away[1] : "open",
          ];
        }),
      ),
    );
    const head = ["block", "node", "gpu", "state", "job", "team", "health", "service"];
    return { head, rows };
  }
}
