import { expect, it } from 'vitest';
import { holds } from '../../api/scopes.ts';
import { CLIENTS, leastScopes, narrowed } from './clients.ts';

const recipes = CLIENTS.map((client) => ({ ...client.recipe('https://h.example/api', 'mpk_secret', '/home/me/it\'s.key'), id: client.id }));

it('every client gets the address and the key', () => {
  expect(CLIENTS.map(({ name }) => name)).toEqual(['Claude Code', 'Claude Desktop', 'Cursor', 'VS Code', 'Codex', 'Gemini CLI', 'MCP Inspector', 'cardinal mcp stdio']);
  for (const { text, id, prepare } of recipes) {
    expect(text, id).toContain(prepare ? 'https://h.example' : 'https://h.example/api');
    expect((prepare ?? text).includes('mpk_secret'), id).toBe(true);
  }
});

it('a client that starts a program has the key from a file, not in its configuration', () => {
  for (const id of ['stdio', 'claude-desktop']) {
    const { text = '', prepare } = recipes.find((recipe) => recipe.id === id) ?? {};
    expect(prepare).toBe(`(umask 077; echo mpk_secret > '/home/me/it'\\''s.key')`);
    expect(text).not.toContain('mpk_secret');
    expect(JSON.parse(text)).toEqual({ mcpServers: { cardinal: { command: 'cardinal', args: ['mcp', 'stdio', '--url', 'https://h.example', '--key-file', "/home/me/it's.key"] } } });
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
  const text = (id: string) => CLIENTS.find((client) => client.id === id)?.recipe(url, 'mpk_secret', '/k').text ?? '';
  for (const id of ['claude-code', 'codex', 'gemini', 'inspector']) expect(text(id), id).toContain(`'${url}'`);
  const { cardinal } = (JSON.parse(text('stdio')) as { mcpServers: { cardinal: { args: string[] } } }).mcpServers;
  expect(cardinal.args).toEqual(['mcp', 'stdio', '--url', 'https://h.example', '--key-file', '/k', '--tools', 'cards_*,plugin_x_y,ц&', '--readonly']);
});

it('a client that reads cannot change anything, and none approves', () => {
  expect(holds(leastScopes(false, ['*']), 'cards:write')).toBe(false);
  expect(holds(leastScopes(true, ['*']), 'cards:write')).toBe(true);
  for (const mayChange of [true, false]) {
    expect(holds(leastScopes(mayChange, ['*']), 'mcp:unattended')).toBe(false);
    expect(holds(leastScopes(mayChange, ['*']), 'keys:read')).toBe(false);
  }
});

it('jobs come along for whoever may start them, and keep nobody else from connecting', () => {
  expect(leastScopes(true, ['*'])).toEqual(['mcp:use', 'cards:write', 'plugin:*:write', 'jobs:read', 'jobs:write']);
  expect(leastScopes(true, ['cards:*', 'jobs:read'])).toEqual(['mcp:use', 'cards:write', 'plugin:*:write', 'jobs:read']);
  expect(leastScopes(false, ['*'])).not.toContain('jobs:read');
});
