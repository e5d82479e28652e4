/* Plays recorded episodes on a canvas: what was shown, read, said and done, step by step.
 *
 * A page holds <div class="episode-player"> with its settings as JSON in a <script> inside:
 *   root      where the data lies, relative to the page
 *   choices   [{name, label, files}]: a file is a script that sets window.groundlabEpisodes[name], because a page that
 *             is opened from a disk may not fetch; it is loaded when its choice is opened
 * The data is written by src/groundlab/papers/playback.py. The first half of this file is pure and runs in node too.
 */
"use strict";

const FORMAT = 1;
const FRAMES_A_SECOND = [1, 3, 10];

/* ---- Decoding ---- */

/** Why an object cannot be played, in a sentence; "" where it can. */
function complaint(data) {
  if (data && Array.isArray(data.actions) && "layout" in data) {
    return "This file holds the actions alone. Open episodes.json, which the same command leaves beside it.";
  }
  if (!data || !Array.isArray(data.episodes) || data.episodes.length === 0) {
    return "This file holds no episodes. Open the episodes.json that `groundlab evaluate --record FOLDER` leaves.";
  }
  if (data.format !== FORMAT) {
    return `This recording has format ${data.format}, and this page plays format ${FORMAT}: record it again.`;
  }
  return "";
}

/** Hexadecimal digits, a bit a cell -> a boolean a cell; null where nothing is lit. */
function lightOf(digits, cells) {
  if (!digits) return null;
  return Array.from({ length: cells }, (_, cell) => (parseInt(digits[cell >> 2], 16) & (8 >> (cell & 3))) > 0);
}

/** A copy of a grid with the cells of one step changed: [cell, tile, cell, tile, ...]. */
function changed(tiles, pairs) {
  const copy = tiles.slice();
  for (let at = 0; at < pairs.length; at += 2) copy[pairs[at]] = pairs[at + 1];
  return copy;
}

/** All states of an episode, the one before the first action to the one after the last. */
function decode(data, episode) {
  let tiles = episode.start;
  return episode.read.map((text, step) => {
    if (step > 0) tiles = changed(tiles, episode.changes[step - 1]);
    const acts = step < episode.did.length;
    const same = (name) => episode[name][step] === episode[name][step + 1];
    return {
      tiles,
      light: lightOf(data.lights[episode.lit[step]], tiles.length),
      text: data.texts[text].map((sentence) => data.sentences[sentence]).join("\n"),
      hand: data.words[episode.hand[step]],
      said: episode.said[step] || "",
      caption: episode.captions[step] || "",
      did: acts ? data.words[episode.did[step]] : "",
      idle: acts && episode.changes[step].length === 0 && same("hand") && same("read"),
      shares: (episode.shares[step] || []).map((share, at) => ({ name: episode.decisions[at], share: share / 1000 })),
    };
  });
}

/** Episodes side by side: a row for each world and layout, in the order of the files. */
function rowsOf(files) {
  const rows = new Map();
  for (const data of files) {
    for (const episode of data.episodes) {
      const key = `${episode.world} ${episode.layout}`;
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push({ data, episode });
    }
  }
  return [...rows.values()];
}

/** What a list says of a row: its mission, and whether it was done or by how many. */
function rowTitle(row) {
  const { episode } = row[0];
  const done = row.filter((each) => each.episode.success).length;
  const end = row.length > 1 ? `${done} of ${row.length} do it` : `${done ? "done" : "not done"} in ${episode.did.length}`;
  return `${episode.mission}, layout ${episode.layout} (${end})`;
}

/** "#choice=glam&episode=3&step=4" -> {choice, episode, step}; numbers are 0 where they are none. */
function readHash(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name) => Math.max(0, Math.floor(Number(words.get(name)) || 0));
  return { choice: words.get("choice") || "", episode: number("episode"), step: number("step") };
}

/** The opposite of `readHash`. */
function writeHash({ choice, episode, step }) {
  return `#${new URLSearchParams({ choice, episode, step })}`;
}

/* ---- Drawing ---- */

/** Draw a state: tiles from the sheet, which has one row of square tiles; lit cells as minigrid lights them. */
function draw(canvas, sheet, frame, columns) {
  const tile = sheet.naturalHeight;
  const context = canvas.getContext("2d");
  context.fillStyle = "rgba(255, 255, 255, 0.3)";
  frame.tiles.forEach((number, cell) => {
    const x = (cell % columns) * tile;
    const y = Math.floor(cell / columns) * tile;
    context.drawImage(sheet, number * tile, 0, tile, tile, x, y, tile, tile);
    if (frame.light && frame.light[cell]) context.fillRect(x, y, tile, tile);
  });
}

/** An element with attributes and children; strings become text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** A labelled part of a panel; nothing where there is nothing to show. */
function part(label, className, text) {
  return text ? [make("p", { class: "episode-label" }, label), make("pre", { class: className }, text)] : [];
}

