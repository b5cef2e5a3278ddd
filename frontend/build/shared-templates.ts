import type { Plugin } from 'vite';

/** As the bundler names a template before it shortens names: no name of ours begins so. */
const TEMPLATE = /^var (root(?:_\d+)?(?:\$\d+)?) = (\/\* @__PURE__ \*\/ \w+\("(?:[^"\\]|\\.)*"(?:, \d+)?\));\n/gm;
const NAME = /\broot(?:_\d+)?(?:\$\d+)?(?![\w$])/g;
const DELEGATED = /^delegate\(\[(.*?)\]\);\n/gm;

/**
 * Keeps one of the templates that are alike in a file and puts those that begin alike beside one another, for gzip; listens
 * once to the events of all its components. 1 KB of all pages.
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
      const once = code
        .replace(TEMPLATE, (_, name: string, template: string) => {
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
      const templates = [...kept].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([template, name]) => `var ${name} = ${template};\n`);
      const end = once.lastIndexOf('\nexport {') + 1 || once.length;
      const sorted = once.slice(0, end) + templates.join('') + once.slice(end);
      return { code: sorted.replace(NAME, (name) => renamed.get(name) ?? name), map: null };
    },
  };
}
