import { expect, it } from 'vitest';
import { refusedRows } from './refused-rows.ts';

const rows = async (text: string, format: 'csv' | 'ndjson', ...lines: number[]) => (await refusedRows(new Blob([text]), format, new Set(lines))).text();

it('refused rows come back as they stand in the file, below its header', async () => {
  const csv = 'title,sku\r\nA,1\r\n\r\n"B, ""two""\r\nlines",2\r\nC "x",3\r\nD,4';
  expect(await rows(csv, 'csv', 2)).toBe('title,sku\nA,1\n');
  expect(await rows(csv, 'csv', 4), 'a row with a line break').toBe('title,sku\n"B, ""two""\r\nlines",2\n');
  expect(await rows(csv, 'csv', 6, 7), 'lines within a row count').toBe('title,sku\nC "x",3\nD,4\n');
  expect(await rows(csv, 'csv', 5), 'no row begins there').toBe('title,sku\n');
});

it('the mark that the header has separates fields', async () => {
  const csv = 'title;sku\n"a;\nb";1\nx,"y;2\n"z";3\n';
  expect(await rows(csv, 'csv', 4, 5)).toBe('title;sku\nx,"y;2\n"z";3\n');
  expect(await rows('title\tsku\n\n"a\n";\tb\nc\td\n', 'csv', 5)).toBe('title\tsku\nc\td\n');
});

it('of lines of JSON nothing is a header', async () => {
  expect(await rows('{"a":1}\n\n{"b":"\\n"}\n{"c":3}', 'ndjson', 3, 4)).toBe('{"b":"\\n"}\n{"c":3}\n');
});
