import { request } from './client.ts';
import { ApiError } from './error.ts';

/** A tool as MCP clients see it. */
export interface McpTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema?: unknown;
}

export interface ToolResult {
  content: { type: string; text?: string }[];
  structuredContent?: unknown;
  isError?: boolean;
}

interface Reply<T> {
  result?: T;
  error?: { code: number; message: string };
}

const ENDPOINT = '/api';

/** One call to the MCP endpoint, as the user or, with `key`, as a program would. */
async function call<T>(method: string, params: unknown, key?: string, path = ENDPOINT): Promise<T> {
  // A call that takes long would be answered by a stream of events to whoever names that type.
  const headers = { Accept: 'application/json', ...(key && { Authorization: `Bearer ${key}` }) };
  const reply = await request<Reply<T>>(path, { root: '', method: 'POST', body: { jsonrpc: '2.0', id: 1, method, params }, headers, ...(key ? { anonymous: true } : {}) });
  if (reply.error || !reply.result) throw new ApiError(0, 'mcp', reply.error?.message ?? 'The MCP endpoint sent no result.');
  return reply.result;
}

/** With a path of the endpoint that narrows it, those that are left. */
export async function listTools(key?: string, path = ENDPOINT): Promise<McpTool[]> {
  const tools: McpTool[] = [];
  let cursor: string | undefined;
  do {
    const page: { tools: McpTool[]; nextCursor?: string } = await call('tools/list', cursor ? { cursor } : {}, key, path);
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools;
}

export function callTool(name: string, args: unknown): Promise<ToolResult> {
  return call('tools/call', { name, arguments: args });
}
