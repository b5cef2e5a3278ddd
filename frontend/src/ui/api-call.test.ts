import { expect, it } from 'vitest';
import { curlOf } from './api-call.ts';

it('a call can be repeated in a shell, whatever its body says', () => {
  expect(curlOf({ method: 'GET', path: '/v1/admin/users' }, 'http://h')).toBe(`curl -H "Authorization: Bearer $CARDINAL_API_KEY" \\\n  'http://h/v1/admin/users'`);
  const call = curlOf({ method: 'PUT', path: '/v1/admin/x', body: { a: "it's" }, headers: { 'If-Match': '"3"' } }, 'http://h');
  expect(call).toContain(`-d '{"a":"it'\\''s"}'`);
  expect(curlOf({ method: 'POST', path: '/x', file: { name: 'a b.csv', type: 'text/csv' } }, 'http://h')).toContain(`-H 'Content-Type: text/csv' \\\n  --data-binary '@a b.csv'`);
  expect(call).toContain(`-H 'If-Match: "3"'`);
});
