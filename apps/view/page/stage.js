// SPDX-License-Identifier: Apache-2.0
// The picture with what was looked at drawn over it; pan, zoom, hover and fixations. Places are in
// canvas pixels unless their names say "screen".

// As src/picture has them: one colour a level, and heat from cold to hot.
const LEVEL_COLOURS =
  ["#fae91d", "#ff8b26", "#f53d75", "#ba4dd9", "#6568e1", "#259ed6", "#26bdae", "#66d45c"];
const HEAT = ["#0b0e1e", "#1b1a46", "#34236f", "#632881", "#942c83", "#be3d73", "#e25659", "#f67b43",
  "#ffa43d", "#fccd74", "#f9f2ab"];
const MOST_ZOOM = 40;
const GRIP_PX = 11;

function levelColour(level) { return LEVEL_COLOURS[level % LEVEL_COLOURS.length]; }
function heatColour(share) {
  return HEAT[Math.round(Math.min(1, Math.max(0, share)) * (HEAT.length - 1))];
}

class Stage {
  // `on` is told of what a person does: hover(cell index or -1), fixate(points).
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.look = null;
    this.picture = null;
    this.show = "picture";
    this.layers = { cells: true, path: true };
    this.shares = null;    // of each cell, drawn as heat in place of the cells
    this.chosen = null;    // [begin, end) of the cells that stand out
    this.hovered = -1;
    this.cursor = null;    // the level-0 cell that arrows walk with
    this.fixations = [];
    this.zoom = 1;
    this.centre = null;
    this.seen = new Map();  // the picture at each level
    this.pointers = new Map();
    this.dragged = null;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  setPicture(picture) {
    this.picture = picture;
    this.seen.clear();
    this.fit();
  }

  setLook(look) {
    const before = this.look?.canvas;
    this.look = look;
    this.seen.clear();
    this.shares = this.chosen = null;
    this.hovered = -1;
    this.fixations = look === null ? [] : look.fixations.map((point) => ({ ...point }));
    if (look && (!before || before.width !== look.canvas.width || before.height !== look.canvas.height))
      this.fit();
    this.resize();
  }

  size() {
    if (this.look) return this.look.canvas;
    if (this.picture) return { width: this.picture.naturalWidth, height: this.picture.naturalHeight };
    return { width: 4, height: 3 };
  }

  fit() {
    const size = this.size();
    this.zoom = 1;
    this.centre = { x: size.width / 2, y: size.height / 2 };
    this.canvas.classList.remove("zoomed");
    this.resize();
  }

  // As wide as there is room and as high as the picture then is, within the window.
  resize() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const size = this.size();
    const height = Math.round(Math.min(width * size.height / size.width,
      Math.max(240, window.innerHeight * 0.72)));
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    const wide = Math.round(width * ratio);
    const high = Math.round(height * ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.draw();
  }

  scale() {
    const size = this.size();
    return this.zoom * Math.min(this.canvas.clientWidth / size.width,
      this.canvas.clientHeight / size.height);
  }
  toScreen(point) {
    const scale = this.scale();
    return {
      x: (point.x - this.centre.x) * scale + this.canvas.clientWidth / 2,
      y: (point.y - this.centre.y) * scale + this.canvas.clientHeight / 2,
    };
  }
  toCanvas(screen) {
    const scale = this.scale();
    return {
      x: (screen.x - this.canvas.clientWidth / 2) / scale + this.centre.x,
      y: (screen.y - this.canvas.clientHeight / 2) / scale + this.centre.y,
    };
  }

  zoomAt(screen, factor) {
    const under = this.toCanvas(screen);
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    const moved = this.toCanvas(screen);
    this.pan(under.x - moved.x, under.y - moved.y);
    this.canvas.classList.toggle("zoomed", this.zoom > 1);
  }
  zoomMiddle(factor) {
    this.zoomAt({ x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 }, factor);
  }
  pan(dx, dy) {
    const size = this.size();
    const keep = (at, most) => Math.min(most, Math.max(0, at));
    this.centre = { x: keep(this.centre.x + dx, size.width), y: keep(this.centre.y + dy, size.height) };
    if (this.zoom === 1) this.centre = { x: size.width / 2, y: size.height / 2 };
    this.draw();
  }

