import { expect, it } from 'vitest';
import { readHead, renamed, unknownColumns } from './columns.ts';

const head = (text: string) => readHead(new Blob([text]));
const refused = (...names: string[]) => names.map((name) => ({ pointer: `/${name}`, detail: 'Unknown column.' }));

it('names of columns are read as the server reads them', async () => {
  expect(await head('title,sku\nA,1\n')).toEqual({ names: ['title', 'sku'], separator: ',', length: 9 });
  expect((await head('title; "a;b" ;"c""d"\r\n')).names).toEqual(['title', '"a', 'b"', 'c"d']);
  expect((await head('title;"a;b";"c""d"')).names).toEqual(['title', 'a;b', 'c"d']);
  expect((await head('title\tsku\t\n')).names).toEqual(['title', 'sku', '']);
  expect((await head('title,sku,,\n')).names).toEqual(['title', 'sku', '', '']);
  expect((await head('\ufefftitle\n')).names).toEqual(['title']);
});

it('of a refused column it is known what it may become', async () => {
  const { names, ...rest } = await head('Name,sku,colour,attributes.sources,,status\n');
  expect(unknownColumns({ names, ...rest }, [...refused('Name', 'colour', 'attributes.sources'), { pointer: '/', detail: 'Column 5 has no name.' }, { pointer: '/status', detail: 'Another column sets this, too.' }])).toEqual([
    { at: 0, name: 'Name', uses: ['title', 'attribute', 'ignored'] },
    { at: 2, name: 'colour', uses: ['attribute', 'ignored', 'title'] },
    { at: 3, name: 'attributes.sources', uses: ['ignored', 'title'] },
    { at: 4, name: '', uses: ['ignored', 'title'] },
  ]);
  expect(unknownColumns(await head('a/b,sku\n'), refused('a~1b')).map(({ name }) => name)).toEqual(['a/b']);
});

it('a file is sent again with other names, and nothing else is another', async () => {
  const file = new File(['Name;colour;x;\r\n"A;\n";red;1;2'], 'a.csv', { type: 'text/csv' });
  const sent = renamed(file, await readHead(file), new Map([[0, 'title'], [1, 'attribute'], [3, 'ignored']]));
  expect([sent.name, await sent.text()]).toEqual(['a.csv', '"title";"attributes.colour";"x";"ignored.4"\r\n"A;\n";red;1;2']);
});
