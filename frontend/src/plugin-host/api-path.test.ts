import { describe, expect, it } from 'vitest';
import { resolveApiPath } from './api-path.ts';

const ORIGIN = 'https://cardinal.example';
const resolve = (path: unknown) => resolveApiPath(path, ORIGIN);

describe('a path that a plugin may ask for', () => {
  it.each([
    ['/master-cards', '/master-cards'],
    ['/', '/'],
    ['/plugins/supplier/preview?url=https%3A%2F%2Fx.test%2F..%2F', '/plugins/supplier/preview?url=https%3A%2F%2Fx.test%2F..%2F'],
    ['/plugins/a/../b/items', '/plugins/b/items'],
    ['/plugins/a/%2e%2e/b', '/plugins/b'],
    ['/master-cards/x/sources/supplier%3Ashop.example', '/master-cards/x/sources/supplier%3Ashop.example'],
    ['/items/100%25', '/items/100%25'],
    ['/items#part', '/items'],
    ['//plugins/x', '//plugins/x'],
  ])('%s is asked as %s', (path, asked) => expect(resolve(path)).toBe(asked));
});

describe('a path that is refused before a byte is sent', () => {
  it.each([
    'master-cards', '', 'https://evil.test/v1/admin/', './x', '../x', ' /x', undefined, null, 42, {},
    '/../x', '/../../etc', '/..', '/%2e%2e/x', '/.%2E/x', '/%2e%2e%2fx', '/..%2fx', '/a/..%2f..%2f..%2fx',
    '/..\\x', '/..%5cx', '/%5c..%5c..%5cx', '/%252e%252e/x', '/a/%252e%252e%252f%252e%252e%252f..', '/.\t./x', '/.\n./x',
    '/../admin2/x', '/../../v1/adminx', '/%', '/%zz', '/%ff',
  ])('%j', (path) => {
    const refused = { status: 0, code: 'invalid-path', request_id: null, detail: expect.stringContaining('apiRequest') as string };
    expect(() => resolve(path)).toThrow(expect.objectContaining(refused) as Error);
  });
});
