// What a job prints: the end of one of its files, followed while the job runs.

import { get } from "./data.js";
import { el, inertLines, num, panel } from "./words.js";

const TAIL = 65_536;
const MOST = 400_000;
const EVERY_MS = 1_500;
const SLOWER_MS = 6_000;

/** The panel of a job's output. Nothing is read before somebody asks for it. */
export class Output {
  constructor(job) {
    this.path = `/v1/jobs/${encodeURIComponent(job)}/logs`;
    this.timer = null;
    this.attempt = 0;
    this.running = false;
    this.log = el("pre", {
      class: "log",
      tabindex: 0,
      role: "region",
      "aria-label": "What it printed",
    });
    this.words = el("p", { class: "under", role: "status" }, "Nothing is read until you ask.");
    this.files = el("select", {
      "aria-label": "Which file",
      hidden: true,
      onchange: () => this.choose(),
    });
    this.button = el(
      "button",
      { type: "button", onclick: () => (this.timer === null ? this.list() : this.pause()) },
      "Read and follow",
    );
    this.element = panel("", "Output", [this.files, this.button], this.log, this.words);
  }

  /** The job as the page has just read it: another attempt has files of its own. */
  know(attempts, running) {
    this.running = running;
    if (this.timer === null || attempts <= this.attempt) return;
    this.attempt = attempts;
    this.list();
  }

  /** Which files there are; the first one, that of rank 0, is read. */
  async list() {
    const follows = this.timer !== null;
    clearTimeout(this.timer);
    this.say("reading …");
    try {
      const found = await get(this.path);
      if (!found.files.length && found.unreachable.length) {
        throw new Error(found.unreachable[0].detail);
      }
      this.attempt = found.attempt;
      this.files.replaceChildren(
        ...found.files.map((each) =>
          el("option", { value: `${each.node}/${each.file}` }, `${each.node} · ${each.file}`),
        ),
      );
      this.sizes = new Map(found.files.map((each) => [`${each.node}/${each.file}`, each.size]));
      this.files.hidden = found.files.length < 2;
      this.choose();
    } catch (error) {
      if (!follows) {
        this.ended(`Its output cannot be read: ${error.message}`);
        return;
      }
      this.say(`Cannot be read just now, trying again: ${error.message}`);
      this.timer = setTimeout(() => this.list(), SLOWER_MS);
    }
  }

  /** Read the chosen file from near its end. */
  choose() {
    clearTimeout(this.timer);
    this.log.textContent = "";
    this.offset = Math.max(0, (this.sizes.get(this.files.value) || 0) - TAIL);
    this.decoder = new TextDecoder();
    this.button.textContent = "Pause";
    this.timer = 0;
    if (this.files.value) this.more();
    else if (!this.running) this.ended("It has written nothing.");
    else {
      this.say("It has written nothing yet.");
      this.timer = setTimeout(() => this.list(), SLOWER_MS);
    }
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.button.textContent = "Read and follow";
  }

  ended(words) {
    this.pause();
    this.say(words);
  }

  say(words) {
    this.words.textContent = words;
  }

  /** What was written since; again after a while, as long as the job runs and is looked at. */
  async more() {
    const { value } = this.files;
    const [node, file] = [value.slice(0, value.indexOf("/")), value.slice(value.indexOf("/") + 1)];
    const url =
      `${this.path}/${encodeURIComponent(node)}/${encodeURIComponent(file)}` +
      `?attempt=${this.attempt}&offset=${this.offset}`;
    let pause = EVERY_MS;
    try {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail || url);
      const bytes = await answer.arrayBuffer();
      if (this.timer === null || value !== this.files.value) return;
      this.offset = Number(answer.headers.get("x-next-offset") ?? this.offset + bytes.byteLength);
      this.write(this.decoder.decode(bytes, { stream: true }));
      this.say(`${num(this.offset)} bytes, attempt ${this.attempt}; followed as it is written.`);
      if (!this.running && !bytes.byteLength) {
        this.ended(`${num(this.offset)} bytes, attempt ${this.attempt}; that is all.`);
        return;
      }
    } catch (error) {
      if (this.timer === null) return;
      pause = SLOWER_MS;
      this.say(`Cannot be read just now, trying again: ${error.message}`);
    }
    if (this.element.isConnected) this.timer = setTimeout(() => this.more(), pause);
  }

  /** Whoever stands at the end stays there; whoever reads further up is left alone. */
  write(text) {
    if (!text) return;
    const { log } = this;
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    log.append(inertLines(text));
    while (log.textContent.length > MOST && log.firstChild !== log.lastChild) {
      log.firstChild.remove();
    }
    if (follows) log.scrollTop = log.scrollHeight;
  }
}
