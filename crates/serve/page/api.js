// Talking to the server this page came from: JSON, and server-sent events of a POST.

let key = sessionStorage.getItem("demask-key") ?? "";

/** A refusal of the server, with its own sentence. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Remembers the API key for as long as this tab is open. */
export function setKey(value) {
  key = value.trim();
  sessionStorage.setItem("demask-key", key);
}

async function ask(path, options = {}) {
  const headers = { ...(key ? { authorization: `Bearer ${key}` } : {}) };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the server cannot be reached");
  }
  if (!response.ok) {
    const said = await response.json().catch(() => null);
    throw new Refusal(response.status, said?.error?.message ?? `the server answered ${response.status}`);
  }
  return response;
}

/** The JSON of a path. */
export const get = async (path) => (await ask(path)).json();

/** The JSON answer to a JSON body. */
export const post = async (path, body) => (await ask(path, { method: "POST", body: JSON.stringify(body) })).json();

/** Events of a stream, each as { event, data }. */
export async function* stream(path, body, signal) {
  const response = await ask(path, { method: "POST", body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const field = (name) =>
        block.split("\n").filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
      const data = field("data").join("\n");
      if (data) yield { event: field("event")[0] ?? "message", data: JSON.parse(data) };
    }
  }
}
