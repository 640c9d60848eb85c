// SPDX-License-Identifier: Apache-2.0
// The page: a picture, one or two questions, a budget, and the panels that show what came of them.

const BUDGETS = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
const SHOWN_TYPES = ["image/jpeg", "image/png", "image/webp"];

function byId(id) { return document.getElementById(id); }

const page = {
  picture: null,   // { url, image }
  panels: [],
  fixations: [],   // that a person chose, in pixels of the image, of each panel
  running: null,   // AbortController of what is being asked
};

function complain(message) {
  byId("error").textContent = message;
  byId("error").hidden = message === "";
}

function budget() { return BUDGETS[Number(byId("budget").value)]; }
function showBudget() {
  byId("budget-text").textContent = `${budget()} tokens`;
  byId("budget").setAttribute("aria-valuetext", `${budget()} tokens`);
}

function questions() {
  const first = byId("question-0").value.trim();
  return byId("two").checked ? [first, byId("question-1").value.trim()] : [first];
}

// As many panels as there are questions; what the others show stays.
function makePanels(count) {
  while (page.panels.length > count) page.panels.pop().home.remove();
  while (page.panels.length < count) {
    const panel = new Panel(byId("panels"), { fixate: lookThere });
    if (page.picture) panel.setPicture(page.picture.image, page.picture.url);
    page.panels.push(panel);
  }
  page.fixations.length = count;
  byId("panels").classList.toggle("two", count > 1);
}

function lookThere(panel, points) {
  if (document.body.classList.contains("alone")) return;
  const index = page.panels.indexOf(panel);
  page.fixations[index] = points;
  byId("forget").hidden = false;
  askAll([index]);
}

// One question with one plan: the trace, or null where it was stopped.
async function askOne(index, fovea, onText) {
  const given = page.fixations[index];
  const asked = await ask({
    picture: page.picture.url,
    question: questions()[index],
    fovea: given && !fovea.plan ? { ...fovea, fixations: [given] } : fovea,
    signal: page.running.signal,
    onText,
  });
  return traceOf(asked);
}

async function askPanel(index) {
  const panel = page.panels[index];
  const running = page.running;
  panel.begin(questions()[index]);
  try {
    const fovea = { budget: budget(), looks: Number(byId("looks").value) };
    const trace = await askOne(index, fovea, (piece) => panel.addText(piece));
    panel.setTrace(trace);
    if (!byId("compare").checked) return;
    panel.addRow("Fovea", trace);
    for (const [name, other] of [["uniform", { plan: "uniform", budget: budget() }], ["full", { plan: "uniform" }]])
      panel.addRow(name, await askOne(index, other, () => {}).catch((error) => {
        if (error.name === "AbortError") throw error;
        return error.message;
      }));
  } catch (error) {
    if (page.running === running) panel.takeBack();
    throw error;
  } finally {
    if (page.running === running) panel.end();  // else it waits for the next answer
  }
}

// One after the other, so that their times can be compared.
async function askAll(indices) {
  complain("");
  if (!page.picture) return complain("Choose a picture first.");
  if (questions().some((question) => question === "")) return complain("Write a question first.");
  page.running?.abort();
  const running = page.running = new AbortController();
  byId("stop").hidden = false;
  byId("ask-form").setAttribute("aria-busy", "true");
  makePanels(questions().length);
  try {
    for (const index of indices ?? page.panels.keys()) await askPanel(index);
  } catch (error) {
    if (error.name !== "AbortError") tellError(error);
  } finally {
    if (page.running === running) {
      page.running = null;
      byId("stop").hidden = true;
      byId("ask-form").removeAttribute("aria-busy");
    }
  }
}

function tellError(error) {
  if (error.status === 401) {
    byId("key-form").hidden = false;
    byId("key").focus();
    if (serverKey === "") return;
  }
  const message = error.message;
  complain(message.charAt(0).toUpperCase() + message.slice(1) + (/[.?!]$/.test(message) ? "" : "."));
}

function readAs(file, how) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(new Error("the file cannot be read")));
    reader[how](file);
  });
}

async function takeFile(file) {
  complain("");
  try {
    if (file.name.endsWith(".json")) return showTrace(parseTrace(await readAs(file, "readAsText")));
    if (!SHOWN_TYPES.includes(file.type)) throw new Error("this is no picture that can be read: give JPEG, PNG or WebP");
    const url = await readAs(file, "readAsDataURL");
    const image = new Image();
    image.src = url;
    await image.decode().catch(() => { throw new Error("this picture cannot be decoded; is it damaged?"); });
    page.running?.abort();
    page.picture = { url, image };
    page.fixations = [];
    byId("forget").hidden = true;
    byId("thumb").src = url;
    byId("thumb").alt = `The picture ${file.name}`;
    byId("thumb").hidden = false;
    byId("choose").firstElementChild.textContent = "Another picture";
    byId("choose").lastElementChild.hidden = true;
    makePanels(0);
    makePanels(questions().length);
    byId("question-0").focus();
  } catch (error) {
    tellError(error);
  }
}

function parseTrace(text) {
  try {
    return traceOf(JSON.parse(text));
  } catch (error) {
    throw error instanceof SyntaxError ? new Error("this file is not JSON") : error;
  }
}

function showTrace(trace) {
  makePanels(0);
  makePanels(1);
  page.panels[0].setTrace(trace);
}

function takeDrops() {
  const drop = byId("drop");
  for (const name of ["dragover", "dragleave", "drop"])
    document.addEventListener(name, (event) => {
      if (![...event.dataTransfer?.types ?? []].includes("Files")) return;
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      const file = event.dataTransfer.files[0];
      if (name === "drop" && file) takeFile(file);
    });
}

async function greet() {
  try {
    const models = await (await call("v1/models", {})).json();
    const model = textOf(models?.data?.[0]?.id);
    byId("model").textContent = model;
    byId("knows").hidden = model !== "tiny";
    byId("key-form").hidden = true;
    complain("");
  } catch (error) {
    tellError(error);
  }
}

function listen() {
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    askAll();
  });
  for (const id of ["question-0", "question-1"])
    byId(id).addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      askAll();
    });
  byId("file").addEventListener("change", (event) => {
    if (event.target.files[0]) takeFile(event.target.files[0]);
    event.target.value = "";
  });
  byId("budget").addEventListener("input", showBudget);
  for (const id of ["budget", "looks"])
    byId(id).addEventListener("change", () => { if (page.panels[0]?.trace) askAll(); });
  byId("two").addEventListener("change", () => {
    byId("second").hidden = !byId("two").checked;
    if (page.panels.length > 0) makePanels(questions().length);
  });
  byId("stop").addEventListener("click", () => page.running?.abort());
  byId("forget").addEventListener("click", () => {
    page.fixations = [];
    byId("forget").hidden = true;
    askAll();
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    serverKey = byId("key").value;
    greet();
  });
  takeDrops();
}

// A file that `fovea view` wrote holds a trace; there is no server behind it.
function start() {
  const held = byId("trace");
  if (held === null) {
    showBudget();
    listen();
    return greet();
  }
  document.body.classList.add("alone");
  byId("ask-form").hidden = true;
  try {
    showTrace(parseTrace(held.textContent));
  } catch (error) {
    tellError(error);
  }
}

start();
