import { expect, it } from 'vitest';
import { byImports, SharedNames } from '../build/shared-names.ts';

const files = [
  { fileName: 'assets/page.js', imports: ['assets/base.js', 'assets/other.js'], code: 'import { a as x, b } from "./base.js"; import { a as y } from "./other.js"; export { x as d };' },
  { fileName: 'assets/base.js', imports: [], code: 'const one = 1, two = 2, three = 3; export { one as a, two as b, three as c };' },
  { fileName: 'assets/other.js', imports: [], code: 'const four = 4; export { four as a };' },
];

it('files come behind those that they import from', () => {
  expect(byImports(files).map(({ fileName }) => fileName)).toEqual(['assets/base.js', 'assets/other.js', 'assets/page.js']);
});

it('what a file exports has one name in all files', () => {
  const shared = new SharedNames(files);
  const [page, base, other] = files as [(typeof files)[0], (typeof files)[0], (typeof files)[0]];
  const { names } = shared.before(base);
  expect(names, 'what only `import()` asks for keeps its name').toEqual({ one: 'et', two: 'tt' });
  expect(shared.after({ ...base, code: 'const et=1,tt=2,s=3;export{tt as b,et as a,s as c};' })).toBe('const et=1,tt=2,s=3;export{et,s as c,tt};');
  shared.before(other);
  const prepared = shared.before(page);
  expect(prepared.code).toBe('import { et as x, tt as b } from "./base.js"; import { et as y } from "./other.js"; export { x as d };');
  expect(prepared.names, 'a name that two files use is given once').toEqual({ x: 'et', b: 'tt', 'not tt': 'tt' });
  expect(shared.after({ ...page, code: 'import{tt as tt,et as et}from"./base.js";import{et as z}from"./other.js";export{et as d};' })).toContain('import{et as et,tt as tt}');
});

it('a name that the minifier did not keep is an error', () => {
  const shared = new SharedNames(files);
  const base = files[1] as (typeof files)[0];
  shared.before(base);
  expect(() => shared.after({ ...base, code: 'const q=1;export{q as a};' })).toThrow('others know it as et');
});
