import { expect, it } from 'vitest';
import { filledPath, pathParameters, sampleOf } from './try.ts';

it('a route’s path is filled in without leaving its place', () => {
  expect(pathParameters('/enrich/{card_id}/{*rest}')).toEqual(['card_id', 'rest']);
  expect(filledPath('/enrich/{card_id}', { card_id: 'a/b ?c' }, '')).toBe('/enrich/a%2Fb%20%3Fc');
  expect(filledPath('/x/{*rest}', { rest: 'a/b c' }, '?q=1&url=http://x/')).toBe('/x/a/b%20c?q=1&url=http%3A%2F%2Fx%2F');
});

it('a tool’s arguments begin with what it requires', () => {
  const schema = { required: ['url', 'limit'], properties: { url: { type: 'string' }, limit: { type: 'integer', default: 5 }, more: { type: 'string' } } };
  expect(sampleOf(schema)).toEqual({ url: '', limit: 5 });
  expect(sampleOf(undefined)).toEqual({});
});
