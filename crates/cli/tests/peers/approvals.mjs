// Calls one tool through the TypeScript client and prints what became of it, as JSON.
//
// usage: approvals.mjs HAFT ERA WAY ANSWER ARGUMENTS
//   HAFT: the program, or an address whose token is in HAFT_TOKEN.
//   ERA: legacy or 2026-07-28. WAY: elicit or none. ANSWER: allow, deny or dismiss.
//
// Over HTTP every request that carried a state is sent once more at the end, as it was: `replayed` has
// the codes of the errors that came of it.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [haft, era, way, answer, toolArguments] = process.argv.slice(2);
const asked = [];
const rounds = [];

function transport() {
  if (!haft.startsWith("http:")) {
    return new StdioClientTransport({ command: haft, args: ["mcp"], env: process.env, stderr: "inherit" });
  }
  const headers = { authorization: `Bearer ${process.env.HAFT_TOKEN}` };
  const watched = (url, init) => {
    if (init?.body?.includes('"requestState"')) rounds.push({ url, init: { ...init, signal: undefined } });
    return fetch(url, init);
  };
  return new StreamableHTTPClientTransport(new URL(haft), { requestInit: { headers }, fetch: watched });
}

// The code of the error in an answer that comes whole or as events; 0 if it is none.
async function codeOf(answer) {
  const text = await answer.text();
  const messages = text.startsWith("{") ? [text] : text.match(/(?<=^data: ?)\{.*/gm) ?? [];
  return JSON.parse(messages.at(-1) ?? "{}").error?.code ?? 0;
}

const client = new Client(
  { name: "ts-peer", version: "1" },
  {
    capabilities: way === "elicit" ? { elicitation: { form: {} } } : {},
    versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: era } },
  },
);
if (way === "elicit") {
  client.setRequestHandler("elicitation/create", async (request) => {
    asked.push(request.params.message);
    if (answer === "dismiss") return { action: "cancel" };
    if (answer === "deny") return { action: "decline" };
    return { action: "accept", content: {} };
  });
}
await client.connect(transport());
const result = await client.callTool({ name: "write", arguments: JSON.parse(toolArguments) });
const text = result.content.map((block) => block.text ?? "").join("\n");
const replayed = [];
for (const { url, init } of rounds) replayed.push(await codeOf(await fetch(url, init)));
console.log(JSON.stringify({ error: result.isError ?? false, text, asked, polled: [], replayed }));
await client.close();
