// SPDX-License-Identifier: Apache-2.0
// What a person does on a stage, with a pointer, fingers or keys.

function screenOf(event, canvas) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function distance(a, b) { return Math.hypot(a.x - b.x, a.y - b.y); }

Object.assign(Stage.prototype, {
  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("dblclick", (event) => this.fixate(this.toCanvas(screenOf(event, canvas))));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.walk(null));
    canvas.addEventListener("wheel", (event) => {
      if (!this.picture && !this.look) return;
      event.preventDefault();
      this.zoomAt(screenOf(event, canvas), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)));
    }, { passive: false });
  },

  gripAt(screen) {
    if (!this.layers.path) return -1;
    return this.fixations.findLastIndex((point) => distance(this.toScreen(point), screen) <= GRIP_PX + 4);
  },

  press(event) {
    const at = screenOf(event, this.canvas);
    this.pointers.set(event.pointerId, at);
    this.canvas.setPointerCapture(event.pointerId);
    this.dragged = { grip: this.pointers.size === 1 ? this.gripAt(at) : -1, moved: false };
  },

  move(event) {
    const at = screenOf(event, this.canvas);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.canvas.style.cursor = this.gripAt(at) >= 0 ? "grab" : "";
      return this.hover(this.cellAt(this.toCanvas(at)));
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, at);
    else if (this.dragged?.grip >= 0) this.drag(at);
    else if (this.zoom > 1) {
      const scale = this.scale();
      this.pan((before.x - at.x) / scale, (before.y - at.y) / scale);
    }
    this.pointers.set(event.pointerId, at);
  },

  drag(at) {
    const size = this.size();
    const place = this.toCanvas(at);
    this.dragged.moved = true;
    this.fixations[this.dragged.grip] = {
      x: Math.min(size.width - 1, Math.max(0, place.x)),
      y: Math.min(size.height - 1, Math.max(0, place.y)),
    };
    this.canvas.style.cursor = "grabbing";
    this.draw();
  },

  pinch(moving, before, at) {
    const other = [...this.pointers].find(([id]) => id !== moving)[1];
    const factor = distance(at, other) / Math.max(1, distance(before, other));
    this.zoomAt({ x: (at.x + other.x) / 2, y: (at.y + other.y) / 2 }, factor);
  },

  release(event) {
    this.pointers.delete(event.pointerId);
    const dragged = this.dragged;
    this.dragged = null;
    this.canvas.style.cursor = "";
    if (dragged?.grip >= 0 && dragged.moved && event.type === "pointerup") this.on.fixate(this.fixations);
  },

  fixate(point) {
    if (!this.look || this.cellAt(point) < 0) return;
    this.fixations = [point];
    this.draw();
    this.on.fixate(this.fixations);
  },

  hover(cell) {
    if (cell === this.hovered) return;
    this.hovered = cell;
    this.on.hover(cell);
    this.draw();
  },

  // Arrows walk over level-0 cells, from the middle on.
  walk(step) {
    if (!this.look || step === null) {
      this.cursor = null;
      return this.hover(-1);
    }
    const { width, height } = this.look.canvas;
    const cols = Math.ceil(width / CELL_PX);
    const rows = Math.ceil(height / CELL_PX);
    const from = this.cursor ?? { row: rows >> 1, col: cols >> 1 };
    const row = Math.min(rows - 1, Math.max(0, from.row + step[1]));
    const col = Math.min(cols - 1, Math.max(0, from.col + step[0]));
    this.cursor = { row, col, x: col * CELL_PX, y: row * CELL_PX, px: CELL_PX };
    this.hover(this.cellAt({ x: this.cursor.x + CELL_PX / 2, y: this.cursor.y + CELL_PX / 2 }));
    this.draw();
  },

  key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = arrows[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step && event.shiftKey) this.pan(step[0] * 40 / this.scale(), step[1] * 40 / this.scale());
    else if (step) this.walk(step);
    else if (event.key === "+" || event.key === "=") this.zoomMiddle(1.3);
    else if (event.key === "-") this.zoomMiddle(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.walk(null);
    else if (event.key === "Enter" && this.cursor)
      this.fixate({ x: this.cursor.x + CELL_PX / 2, y: this.cursor.y + CELL_PX / 2 });
    else return;
    event.preventDefault();
  },
});
