import { grantable } from '../../api/scopes.ts';
import { shellQuote } from '../../ui/api-call.ts';

/** What one puts into an MCP client so that it reaches this host. */
export interface Recipe {
  /** `shell`: lines to run; else the file that the text goes into. */
  where: 'shell' | { file: string };
  text: string;
  /** Lines for a shell that come first: they put the key into its file. */
  prepare?: string;
  /** Opens the client with everything filled in. */
  link?: string;
}

export interface Client {
  id: string;
  name: string;
  /** Reads the key from a file, whose path goes into the recipe. */
  hasKeyFile?: true;
  recipe: (url: string, key: string, keyFile: string) => Recipe;
}

const NAME = 'cardinal';
const json = (value: unknown) => JSON.stringify(value, null, 2);
/** An address that was narrowed has marks that a shell reads. */
const word = (url: string) => (/^[\w:/.-]+$/.test(url) ? url : shellQuote(url));
const headers = (key: string) => ({ Authorization: `Bearer ${key}` });

/** A client that starts `cardinal mcp stdio`, which reads the key from a file: configurations get copied about. */
function bridge(file: string, url: string, key: string, keyFile: string): Recipe {
  const { origin, searchParams } = new URL(url);
  const tools = searchParams.get('tools');
  const args = ['mcp', 'stdio', '--url', origin, '--key-file', keyFile, ...(tools ? ['--tools', tools] : []), ...(searchParams.has('readonly') ? ['--readonly'] : [])];
  return { where: { file }, prepare: `(umask 077; echo ${key} > ${word(keyFile)})`, text: json({ mcpServers: { [NAME]: { command: 'cardinal', args } } }) };
}

/** In the spelling that each client's own documentation has. */
export const CLIENTS: readonly Client[] = [
  {
    id: 'claude-code',
    name: 'Claude Code',
    recipe: (url, key) => ({ where: 'shell', text: `claude mcp add --transport http ${NAME} ${word(url)} --header ${shellQuote(`Authorization: Bearer ${key}`)}` }),
  },
  {
    id: 'claude-desktop',
    name: 'Claude Desktop',
    // It starts programs and sends no headers of one's own.
    hasKeyFile: true,
    recipe: (url, key, keyFile) => bridge('claude_desktop_config.json', url, key, keyFile),
  },
  {
    id: 'cursor',
    name: 'Cursor',
    recipe: (url, key) => ({
      where: { file: '~/.cursor/mcp.json' },
      text: json({ mcpServers: { [NAME]: { url, headers: headers(key) } } }),
      link: `cursor://anysphere.cursor-deeplink/mcp/install?name=${NAME}&config=${encodeURIComponent(btoa(JSON.stringify({ url, headers: headers(key) })))}`,
    }),
  },
  {
    id: 'vscode',
    name: 'VS Code',
    recipe: (url, key) => ({
      where: { file: '.vscode/mcp.json' },
      text: json({ servers: { [NAME]: { type: 'http', url, headers: headers(key) } } }),
      link: `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name: NAME, type: 'http', url, headers: headers(key) }))}`,
    }),
  },
  {
    id: 'codex',
    name: 'Codex',
    // Its configuration takes the name of a variable, never the key itself.
    recipe: (url, key) => ({ where: 'shell', text: `export CARDINAL_API_KEY=${key}\ncodex mcp add ${NAME} --url ${word(url)} --bearer-token-env-var CARDINAL_API_KEY` }),
  },
  {
    id: 'gemini',
    name: 'Gemini CLI',
    recipe: (url, key) => ({ where: 'shell', text: `gemini mcp add --scope user --transport http ${NAME} ${word(url)} --header ${shellQuote(`Authorization: Bearer ${key}`)}` }),
  },
  {
    id: 'inspector',
    name: 'MCP Inspector',
    recipe: (url, key) => ({ where: 'shell', text: `npx @modelcontextprotocol/inspector --cli ${word(url)} --transport http --header ${shellQuote(`Authorization: Bearer ${key}`)} --method tools/list` }),
  },
  {
    id: 'stdio',
    name: 'cardinal mcp stdio',
    // For clients that start a program and know no headers.
    hasKeyFile: true,
    recipe: (url, key, keyFile) => bridge('mcp.json', url, key, keyFile),
  },
];

/** The endpoint with fewer tools: of these names alone, or those alone that read. */
export function narrowed(url: string, tools: string, readonly: boolean): string {
  const names = tools.split(/[\s,]+/).filter(Boolean).map(encodeURIComponent).join();
  const query = [names && `tools=${names}`, readonly && 'readonly=true'].filter(Boolean).join('&');
  return query ? `${url}?${query}` : url;
}

/** Bulk changes are jobs. Whoever may start none still connects a client that changes card by card. */
const IF_HELD = ['jobs:read', 'jobs:write'];

/** The least that a client needs: to read, or to change things as well, as far as one who holds `own` may pass it on. */
export function leastScopes(mayChange: boolean, own: readonly string[]): string[] {
  if (!mayChange) return ['mcp:use', 'cards:read', 'plugin:*:read'];
  return ['mcp:use', 'cards:write', 'plugin:*:write', ...IF_HELD.filter((scope) => grantable(own, scope))];
}
