// The official TypeScript client of the newest protocol revision, for the tests of confirmation.
//   CARDINAL_API_KEY=mpk_... CONFIRM=accept|decline node mcp2.mjs URL call TOOL '{"argument": "value"}'
// Prints the result as JSON, and the questions that it answered in the place of a user as `asked`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, action, tool, args = "{}"] = process.argv.slice(2);
const { CARDINAL_API_KEY: key, CONFIRM: confirm } = process.env;
if (!url || !key || !confirm || action !== "call" || !tool) {
  console.error("usage: CARDINAL_API_KEY=mpk_... CONFIRM=accept|decline node mcp2.mjs URL call TOOL [JSON arguments]");
  process.exit(64);
}

const asked = [];
const client = new Client(
  { name: "cardinal-newest-revision", version: "1.0.0" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } },
);
client.setRequestHandler("elicitation/create", ({ params }) => {
  asked.push(params.message);
  return { action: confirm, content: confirm === "accept" ? { confirm: true } : undefined };
});
try {
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
  console.log(JSON.stringify({ ...result, asked }, null, 2));
} catch (error) {
  console.log(JSON.stringify({ error: { code: error.code ?? null, message: String(error.message) } }, null, 2));
  process.exitCode = 1;
} finally {
  await client.close();
}
