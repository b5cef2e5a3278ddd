import type { Plugin } from 'vite';
import { BETWEEN_TEMPLATES } from '../src/ui/unpack.ts';

/** As the bundler names a template before it shortens names: no name of ours begins so. */
const TEMPLATE = /^var (root(?:_\d+)?(?:\$\d+)?) = \/\* @__PURE__ \*\/ (\w+)\(("(?:[^"\\]|\\.)*")\);\n/gm;
const NAME = /\broot(?:_\d+)?(?:\$\d+)?(?![\w$])/g;
const DELEGATED = /^delegate\(\[(.*?)\]\);\n/gm;

/**
 * Writes the templates of a file as one text: one of those that are alike, and those that begin alike beside one another,
 * for gzip. Listens once to the events of all its components.
 */
export function sharedTemplates(): Plugin {
  return {
    name: 'cardinal-shared-templates',
    apply: 'build',
    renderChunk(code) {
      const kept = new Map<string, string>();
      const renamed = new Map<string, string>();
      const events = new Set([...code.matchAll(DELEGATED)].flatMap(([, list = '']) => list.split(', ')));
      let isFirst = true;
      let fromPacked = '';
      const once = code
        .replace(TEMPLATE, (_, name: string, callee: string, template: string) => {
          fromPacked = callee;
          const first = kept.get(template);
          if (first === undefined) kept.set(template, name);
          else renamed.set(name, first);
          return '';
        })
        .replace(DELEGATED, () => {
          const call = isFirst ? `delegate([${[...events].join(', ')}]);\n` : '';
          isFirst = false;
          return call;
        });
      // Components draw when all of the file is there, so that templates may come last.
      const templates = [...kept].toSorted(([a], [b]) => (a < b ? -1 : 1));
      const names = templates.map(([, name]) => name).join(', ');
      const all = templates.map(([template]) => JSON.parse(template) as string).join(BETWEEN_TEMPLATES);
      const end = once.lastIndexOf('\nexport {') + 1 || once.length;
      const line = names && `var [${names}] = ${fromPacked}(${JSON.stringify(all)});\n`;
      const sorted = once.slice(0, end) + line + once.slice(end);
      return { code: sorted.replace(NAME, (name) => renamed.get(name) ?? name), map: null };
    },
  };
}
