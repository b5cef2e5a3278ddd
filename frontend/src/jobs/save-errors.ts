import { jobErrors } from '../api/jobs.ts';
import { download } from '../ui/download.ts';
import { toasts } from '../ui/toasts.svelte.ts';

/** Every error of a job, as a file: what is wrong, a line of JSON each. */
export async function saveErrors(job: string, file: string): Promise<void> {
  try {
    download(await jobErrors(job, new AbortController().signal), file);
  } catch (thrown) {
    toasts.failed(thrown);
  }
}
