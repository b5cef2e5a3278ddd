import { asApiError } from '../api/error.ts';
import { jobErrors } from '../api/jobs.ts';
import { download } from '../ui/download.ts';
import { toasts } from '../ui/toasts.svelte.ts';

/** Every error of a job, as a file. */
export async function saveErrors(job: string, file: string): Promise<void> {
  try {
    download(await jobErrors(job, new AbortController().signal), file);
  } catch (thrown) {
    toasts.show(asApiError(thrown).detail, 'bad');
  }
}
