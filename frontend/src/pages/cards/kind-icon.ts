import type { IconName } from '../../ui/icons.ts';

/** A sign for a kind of data, by what its name begins with. */
const SIGNS: [RegExp, IconName][] = [
  [/^suppl/i, 'truck'],
  [/^(gallery|image|photo|picture)/i, 'image'],
  [/^(dimension|measure|size)/i, 'ruler'],
  [/^(rating|review)/i, 'star'],
  [/^(price|pricing|cost)/i, 'money'],
  [/^(text|description|translation|copy)/i, 'text'],
];

export function kindIcon(kind: string): IconName {
  return SIGNS.find(([pattern]) => pattern.test(kind))?.[1] ?? 'tag';
}
