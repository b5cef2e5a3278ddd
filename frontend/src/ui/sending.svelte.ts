/** A request that somebody waits for: whether it is under way, and why the last one failed. */
export class Sending {
  busy = $state(false);
  error = $state.raw<unknown>(null);

  /** Does the work, unless some is under way; what it throws is the error. */
  async run(work: () => unknown): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.error = null;
    try {
      await work();
    } catch (thrown) {
      this.error = thrown;
    } finally {
      this.busy = false;
    }
  }

  /** What a form does when it is sent. */
  form(work: () => unknown): (event: SubmitEvent) => void {
    return (event) => {
      event.preventDefault();
      void this.run(work);
    };
  }
}
