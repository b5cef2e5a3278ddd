import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

/** What the whole UI may weigh, every page of it, as gzip sends it. */
const BUDGET_GZIP_BYTES = 240 * 1024;
const COMPRESSIBLE = /\.(html|js|css|svg|json)$/;
/** Below this the headers of an encoded answer cost more than the encoding saves. */
const SMALLEST_WORTH_COMPRESSING = 512;

/**
 * Writes `.br` and `.gz` beside every text file of the build, for the server to send as they are,
 * and fails the build when the UI has grown past its budget.
 */
export function publish(): Plugin {
  let outDir = 'dist';
  return {
    name: 'cardinal-publish',
    apply: 'build',
    configResolved: (config) => {
      outDir = join(config.root, config.build.outDir);
    },
    closeBundle: {
      sequential: true,
      handler() {
        let total = 0;
        for (const file of filesBelow(outDir)) {
          if (!COMPRESSIBLE.test(file)) continue;
          const plain = readFileSync(file);
          const gzip = gzipSync(plain, { level: 9 });
          total += gzip.byteLength;
          if (plain.byteLength < SMALLEST_WORTH_COMPRESSING) continue;
          writeFileSync(`${file}.gz`, gzip);
          writeFileSync(`${file}.br`, brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
        }
        const kilobytes = (total / 1024).toFixed(1);
        if (total > BUDGET_GZIP_BYTES) {
          rmSync(outDir, { recursive: true, force: true });
          this.error(`the UI weighs ${kilobytes} KB gzipped; the budget is ${BUDGET_GZIP_BYTES / 1024} KB`);
        }
        this.info(`the whole UI weighs ${kilobytes} KB gzipped (budget ${BUDGET_GZIP_BYTES / 1024} KB), ${relative(process.cwd(), outDir)}`);
      },
    },
  };
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