  // The finest cell over a place; -1 where there is none.
  cellAt(point) {
    let found = -1;
    (this.look?.cells ?? []).forEach((cell, index) => {
      const inside = point.x >= cell.x && point.x < cell.x + cell.px &&
        point.y >= cell.y && point.y < cell.y + cell.px;
      if (inside && (found < 0 || cell.level < this.look.cells[found].level)) found = index;
    });
    return found;
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.centre === null) return;
    const scale = this.scale();
    const corner = this.toScreen({ x: 0, y: 0 });
    context.setTransform(scale * ratio, 0, 0, scale * ratio, corner.x * ratio, corner.y * ratio);
    const size = this.size();
    context.save();
    context.beginPath();
    context.rect(0, 0, size.width, size.height);
    context.clip();
    this.drawBase(context, size);
    if (this.shares) this.drawShares(context, size);
    else if (this.layers.cells) this.drawCells(context, scale);
    if (this.chosen) this.drawChosen(context, scale);
    const at = this.hovered >= 0 ? this.look.cells[this.hovered] : null;
    if (at) this.outline(context, at, "#ffffff", 2.5 / scale);
    if (this.cursor) this.outline(context, this.cursor, "#ffffff", 2 / scale);
    context.restore();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.layers.path && !this.shares) this.drawPath(context);
  }

  drawBase(context, size) {
    context.fillStyle = "#0d0f12";
    context.fillRect(0, 0, size.width, size.height);
    const map = this.look?.maps[this.show];
    if (map) return this.drawMap(context, map);
    if (this.show === "attention" && this.look?.attention) {
      this.drawPicture(context, size);
      return this.drawHeat(context, size, this.look.attention);
    }
    if (this.show === "seen" && this.look && this.picture) return this.drawSeen(context);
    this.drawPicture(context, size);
  }
  drawPicture(context, size) {
    if (!this.picture) return;
    context.imageSmoothingEnabled = this.zoom < 8;
    context.drawImage(this.picture, 0, 0, size.width, size.height);
  }
  drawMap(context, map) {
    map.scores.forEach((row, r) => row.forEach((score, c) => {
      context.fillStyle = heatColour(score);
      context.fillRect(c * CELL_PX, r * CELL_PX, CELL_PX, CELL_PX);
    }));
  }
  // Each cell as sharp as its tokens are: 32 x 32 px of the picture at its level.
  drawSeen(context) {
    context.imageSmoothingEnabled = false;
    for (const cell of this.coarseFirst()) {
      const level = this.atLevel(cell.level);
      context.drawImage(level, cell.col * CELL_PX, cell.row * CELL_PX, CELL_PX, CELL_PX,
        cell.x, cell.y, cell.px, cell.px);
    }
  }
  atLevel(level) {
    if (!this.seen.has(level)) {
      const { width, height } = this.look.canvas;
      const small = document.createElement("canvas");
      small.width = Math.max(CELL_PX, Math.ceil(width / 2 ** level));
      small.height = Math.max(CELL_PX, Math.ceil(height / 2 ** level));
      const context = small.getContext("2d");
      context.imageSmoothingQuality = "high";
      context.drawImage(this.picture, 0, 0, width / 2 ** level, height / 2 ** level);
      this.seen.set(level, small);
    }
    return this.seen.get(level);
  }
  coarseFirst() { return [...this.look.cells].sort((a, b) => b.level - a.level); }

  drawCells(context, scale) {
    if (!this.look) return;
    const thin = Math.min(1.5 / scale, CELL_PX / 6);
    for (const cell of this.coarseFirst()) {
      const fine = cell.level === 0;
      context.fillStyle = levelColour(cell.level) + (fine ? "30" : "14");
      context.fillRect(cell.x, cell.y, cell.px, cell.px);
      this.outline(context, cell, levelColour(cell.level), fine ? thin : thin * 0.7);
    }
  }
  outline(context, cell, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(cell.x + width / 2, cell.y + width / 2, cell.px - width, cell.px - width);
  }
  drawShares(context, size) {
    if (this.show !== "picture" && this.show !== "seen") {
      context.fillStyle = "#0d0f12";
      context.fillRect(0, 0, size.width, size.height);
      this.drawPicture(context, size);
    }
    this.drawHeat(context, size, this.shares);
  }
  drawHeat(context, size, shares) {
    context.fillStyle = "#0b0e1e90";
    context.fillRect(0, 0, size.width, size.height);
    const most = shares.reduce((a, b) => Math.max(a, b), 1e-9);
    const order = this.look.cells.map((_, index) => index)
      .sort((a, b) => this.look.cells[b].level - this.look.cells[a].level);
    for (const index of order) {
      const cell = this.look.cells[index];
      const share = shares[index] / most;
      // Thin enough that what stands in the cell can still be read.
      context.globalAlpha = 0.5 * Math.sqrt(share);
      context.fillStyle = heatColour(0.3 + 0.7 * Math.sqrt(share));
      context.fillRect(cell.x, cell.y, cell.px, cell.px);
      context.globalAlpha = 1;
      if (share > 0.1) this.outline(context, cell, heatColour(0.3 + 0.7 * share), 2 / this.scale());
    }
  }
  drawChosen(context, scale) {
    for (const cell of this.look.cells.slice(...this.chosen))
      this.outline(context, cell, "#ffffff", 3 / scale);
  }
  // The scan path: fixations in their order, joined.
  drawPath(context) {
    const places = this.fixations.map((point) => this.toScreen(point));
    for (const [colour, width] of [["#131519", 5], ["#ffffff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      places.forEach((at, index) => context[index ? "lineTo" : "moveTo"](at.x, at.y));
      context.stroke();
    }
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    places.forEach((at, index) => {
      context.beginPath();
      context.arc(at.x, at.y, GRIP_PX, 0, 2 * Math.PI);
      context.fillStyle = "#131519c8";
      context.fill();
      context.strokeStyle = "#ffffff";
      context.lineWidth = 2;
      context.stroke();
      context.fillStyle = "#ffffff";
      context.fillText(String(index + 1), at.x, at.y + 0.5);
    });
  }
}