/** How likely each decision was, as bars. */
function bars(shares) {
  if (shares.length === 0) return [];
  const rows = shares.map(({ name, share }) => {
    const bar = make("span", { class: "episode-bar" });
    bar.style.width = `${Math.round(100 * share)}%`;
    const number = make("td", {}, `${(100 * share).toFixed(1)} %`);
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "episode-bars" }, bar), number);
  });
  return [make("table", { class: "episode-shares" }, make("caption", {}, "how likely each choice was"), ...rows)];
}

/** One agent's episode: its picture, and below or beside it what was read, said and done. */
class Panel {
  constructor({ data, episode }, sheet) {
    Object.assign(this, { episode, by: episode.by, sheet, frames: decode(data, episode), columns: episode.size[0] });
    const tile = sheet.naturalHeight;
    this.canvas = make("canvas", {
      width: this.columns * tile,
      height: episode.size[1] * tile,
      role: "img",
      class: data.sheet === "crafter" ? "episode-pixels" : "",
    });
    this.words = make("div", { class: "episode-words" });
    const end = make("p", { class: "episode-end" }, `${episode.success ? "✓" : "✗"} ${episode.outcome}, ${this.last} steps`);
    const head = make("div", { class: "episode-head" }, make("h3", {}, this.by), end);
    this.element = make("section", { class: "episode-panel", "aria-label": this.by }, head, this.canvas, this.words);
  }

  get last() {
    return this.frames.length - 1;
  }

  show(step) {
    const frame = this.frames[Math.min(step, this.last)];
    draw(this.canvas, this.sheet, frame, this.columns);
    this.canvas.setAttribute("aria-label", `${this.by}: the level at step ${Math.min(step, this.last)}`);
    const did = frame.did ? `${frame.did}${frame.idle ? " (changes nothing)" : ""}` : this.episode.outcome;
    this.words.replaceChildren(
      ...part(frame.did ? "does" : "end", "episode-did", did),
      ...bars(frame.shares),
      ...part("carries", "episode-hand", frame.hand),
      ...part("carries out", "episode-caption", frame.caption),
      ...part(this.episode.prompt ? "asks the planner" : "says", "episode-said", frame.said.trim()),
      ...part("reads", "episode-read", frame.text),
    );
    return `${this.by}: ${did}`;
  }
}

/* ---- The player ---- */

class Player {
  constructor(root) {
    this.root = root;
    this.settings = JSON.parse(root.querySelector("script").textContent);
    this.state = { choice: "", episode: 0, step: 0 };
    this.rows = [];
    this.panels = [];
    this.timer = null;
    this.build();
    this.follow(window.location.hash);
  }

  build() {
    const button = (label, action) => make("button", { type: "button", onclick: action }, label);
    const option = (label, value) => make("option", { value }, label);
    this.choice = make("select", { onchange: () => this.open(this.choice.value, 0, 0) });
    this.choice.append(...this.settings.choices.map(({ name, label }) => option(label, name)));
    this.list = make("select", { onchange: () => this.select(Number(this.list.value), 0) });
    this.playing = button("Play", () => this.toggle());
    this.slider = make("input", { type: "range", min: 0, value: 0, "aria-label": "step", oninput: () => this.go(Number(this.slider.value)) });
    this.count = make("span", { class: "episode-count" });
    this.speed = make("select", { "aria-label": "steps a second" }, ...FRAMES_A_SECOND.map((rate) => option(`${rate} a second`, rate)));
    this.speed.value = 3;
    this.mission = make("p", { class: "episode-mission" });
    this.prompt = make("details", { class: "episode-prompt" });
    this.stage = make("div", { class: "episode-panels" });
    this.status = make("p", { role: "status", class: "episode-status" });
    this.live = make("p", { "aria-live": "polite", class: "episode-unseen" });
    const file = make("input", { type: "file", accept: ".json,application/json", onchange: () => this.read(file.files[0]) });
    this.controls = make(
      "div", { class: "episode-controls", role: "group", "aria-label": "steps" },
      button("Start", () => this.go(0)),
      button("Back", () => this.go(this.state.step - 1)),
      this.playing,
      button("Next", () => this.go(this.state.step + 1)),
      button("End", () => this.go(this.last)),
      this.slider, this.count, this.speed,
    );
    this.pickers = make(
      "div", { class: "episode-pickers" },
      ...(this.settings.choices.length > 1 ? [make("label", {}, "agent ", this.choice)] : []),
      make("label", {}, "episode ", this.list),
    );
    const own = make("label", { class: "episode-own" }, "Open a recording of your own (episodes.json), or drop it here: ", file);
    this.player = make("div", { class: "episode-shown" }, this.pickers, this.controls, this.mission, this.stage, this.prompt);
    this.player.hidden = true;
    this.root.append(this.player, this.status, this.live, own);
    this.root.addEventListener("dragover", (event) => event.preventDefault());
    this.root.addEventListener("drop", (event) => {
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    });
    document.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("hashchange", () => this.follow(window.location.hash));
  }

