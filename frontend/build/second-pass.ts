import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { minify } from 'terser';
import type { Plugin } from 'vite';
import { orderFunctions, smallestOf } from './function-order.ts';
import { byImports, SharedNames } from './shared-names.ts';

/** Another minifier over what the bundler's own has left: it drops arguments that nothing reads, and folds what became constant. */
export function secondPass(root: string): Plugin {
  const madeBy = digestOf([join(root, 'package-lock.json'), join(root, 'vite.config.ts'), ...readdirSync(join(root, 'build')).toSorted().map((file) => join(root, 'build', file))]);
  return {
    name: 'cardinal-second-pass',
    apply: 'build',
    augmentChunkHash: () => madeBy,
    async generateBundle(_, bundle) {
      const chunks = byImports(Object.values(bundle).filter((file) => file.type === 'chunk'));
      const shared = new SharedNames(chunks);
      for (const chunk of chunks) {
        const { code, names } = shared.before(chunk);
        const props = Object.fromEntries(Object.entries(names).map(([name, short]) => [`$${name}`, short]));
        // Reading a property may be a call: Svelte's state is read by getters, sometimes for that alone. Declared functions
        // come first, one after the other, so that gzip finds what they have in common: 2 KB of all pages.
        const minified = async (reduce_funcs: boolean) => {
          const compress = { passes: 3, ecma: 2020, keep_fargs: false, hoist_props: false, pure_getters: false, hoist_funs: true, reduce_funcs } as const;
          return (await minify(code, { module: true, ecma: 2020, compress, format: { quote_style: 2 }, nameCache: { vars: { props: { ...props } } } })).code ?? code;
        };
        // A function that is called once may stand where it is called, or beside others like it.
        const best = smallestOf([await minified(true), await minified(false)]);
        chunk.code = shared.after({ fileName: chunk.fileName, code: orderFunctions(best) });
      }
    },
  };
}

/** What becomes of the same sources depends on how they are built, and a file's name must say so: browsers keep it for a year. */
function digestOf(files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(file));
  return hash.digest('hex');
}
