import { expect, it } from 'vitest';
import { nested } from '../build/nest-styles.ts';

it('writes the class of a component once around its rules', () => {
  expect(nested('h2.s2q{color:red}.a.s2q>b:where(.s2q),i.s2q:hover{gap:0}td.s3{gap:1px}')).toBe('.s2q{h2&{color:red}.a&>b:where(&),i&:hover{gap:0}}.s3{td&{gap:1px}}');
  expect(nested('@media (width<=30rem){h2.s2q{gap:0}}')).toBe('.s2q{@media (width<=30rem){h2&{gap:0}}}');
});

it('leaves what is not of one component alone as it is', () => {
  for (const rule of ['.page{gap:0}', '.page,h2.s2q{gap:0}', 'h2.s2q .x.s3{gap:0}', '@media print{.page{gap:0}h2.s2q{gap:0}}', '@keyframes s3-slide{0%{translate:2rem}}', '.s2q-more{gap:0}']) expect(nested(rule)).toBe(rule);
  expect(nested('h2.s2q{gap:0}.page{gap:0}b.s2q{gap:0}'), 'the order of rules stays').toBe('.s2q{h2&{gap:0}}.page{gap:0}.s2q{b&{gap:0}}');
});