  /** Go where an address points; without one, to the first episode. */
  async follow(hash) {
    const { choice, episode, step } = readHash(hash);
    const known = this.settings.choices.map(({ name }) => name);
    if (known.includes(choice)) {
      await this.open(choice, episode, step);
      this.root.scrollIntoView();
    } else if (known.length > 0) await this.open(known[0], 0, 0);
  }

  /** Load the files of a choice and show one of its episodes. */
  async open(choice, episode, step) {
    this.pause();
    try {
      const { files } = this.settings.choices.find(({ name }) => name === choice);
      const data = await Promise.all(files.map((name) => this.load(name)));
      this.choice.value = choice;
      await this.play(data, choice, episode, step);
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  /** A file of data, by a script element that is added once. */
  load(name) {
    window.groundlabEpisodes = window.groundlabEpisodes || {};
    if (name in window.groundlabEpisodes) return window.groundlabEpisodes[name];
    return new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`The episodes ${name} could not be loaded.`));
      const loaded = () => (name in window.groundlabEpisodes ? resolve(window.groundlabEpisodes[name]) : failed());
      document.head.append(make("script", { src: `${this.settings.root}${name}.js`, onload: loaded, onerror: failed }));
    });
  }

  /** A recording that somebody has on a disk. */
  async read(file) {
    if (!file) return;
    let data = null;
    try {
      data = JSON.parse(await file.text());
      if (complaint(data) === "") await this.play([data], "", 0, 0);
      this.status.textContent = complaint(data) || `${file.name}: ${data.episodes.length} episodes`;
    } catch (error) {
      this.status.textContent = data ? `${file.name} is damaged: ${error.message}` : complaint(null);
    }
  }

  async play(files, choice, episode, step) {
    const rows = rowsOf(files);
    const sheet = new Image();
    sheet.src = `${this.settings.root}${files[0].sheet}.png`;
    await sheet.decode();
    Object.assign(this, { rows, sheet });
    this.state.choice = choice;
    this.list.replaceChildren(...this.rows.map((row, number) => make("option", { value: number }, rowTitle(row))));
    this.player.hidden = false;
    this.select(Math.min(episode, rows.length - 1), step);
    this.status.textContent = "";
  }

  /** Show a row of episodes. */
  select(number, step) {
    this.state.episode = number;
    this.list.value = number;
    this.panels = this.rows[number].map((each) => new Panel(each, this.sheet));
    this.stage.replaceChildren(...this.panels.map((panel) => panel.element));
    this.stage.classList.toggle("episode-alone", this.panels.length === 1);
    const { episode } = this.rows[number][0];
    const where = `${episode.world}, layout ${episode.layout}, at most ${episode.limit} steps`;
    this.mission.replaceChildren(episode.mission, " ", make("small", {}, where));
    this.prompt.hidden = !episode.prompt;
    this.prompt.replaceChildren(make("summary", {}, "what the planner is told"), make("pre", {}, episode.prompt));
    this.slider.max = this.last;
    this.go(step);
  }

  get last() {
    return Math.max(...this.panels.map((panel) => panel.last));
  }

  go(step) {
    this.state.step = Math.min(Math.max(step, 0), this.last);
    const told = this.panels.map((panel) => panel.show(this.state.step));
    this.slider.value = this.state.step;
    this.count.textContent = `step ${this.state.step} of ${this.last}`;
    if (this.timer === null) {
      this.live.textContent = `Step ${this.state.step}. ${told.join(". ")}`;
      if (this.state.choice) window.history.replaceState(null, "", writeHash(this.state));
    } else if (this.state.step === this.last) this.pause();
  }

  toggle() {
    if (this.timer !== null) {
      this.pause();
      return;
    }
    if (this.state.step === this.last) this.go(0);
    this.timer = window.setTimeout(() => this.tick(), 1000 / this.speed.value);
    this.playing.textContent = "Pause";
  }

  tick() {
    this.timer = window.setTimeout(() => this.tick(), 1000 / this.speed.value);
    this.go(this.state.step + 1);
  }

  pause() {
    if (this.timer === null) return;
    window.clearTimeout(this.timer);
    this.timer = null;
    this.playing.textContent = "Play";
    this.go(this.state.step);
  }

  /** Arrows step and space plays, but where they mean something else: in lists, on buttons, in fields. */
  press(event) {
    const inside = event.target.closest("input, select, textarea, button, a, summary");
    if (this.player.hidden || event.altKey || event.ctrlKey || event.metaKey) return;
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (arrow && !(inside && inside.matches("input, select, textarea"))) this.go(this.state.step + arrow);
    else if (event.key === " " && !inside) this.toggle();
    else return;
    event.preventDefault();
  }
}

if (typeof document !== "undefined") {
  document.querySelectorAll(".episode-player").forEach((root) => new Player(root));
} else {
  module.exports = { complaint, decode, lightOf, readHash, rowTitle, rowsOf, writeHash };
}
