// The official TypeScript MCP client on the command line, used by the tests and by the first walk in README.
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL list
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL call TOOL '{"argument": "value"}'
// Prints what the server answered as JSON; exit code 1 when it answered with an error.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, action, tool, args = "{}"] = process.argv.slice(2);
const key = process.env.CARDINAL_API_KEY;
if (!url || !key || !(action === "list" || (action === "call" && tool))) {
  console.error("usage: CARDINAL_API_KEY=mpk_... node mcp.mjs URL list | call TOOL [JSON arguments]");
  process.exit(64);
}

const client = new Client({ name: "cardinal-first-walk", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
});

async function listed() {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return { server: client.getServerVersion(), tools };
}

try {
  await client.connect(transport);
  const answer =
    action === "list" ? await listed() : await client.callTool({ name: tool, arguments: JSON.parse(args) });
  console.log(JSON.stringify(answer, null, 2));
  if (answer.isError) process.exitCode = 1;
} catch (error) {
  console.log(JSON.stringify({ error: { code: error.code ?? null, message: String(error.message) } }, null, 2));
  process.exitCode = 1;
} finally {
  await client.close();
}
