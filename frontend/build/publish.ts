import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
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
/** What every page has around it. */
const SHELL = 'SignedIn.svelte';

type Bundle = Rolldown.OutputBundle;

/**
 * Writes `.br` and `.gz` beside every text file of the build, for the server to send as they are, says what each page
 * weighs, and fails the build when the UI or its sign-in has grown past its budget.
 */
export function publish(): Plugin {
  let outDir = 'dist';
  let bundle: Bundle = {};
  return {
    name: 'cardinal-publish',
    apply: 'build',
    configResolved: (config) => {
      outDir = join(config.root, config.build.outDir);
    },
    writeBundle: (_, written) => {
      bundle = written;
    },
    closeBundle: {
      sequential: true,
      handler() {
        const sizes = compress(outDir);
        const total = [...sizes].reduce((sum, [file, bytes]) => (LANGUAGE.test(file) ? sum : sum + bytes), 0);
        const pages = pagesOf(bundle, outDir, sizes);
        const over = [
          total > BUDGET_GZIP_BYTES && `the UI weighs ${kilobytes(total)} gzipped; the budget is ${kilobytes(BUDGET_GZIP_BYTES)}`,
          pages.signIn > SIGN_IN_GZIP_BYTES && `the sign-in weighs ${kilobytes(pages.signIn)} gzipped; the budget is ${kilobytes(SIGN_IN_GZIP_BYTES)}`,
        ].filter(Boolean);
        if (over.length) {
          rmSync(outDir, { recursive: true, force: true });
          this.error(over.join('; '));
        }
        this.info(`gzipped: sign-in ${kilobytes(pages.signIn)} (at most ${kilobytes(SIGN_IN_GZIP_BYTES)}), the frame of all pages ${kilobytes(pages.shell)} more`);
        for (const [page, bytes] of pages.others) this.info(`  ${page} ${kilobytes(bytes)} more`);
        for (const [file, bytes] of sizes) if (LANGUAGE.test(file)) this.info(`  ${file} ${kilobytes(bytes)}, when it is chosen; not in the sum`);
        this.info(`the whole UI weighs ${kilobytes(total)} gzipped (at most ${kilobytes(BUDGET_GZIP_BYTES)}), ${relative(process.cwd(), outDir)}`);
      },
    },
  };
}

/** Gzipped sizes of all text files, by their path in the build. */
function compress(outDir: string): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const file of filesBelow(outDir)) {
    if (!COMPRESSIBLE.test(file)) continue;
    const plain = readFileSync(file);
    const gzip = gzipSync(plain, { level: 9 });
    sizes.set(relative(outDir, file), gzip.byteLength);
    if (plain.byteLength < SMALLEST_WORTH_COMPRESSING) continue;
    writeFileSync(`${file}.gz`, gzip);
    writeFileSync(`${file}.br`, brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  }
  return sizes;
}

function pagesOf(bundle: Bundle, outDir: string, sizes: Map<string, number>) {
  const weigh = (files: Iterable<string>) => Array.from(files).reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0);
  const html = readFileSync(join(outDir, SIGN_IN), 'utf8');
  // All that the page names, its icon and the styles included.
  const signIn = new Set([SIGN_IN, ...Array.from(html.matchAll(/"\/admin\/(assets\/[^"]+)"/g), ([, file]) => file ?? '')]);
  const chunks = Object.values(bundle).filter((output) => output.type === 'chunk');
  const byModule = (name: string) => chunks.find(({ facadeModuleId }) => facadeModuleId && basename(facadeModuleId) === name);
  const shell = closure(byModule(SHELL), bundle);
  const known = new Set([...signIn, ...shell]);
  const pages = chunks.filter(({ facadeModuleId }) => facadeModuleId?.includes('/src/pages/'));
  const others = pages.map((chunk): [string, number] => [chunk.name, weigh([...closure(chunk, bundle)].filter((file) => !known.has(file)))]);
  return { signIn: weigh(signIn), shell: weigh([...shell].filter((file) => !signIn.has(file))), others: others.toSorted(([, a], [, b]) => b - a) };
}

/** A chunk's files: what it imports before it runs, and their styles. */
function closure(chunk: Rolldown.OutputChunk | undefined, bundle: Bundle, files = new Set<string>()): Set<string> {
  if (!chunk || files.has(chunk.fileName)) return files;
  files.add(chunk.fileName);
  for (const css of chunk.viteMetadata?.importedCss ?? []) files.add(css);
  for (const name of chunk.imports) {
    const imported = bundle[name];
    if (imported?.type === 'chunk') closure(imported, bundle, files);
  }
  return files;
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KB`;
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
