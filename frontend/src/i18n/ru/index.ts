import type { Texts } from '../catalogue.svelte.ts';

/** Every area's Russian texts: the file `x.ts` beside this one holds the area `x` as its default export. */
const files = import.meta.glob<Texts>(['./*.ts', '!./index.ts'], { eager: true, import: 'default' });

export default Object.fromEntries(Object.entries(files).map(([path, texts]) => [path.slice(2, -3), texts]));
