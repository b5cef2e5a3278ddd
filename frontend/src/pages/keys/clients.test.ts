import { expect, it } from 'vitest';
import { holds } from '../../api/scopes.ts';
import { CLIENTS, leastScopes, narrowed } from './clients.ts';

const recipes = CLIENTS.map((client) => ({ ...client.recipe('https://h.example/api', 'mpk_secret'), id: client.id }));

it('every client gets the address and the key', () => {
  expect(CLIENTS.map(({ name }) => name)).toEqual(['Claude Code', 'Claude Desktop', 'Cursor', 'VS Code', 'Codex', 'Gemini CLI', 'MCP Inspector', 'cardinal mcp stdio']);
  for (const { text, id } of recipes) {
    expect(text, id).toContain(id === 'stdio' ? 'https://h.example' : 'https://h.example/api');
    expect(text, id).toContain('mpk_secret');
  }
});

it('files are valid JSON, and links carry the same', () => {
  for (const { text } of recipes.filter(({ where }) => where !== 'shell')) expect(() => JSON.parse(text) as unknown).not.toThrow();
  const cursor = new URL(recipes.find(({ id }) => id === 'cursor')?.link ?? '');
  expect(JSON.parse(atob(cursor.searchParams.get('config') ?? ''))).toEqual({ url: 'https://h.example/api', headers: { Authorization: 'Bearer mpk_secret' } });
  const vscode = recipes.find(({ id }) => id === 'vscode')?.link ?? '';
  expect(JSON.parse(decodeURIComponent(vscode.replace('vscode:mcp/install?', '')))).toMatchObject({ name: 'cardinal', type: 'http' });
});

it('a narrowed endpoint reaches a client whole, through a shell as well', () => {
  const url = narrowed('https://h.example/api', ' cards_*, plugin_x_y ,ц&', true);
  expect(url).toBe('https://h.example/api?tools=cards_*,plugin_x_y,%D1%86%26&readonly=true');
  expect([narrowed('/api', ' ,', false), narrowed('/api', '', true)]).toEqual(['/api', '/api?readonly=true']);
  const text = (id: string) => CLIENTS.find((client) => client.id === id)?.recipe(url, 'mpk_secret').text ?? '';
  for (const id of ['claude-code', 'codex', 'gemini', 'inspector']) expect(text(id), id).toContain(`'${url}'`);
  const { cardinal } = (JSON.parse(text('stdio')) as { mcpServers: { cardinal: { args: string[]; env: unknown } } }).mcpServers;
  expect(cardinal.args).toEqual(['mcp', 'stdio', '--url', 'https://h.example', '--tools', 'cards_*,plugin_x_y,ц&', '--readonly']);
  expect(cardinal.env).toEqual({ CARDINAL_API_KEY: 'mpk_secret' });
});

it('a client that reads cannot change anything, and none approves', () => {
  expect(holds(leastScopes(false), 'cards:write')).toBe(false);
  expect(holds(leastScopes(true), 'cards:write')).toBe(true);
  for (const mayChange of [true, false]) {
    expect(holds(leastScopes(mayChange), 'mcp:unattended')).toBe(false);
    expect(holds(leastScopes(mayChange), 'keys:read')).toBe(false);
  }
});
