// The official TypeScript clients over standard input and output, for the test of `cardinal mcp stdio`.
//   node stdio.mjs legacy|newest CARDINAL ARGUMENTS...
// Lists tools, calls some, cancels one, then prints `waiting`, waits until the tools have changed, and prints all as JSON.
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [era, command, ...args] = process.argv.slice(2);
const isLegacy = era === "legacy";
const info = { name: "cardinal-stdio", version: "1.0.0" };
const server = { command, args, stderr: "inherit" };
const client = isLegacy ? new LegacyClient(info) : new Client(info, { versionNegotiation: { mode: "auto" } });
const call = (name, given, options) =>
  isLegacy
    ? client.callTool({ name, arguments: given }, undefined, options)
    : client.callTool({ name, arguments: given }, options);
const failure = (error) => ({ code: error.code ?? null, message: String(error.message) });

let wait;
const changed = new Promise((resolve) => {
  if (isLegacy) client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve(true));
  else client.setNotificationHandler("notifications/tools/list_changed", () => resolve(true));
  wait = () => setTimeout(() => resolve(false), 60_000).unref();
});

try {
  await client.connect(isLegacy ? new LegacyTransport(server) : new StdioClientTransport(server));
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const progress = [];
  const onprogress = ({ progress: done, total, message }) => progress.push({ done, total, message });
  const reported = await call("plugin_conformance_test_tool_with_progress", {}, { onprogress });
  const header = await call("plugin_conformance_test_custom_header", { region: "Köln" });
  const unknown = await call("plugin_conformance_nothing", {}).catch(failure);
  const stop = new AbortController();
  const slow = call("plugin_echo_sleep", { ms: 60_000 }, { signal: stop.signal }).catch(failure);
  setTimeout(() => stop.abort("enough"), 500);
  const cancelled = await slow;
  const several = await Promise.all([1, 2, 3].map((n) => call("plugin_echo_repeat", { n })));
  const listening = isLegacy ? null : await client.listen({ toolsListChanged: true });
  console.log("waiting");
  wait();
  const heard = await changed;
  await listening?.close();
  console.log(JSON.stringify({ tools, progress, reported, header, unknown, cancelled, several, changed: heard }));
} catch (error) {
  console.log(JSON.stringify({ error: failure(error) }));
  process.exitCode = 1;
} finally {
  await client.close();
}
