// SPDX-License-Identifier: Apache-2.0
// Questions to the server, by OpenAI's API; the answer streams.

class AskError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

let serverKey = "";

function headers() {
  const all = { "Content-Type": "application/json" };
  if (serverKey !== "") all.Authorization = `Bearer ${serverKey}`;
  return all;
}

async function errorOf(reply) {
  let message = `the server answered ${reply.status}`;
  try {
    message = textOf((await reply.json())?.error?.message) || message;
  } catch { /* no JSON: the status has to do */ }
  return new AskError(message, reply.status);
}

async function call(path, options) {
  let reply;
  try {
    reply = await fetch(path, { ...options, headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError("the server did not answer; is it still running?");
  }
  if (!reply.ok) throw await errorOf(reply);
  return reply;
}

// The objects of a stream of server-sent events, one after the other.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (event.startsWith("data: ") && event !== "data: [DONE]") yield JSON.parse(event.slice(6));
    }
  }
}

// Asks about a picture (a data URL). `fovea` says how to look; `onText` gets each piece of the
// answer. Gives the trace as `fovea ask --trace --trace-picture` writes it.
async function ask({ picture, question, fovea, signal, onText }) {
  const content = [{ type: "image_url", image_url: { url: picture } }, { type: "text", text: question }];
  const body = { messages: [{ role: "user", content }], stream: true, max_tokens: 512,
    fovea: { ...fovea, trace: true } };
  const start = performance.now();
  const reply = await call("v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  const trace = { question, text: "", finish: "", looks: [] };
  let basis = null;
  for await (const event of eventsOf(reply.body)) {
    if (event.error) throw new AskError(textOf(event.error.message) || "the answer broke off");
    const choice = event.choices?.[0];
    const piece = textOf(choice?.delta?.content);
    trace.text += piece;
    if (piece !== "") onText(piece);
    trace.finish = textOf(choice?.finish_reason) || trace.finish;
    basis = event.fovea ?? basis;
  }
  if (basis === null) throw new AskError("the answer broke off; is the server still running?");
  Object.assign(trace, basis, { question });
  trace.times_ms = { ...basis.times_ms, page: performance.now() - start };
  if (trace.looks?.[0]) trace.looks[0].picture = picture;
  return trace;
}
