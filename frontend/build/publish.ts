import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import zopfli from '@gfx/zopfli';
import type { Plugin, Rolldown } from 'vite';

/** What the whole UI may weigh, every page of it, as gzip sends it. Not in it: a language that is fetched only by whoever chose it. */
const BUDGET_GZIP_BYTES = 150 * 1024;
/** What somebody fetches who is asked for a password. */
const SIGN_IN_GZIP_BYTES = 40 * 1024;
const COMPRESSIBLE = /\.(html|js|css|svg|json)$/;
/** Below this the headers of an encoded answer cost more than the encoding saves. */
const SMALLEST_WORTH_COMPRESSING = 512;
/** The chunk of a language. */
const LANGUAGE = /^assets\/ru-[\w-]+\.js$/;
const SIGN_IN = 'index.html';
const SIGNED_IN = /\/src\/SignedIn\.svelte$/;
/** The module of a page. */
const PAGE = /^.*\/src\/pages\/(.*)\.svelte$/;

/**
 * Writes `.br` and `.gz` beside every text file of the build, for the server to send as they are, says what each file
 * and each page weighs, and fails the build when the UI or its sign-in has grown past its budget.
 */
export function publish(): Plugin {
  let outDir = 'dist';
  let pages = new Map<string, Set<string>>();
  return {
    name: 'cardinal-publish',
    apply: 'build',
    configResolved: (config) => {
      outDir = resolve(config.root, config.build.outDir);
    },
    generateBundle(_, bundle) {
      pages = filesOfPages(bundle, (id) => (this.getModuleInfo(id)?.dynamicImporters.length ?? 0) > 0);
    },
    closeBundle: {
      sequential: true,
      async handler() {
        const sizes = await compress(outDir);
        const total = [...sizes].reduce((sum, [file, bytes]) => (LANGUAGE.test(file) ? sum : sum + bytes), 0);
        const signIn = signInOf(outDir);
        const signInBytes = signIn.reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0);
        const over = [
          total > BUDGET_GZIP_BYTES && `the UI weighs ${kilobytes(total)} gzipped; the budget is ${kilobytes(BUDGET_GZIP_BYTES)}`,
          signInBytes > SIGN_IN_GZIP_BYTES && `the sign-in weighs ${kilobytes(signInBytes)} gzipped; the budget is ${kilobytes(SIGN_IN_GZIP_BYTES)}`,
        ].filter(Boolean);
        if (over.length) {
          rmSync(outDir, { recursive: true, force: true });
          this.error(over.join('; '));
        }
        for (const [file, bytes] of [...sizes].toSorted(([, a], [, b]) => b - a)) {
          this.info(`  ${kilobytes(bytes).padStart(8)} ${file}${LANGUAGE.test(file) ? ', when it is chosen; not in the sum' : signIn.includes(file) ? ', for the sign-in' : ''}`);
        }
        for (const [page, files] of pages) {
          const bytes = [...new Set([...signIn, ...files])].reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0);
          this.info(`  ${kilobytes(bytes).padStart(8)} the page ${page}, opened first: its files and all that come before them`);
        }
        this.info(`the sign-in weighs ${kilobytes(signInBytes)} gzipped (at most ${kilobytes(SIGN_IN_GZIP_BYTES)})`);
        this.info(`the whole UI weighs ${kilobytes(total)} gzipped (at most ${kilobytes(BUDGET_GZIP_BYTES)}), ${relative(process.cwd(), outDir)}`);
      },
    },
  };
}

/** What each page needs once somebody has signed in, by the page's module below `src/pages`. */
function filesOfPages(bundle: Rolldown.OutputBundle, isFetched: (id: string) => boolean): Map<string, Set<string>> {
  const chunks = Object.values(bundle).filter((file) => file.type === 'chunk');
  const needed = (name: RegExp) => chunks.flatMap((chunk) => chunk.moduleIds.filter((id) => name.test(id) && isFetched(id)).map((id) => [id, chunk] as const));
  const shell = needed(SIGNED_IN).map(([, chunk]) => chunk);
  const pages = needed(PAGE).map(([id, chunk]) => [id.replace(PAGE, '$1'), closure([...shell, chunk], bundle)] as const);
  return new Map(pages.toSorted(([a], [b]) => a.localeCompare(b)));
}

/** Files that are fetched with `chunks`, styles too. */
function closure(chunks: readonly Rolldown.OutputChunk[], bundle: Rolldown.OutputBundle): Set<string> {
  const files = new Set(chunks.map(({ fileName }) => fileName));
  // Grows while it is read.
  for (const name of files) {
    const file = bundle[name];
    if (file?.type !== 'chunk') continue;
    for (const other of [...file.imports, ...(file.viteMetadata?.importedCss ?? [])]) files.add(other);
  }
  return files;
}

/** Gzipped sizes of all text files, by their path in the build: as the best packer of that format packs them, once for all who fetch them. */
async function compress(outDir: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (const file of filesBelow(outDir)) {
    if (!COMPRESSIBLE.test(file)) continue;
    const plain = readFileSync(file);
    const gzip = await zopfli.gzipAsync(plain, { numiterations: 60 });
    sizes.set(relative(outDir, file), gzip.byteLength);
    if (plain.byteLength < SMALLEST_WORTH_COMPRESSING) continue;
    writeFileSync(`${file}.gz`, gzip);
    writeFileSync(`${file}.br`, brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  }
  return sizes;
}

/** All that the sign-in's page names, its icon and the styles included. */
function signInOf(outDir: string): string[] {
  const html = readFileSync(join(outDir, SIGN_IN), 'utf8');
  return [SIGN_IN, ...new Set(Array.from(html.matchAll(/"\/admin\/(assets\/[^"]+)"/g), ([, file]) => file ?? ''))];
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KB`;
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
