import { minify } from 'terser';
import type { Plugin } from 'vite';
import { orderFunctions } from './function-order.ts';
import { fetchedNames, missingNames, sharedNames, withSharedLists } from './shared-names.ts';

/** So terser keeps names for later. */
const KEPT = '$';
const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Another minifier over what the bundler's own has left: it drops arguments that nothing reads, folds what became constant,
 * and gives what files have of one another one name.
 */
export function secondPass(): Plugin {
  return {
    name: 'cardinal-second-pass',
    apply: 'build',
    // Addresses are made before: files of the same sources that were named in another way must not meet in a browser's cache.
    augmentChunkHash: () => String(sharedNames),
    async generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((file) => file.type === 'chunk');
      const shared = sharedNames(chunks);
      const fetched = fetchedNames(chunks);
      for (const chunk of chunks) {
        const names = shared.get(chunk.fileName) ?? NONE;
        const nameCache = { vars: { props: Object.fromEntries([...names].map(([name, short]) => [KEPT + name, short])) } };
        // Reading a property may be a call: Svelte's state is read by getters, sometimes for that alone. Declared functions
        // come first, one after the other, so that gzip finds what they have in common: 2 KB of all pages.
        const { code } = await minify(chunk.code, { nameCache, module: true, ecma: 2020, compress: { passes: 3, ecma: 2020, keep_fargs: false, hoist_props: false, pure_getters: false, hoist_funs: true }, format: { quote_style: 2 } });
        if (code) chunk.code = orderFunctions(withSharedLists({ fileName: chunk.fileName, code }, names, fetched));
      }
      const missing = missingNames(chunks);
      if (missing.length) this.error(`no file of the build gives ${missing.join(', ')}`);
    },
  };
}
