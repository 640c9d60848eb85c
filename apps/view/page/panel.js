// SPDX-License-Identifier: Apache-2.0
// One question with its answer and what it rests on. What servers and traces say becomes text nodes
// alone, never HTML.

const VIEWS = [["picture", "picture"], ["seen", "as it was seen"],
  ["information", "information"], ["salience", "salience"], ["coupling", "coupling"],
  ["relevance", "relevance"], ["attention", "attention"]];

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (className !== "") made.className = className;
  return made;
}

const whole = new Intl.NumberFormat("en");
function percent(share) {
  const hundredths = share * 100;
  return `${hundredths >= 10 || hundredths === 0 ? Math.round(hundredths) : hundredths.toFixed(1)} %`;
}
function duration(ms) {
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

class Panel {
  // `on.fixate(panel, points in pixels of the image)`: a person chose where to look.
  constructor(home, on) {
    this.home = document.getElementById("panel").content.cloneNode(true).firstElementChild;
    home.append(this.home);
    this.trace = null;
    this.look = 0;
    this.url = "";
    this.rows = new Map();  // of the comparison, by plan
    this.stage = new Stage(this.find("canvas"), {
      hover: (cell) => this.tellCell(cell),
      fixate: (points) => on.fixate(this, this.inImage(points)),
    });
    for (const [value, text] of VIEWS) {
      const option = element("option", text);
      option.value = value;
      this.find(".show").append(option);
    }
    this.listen();
  }

  find(selector) { return this.home.querySelector(selector); }

  listen() {
    const stage = this.stage;
    this.find(".show").addEventListener("change", (event) => {
      stage.show = event.target.value;
      stage.draw();
    });
    for (const layer of ["cells", "path"])
      this.find(`.${layer}`).addEventListener("change", (event) => {
        stage.layers[layer] = event.target.checked;
        stage.draw();
      });
    this.find(".look").addEventListener("change", (event) => this.showLook(Number(event.target.value)));
    this.find(".in").addEventListener("click", () => stage.zoomMiddle(1.5));
    this.find(".out").addEventListener("click", () => stage.zoomMiddle(1 / 1.5));
    this.find(".fit").addEventListener("click", () => stage.fit());
    this.find(".download").addEventListener("click", () => this.download());
    const answer = this.find(".answer");
    answer.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const words = [...answer.querySelectorAll(".word")];
      const next = words[words.indexOf(document.activeElement) + step];
      if (!step || !next) return;
      event.preventDefault();
      words.forEach((word) => { word.tabIndex = word === next ? 0 : -1; });
      next.focus();
    });
  }

  inImage(points) {
    const { image, canvas } = this.trace.looks[this.look];
    return points.map(({ x, y }) =>
      [Math.round(x * image.width / canvas.width), Math.round(y * image.height / canvas.height)]);
  }

  // `url` tells pictures apart: one that is there already keeps its place on the stage.
  setPicture(picture, url) {
    this.url = url;
    this.stage.setPicture(picture);
  }

  // A question is on its way: what is known of the last one stays until the new trace is there.
  begin(question) {
    this.find("h2").textContent = question;
    this.find(".answer").replaceChildren();
    this.find(".answer").classList.add("waiting");
    this.find(".attended").textContent = "";
    this.find(".comparison").hidden = true;
    this.rows.clear();
    this.stage.shares = null;
    this.stage.draw();
  }
  addText(piece) { this.find(".answer").append(piece); }
  end() { this.find(".answer").classList.remove("waiting"); }
  // There is no answer: what is shown belongs together again.
  takeBack() { if (this.trace) this.setTrace(this.trace); }

  setTrace(trace) {
    this.trace = trace;
    this.end();
    this.find("h2").textContent = trace.question;
    this.find(".download").hidden = false;
    const choice = this.find(".look");
    choice.replaceChildren(...trace.looks.map((_, index) => {
      const option = element("option", String(index + 1));
      option.value = String(index);
      return option;
    }));
    this.find(".which").hidden = trace.looks.length < 2;
    this.showWords();
    this.showFigures();
    this.showTimes();
    this.showLook(0);
  }

  showLook(index) {
    this.look = index;
    const look = this.trace.looks[index] ?? null;
    if (look && look.picture !== this.url) this.loadPicture(look.picture);
    this.stage.setLook(look);
    this.showLegend(look);
    this.showSaccades(look);
    this.tellCell(-1);
  }
  loadPicture(url) {
    this.setPicture(null, url);
    if (url === "") return;
    const image = new Image();
    image.addEventListener("load", () => {
      if (this.url === url) this.setPicture(image, url);
    });
    image.src = url;
  }

  showWords() {
    const home = this.find(".answer");
    home.replaceChildren();
    let first = true;
    for (const word of this.trace.words) {
      if (word.blank || word.tokens.length === 0) {
        home.append(word.text);
        continue;
      }
      const shown = element("span", word.text, "word");
      shown.tabIndex = first ? 0 : -1;  // one stop for Tab, arrows go on from there
      first = false;
      for (const event of ["pointerenter", "focus"])
        shown.addEventListener(event, () => this.chooseWord(word, shown));
      for (const event of ["pointerleave", "blur"])
        shown.addEventListener(event, () => this.chooseWord(null, shown));
      home.append(shown);
    }
  }
  chooseWord(word, shown) {
    const shares = word && this.trace.attended(word, this.look);
    this.stage.shares = shares;
    this.stage.draw();
    shown.classList.toggle("chosen", Boolean(shares));
    const sum = shares ? shares.reduce((all, share) => all + share, 0) : 0;
    this.find(".attended").textContent = shares
      ? `“${word.text}” gave ${percent(sum)} of its attention to the picture` : "";
  }

  showFigures() {
    const { usage, confidence, times } = this.trace;
    const time = new Map(times);
    const figures = [
      ["Visual tokens", `${whole.format(usage.image)} of ${whole.format(usage.full)}`],
      ["Saved", usage.full > 0 ? percent(Math.max(0, 1 - usage.image / usage.full)) : "–"],
      ["First token", time.has("first_token") ? duration(time.get("first_token")) : "–"],
      ["Confidence", percent(confidence)]];
    this.find(".figures").replaceChildren(...figures.map(([name, value]) => {
      const one = element("div");
      one.append(element("dt", name), element("dd", value));
      return one;
    }));
  }

  showTimes() {
    const times = this.trace.times.filter(([name]) => name !== "load");
    const most = times.reduce((all, [, ms]) => Math.max(all, ms), 1e-9);
    this.find(".times").hidden = false;
    this.find(".times tbody").replaceChildren(...times.map(([name, ms]) => {
      const row = element("tr");
      const bar = element("td");
      const line = element("span", "", "bar");
      line.style.width = `${Math.max(0, ms) / most * 100}%`;
      bar.append(line);
      row.append(element("td", name.replaceAll("_", " ")), element("td", duration(ms)), bar);
      return row;
    }));
  }

  showLegend(look) {
    const counts = new Map();
    for (const cell of look?.cells ?? []) counts.set(cell.level, (counts.get(cell.level) ?? 0) + 1);
    this.find(".legend").replaceChildren(...[...counts].sort(([a], [b]) => a - b).map(([level, count]) => {
      const item = element("li");
      const swatch = element("i");
      swatch.style.background = levelColour(level);
      item.append(swatch,
        `level ${level} · ${whole.format(CELL_PX * 2 ** level)} px · ${whole.format(count)} ${count === 1 ? "cell" : "cells"}`);
      return item;
    }));
  }

  showSaccades(look) {
    const saccades = look?.saccades ?? [];
    this.find(".saccades").hidden = saccades.length === 0;
    this.find(".saccades ol").replaceChildren(...saccades.map((saccade, index) => {
      const cells = saccade.end - saccade.begin;
      const button = element("button", `${index + 1}. ${whole.format(cells)} ${cells === 1 ? "cell" : "cells"
        } · ${percent(saccade.confidence)} sure · ${duration(saccade.ms)}`);
      button.type = "button";
      const choose = (chosen) => {
        this.stage.chosen = chosen ? [saccade.begin, saccade.end] : null;
        button.classList.toggle("chosen", chosen);
        this.stage.draw();
      };
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => choose(true));
      for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => choose(false));
      const item = element("li");
      item.append(button);
      return item;
    }));
  }

  tellCell(index) {
    const look = this.trace?.looks[this.look];
    const cell = look?.cells[index];
    if (!cell) {
      this.find(".readout").textContent = look ? "Point at a cell to see its share." : "";
      return;
    }
    const parts = [`level ${cell.level}, row ${cell.row}, column ${cell.col}`,
      `${whole.format(cell.px)} × ${whole.format(cell.px)} px`];
    if (look.attention) {
      const sum = look.attention.reduce((all, share) => all + share, 0);
      parts.push(`${percent(sum > 0 ? look.attention[index] / sum : 0)} of the question’s attention to the picture`);
    }
    if (this.stage.shares) parts.push(`${percent(this.stage.shares[index])} of this word’s attention`);
    for (const name of cell.level === 0 ? MAP_NAMES : []) {
      const map = look.maps[name];
      if (map) parts.push(`${name} ${map.scores[cell.row][cell.col].toFixed(2)}`);
    }
    this.find(".readout").textContent = parts.join(" · ");
  }

  // A row of the comparison; `trace` may be an error in words.
  addRow(name, trace) {
    this.rows.set(name, trace);
    this.find(".comparison").hidden = false;
    this.find(".comparison tbody").replaceChildren(...[...this.rows].map(([plan, its]) => {
      const row = element("tr");
      if (typeof its === "string") {
        const told = element("td", its);
        told.colSpan = 3;
        row.append(element("td", plan), told);
        return row;
      }
      const button = element("button", plan);
      button.type = "button";
      button.setAttribute("aria-pressed", String(its === this.trace));
      button.addEventListener("click", () => {
        this.setTrace(its);
        this.addRow(plan, its);
      });
      const cell = element("td");
      cell.append(button);
      const first = new Map(its.times).get("first_token");
      row.append(cell, element("td", whole.format(its.usage.image)),
        element("td", first === undefined ? "–" : duration(first)), element("td", its.text));
      return row;
    }));
  }

  download() {
    const json = JSON.stringify(this.trace.json);
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([json], { type: "application/json" }));
    link.download = "fovea-trace.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
