// SPDX-License-Identifier: Apache-2.0
// A trace, as `fovea ask --trace` and the server give it, made safe to draw: whatever it holds,
// what comes out has the shapes below, or there is an Error that says in words what is wrong.

const CELL_PX = 32;
const MOST_PX = 1 << 20;
const MOST_CELLS = 1 << 20;
const MOST_LEVEL = 24;
const MAP_NAMES = ["information", "salience", "coupling", "relevance"];

function listOf(value) { return Array.isArray(value) ? value : []; }
function numberOf(value, other = 0) { return Number.isFinite(value) ? value : other; }
function textOf(value) { return typeof value === "string" ? value : ""; }

function sizeOf(value, what) {
  const [width, height] = listOf(value);
  const fits = (px) => Number.isInteger(px) && px > 0 && px <= MOST_PX;
  if (!fits(width) || !fits(height)) throw new Error(`this is no trace: ${what} is not a size`);
  return { width, height };
}

function cellOf(value, canvas) {
  const [level, row, col] = listOf(value);
  const fits = Number.isInteger(level) && level >= 0 && level <= MOST_LEVEL &&
    Number.isInteger(row) && row >= 0 && Number.isInteger(col) && col >= 0;
  const px = CELL_PX * 2 ** level;
  if (!fits || row * px >= canvas.height || col * px >= canvas.width)
    throw new Error("this is no trace: a cell is not on the canvas");
  return { level, row, col, x: col * px, y: row * px, px };
}

function pointsOf(value) {
  return listOf(value).map(listOf).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y))
    .map(([x, y]) => ({ x, y }));
}

// Rows of 0..65535, one score a level-0 cell.
function mapOf(value, canvas) {
  const rows = Math.ceil(canvas.height / CELL_PX);
  const cols = Math.ceil(canvas.width / CELL_PX);
  const given = listOf(value);
  if (given.length !== rows || !given.every((row) => listOf(row).length === cols)) return null;
  return { rows, cols, scores: given.map((row) => row.map((score) => numberOf(score) / 65535)) };
}

function sharesOf(value, cells) {
  const shares = listOf(value);
  return shares.length === cells.length ? shares.map((share) => numberOf(share)) : null;
}

function saccadeOf(value, cells) {
  const within = (at) => Math.min(Math.max(0, Math.trunc(numberOf(at))), cells.length);
  return {
    begin: within(value?.begin),
    end: within(value?.end),
    fixations: pointsOf(value?.fixations),
    confidence: numberOf(value?.confidence),
    ms: numberOf(value?.look_ms) + numberOf(value?.read_ms),
  };
}

function lookOf(value) {
  const canvas = sizeOf(value?.canvas, "a canvas");
  const given = listOf(value.cells);
  if (given.length > MOST_CELLS) throw new Error("this trace has too many cells");
  const cells = given.map((cell) => cellOf(cell, canvas));
  const maps = {};
  for (const name of MAP_NAMES) maps[name] = mapOf(value.maps?.[name], canvas);
  const picture = textOf(value.picture);
  return {
    canvas,
    image: sizeOf(value.image, "an image"),
    cells,
    maps,
    plan: textOf(value.plan),
    glance: Math.min(Math.max(0, numberOf(value.glance_tokens)), cells.length),
    tokensFull: numberOf(value.tokens_full),
    fixations: pointsOf(value.fixations),
    saccades: listOf(value.saccades).map((saccade) => saccadeOf(saccade, cells)),
    attention: sharesOf(value.attention, cells),
    picture: /^data:image\/(png|jpeg|webp);base64,[A-Za-z0-9+/=]*$/.test(picture) ? picture : "",
  };
}

// The pieces of text that each token of the answer completes: one may end inside a character.
function piecesOf(tokens) {
  const decoder = new TextDecoder();
  return tokens.map((token) => {
    const bytes = listOf(token?.bytes).map((byte) => numberOf(byte) & 255);
    return decoder.decode(new Uint8Array(bytes), { stream: true });
  });
}

// The words of a text with the numbers of the tokens they were made from. None where the tokens
// spell another text, as where it was cut out of them.
function wordsOf(text, tokens) {
  const owners = [];
  let spelled = "";
  piecesOf(tokens).forEach((piece, index) => {
    spelled += piece;
    for (let i = 0; i < piece.length; ++i) owners.push(index);
  });
  const words = [];
  for (const match of text.matchAll(/\s+|\S+/g)) {
    const known = spelled.startsWith(match[0], match.index);
    const its = known ? owners.slice(match.index, match.index + match[0].length) : [];
    words.push({ text: match[0], blank: /^\s/.test(match[0]), tokens: [...new Set(its)] });
  }
  return words;
}

function traceOf(json) {
  if (typeof json !== "object" || json === null || !Array.isArray(json.looks))
    throw new Error("this is no trace: it has no looks; fovea ask --trace FILE writes one");
  const looks = json.looks.map(lookOf);
  const tokens = listOf(json.answer_attention);
  const text = textOf(json.text);
  return {
    json,
    looks,
    text,
    question: textOf(json.question),
    finish: textOf(json.finish),
    confidence: numberOf(json.confidence),
    usage: {
      image: numberOf(json.usage?.image_tokens),
      full: numberOf(json.usage?.image_tokens_full),
      text: numberOf(json.usage?.text_tokens),
      kept: numberOf(json.usage?.kept_tokens),
      answer: numberOf(json.usage?.answer_tokens),
    },
    times: Object.entries(json.times_ms ?? {}).filter(([, ms]) => Number.isFinite(ms)),
    words: wordsOf(text, tokens),
    // How much the words' tokens attended to each cell of a look, averaged; null where not known.
    attended(word, look) {
      const all = word.tokens.map((token) => sharesOf(tokens[token]?.looks?.[look], looks[look].cells))
        .filter((shares) => shares !== null);
      if (all.length === 0) return null;
      return all[0].map((_, cell) => all.reduce((sum, shares) => sum + shares[cell], 0) / all.length);
    },
  };
}
