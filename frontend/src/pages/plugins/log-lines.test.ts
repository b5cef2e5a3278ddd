import { expect, it } from 'vitest';
import type { PluginLine } from '../../api/plugin-logs.ts';
import { appended, fieldsInWords, matching, MOST_LINES } from './log-lines.ts';

const line = (id: number, message = '', more: Partial<PluginLine> = {}): PluginLine => ({ id, at: '', level: 'info', source: 'plugin', message, fields: null, request_id: null, trace_id: null, ...more });

it('lines are kept once, in order, and not without end', () => {
  expect(appended([line(1), line(2)], [line(2), line(3)]).map(({ id }) => id)).toEqual([1, 2, 3]);
  const many = Array.from({ length: MOST_LINES }, (_, id) => line(id));
  expect(appended(many, [line(MOST_LINES)])).toHaveLength(MOST_LINES);
  expect(appended(many, [line(MOST_LINES)])[0]?.id).toBe(1);
});

it('a search looks at messages, requests and fields', () => {
  const lines = [line(1, 'Read a page', { request_id: 'r-9' }), line(2, 'other', { fields: { url: 'http://page/' } })];
  expect(matching(lines, 'PAGE').map(({ id }) => id)).toEqual([1, 2]);
  expect(matching(lines, 'page r-9').map(({ id }) => id)).toEqual([1]);
  expect(matching(lines, ' ')).toBe(lines);
  expect(fieldsInWords({ url: 'x', ms: 4, panic: true, thread: 'lane-1', backtrace: '0: a\n1: b' }), 'a backtrace stands apart').toBe('url=x ms=4');
});
