// Calls one tool through the TypeScript client and prints what became of it, as JSON.
//
// usage: approvals.mjs HAFT ERA WAY ANSWER ARGUMENTS
//   ERA: legacy or 2026-07-28. WAY: elicit or none. ANSWER: allow, deny or dismiss.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [haft, era, way, answer, toolArguments] = process.argv.slice(2);
const asked = [];

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
    return { action: "accept", content: { answer } };
  });
}
await client.connect(
  new StdioClientTransport({ command: haft, args: ["mcp"], env: process.env, stderr: "inherit" }),
);
const result = await client.callTool({ name: "write", arguments: JSON.parse(toolArguments) });
const text = result.content.map((block) => block.text ?? "").join("\n");
console.log(JSON.stringify({ error: result.isError ?? false, text, asked, polled: [] }));
await client.close();
