import { expect, it } from 'vitest';
import { ApiError } from '../../api/error.ts';
import { changeCount, draftOf, emptyRoute, routeError } from './proxy.ts';

const route = (prefix: string, more = {}) => ({ prefix, upstream: 'http://up', read_only: false, shadowed: false, ...more });

it('what stands in PROXY_ROUTES is not edited', () => {
  expect(draftOf([route('/fixed', { read_only: true }), route('/a')]).map(({ prefix }) => prefix)).toEqual(['/a']);
});

it('changes are counted by row', () => {
  const before = [route('/fixed', { read_only: true }), route('/a'), route('/b')];
  const draft = draftOf(before);
  expect(changeCount(before, draft)).toBe(0);
  expect(changeCount(before, [...draft, emptyRoute()])).toBe(1);
  expect(changeCount(before, draft.slice(1))).toBe(1);
  expect(changeCount(before, draft.map((one) => ({ ...one, upstream: 'http://new' })))).toBe(2);
});

it('an error stands at the row and the member that it is about', () => {
  const error = new ApiError(422, 'validation-failed', 'No.', { errors: [{ pointer: '/items/1/prefix', detail: 'Taken.' }] });
  expect(routeError(error, 1, 'prefix')).toBe('Taken.');
  expect(routeError(error, 10, 'prefix')).toBeUndefined();
  expect(routeError(error, 1, 'upstream')).toBeUndefined();
});
