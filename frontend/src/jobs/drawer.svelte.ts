/** Whether the drawer of jobs is open, and which job it was opened for. */
class JobsDrawer {
  isOpen = $state(false);
  job = $state('');

  open(job = ''): void {
    this.job = job;
    this.isOpen = true;
  }

  close(): void {
    this.isOpen = false;
  }
}

export const jobsDrawer = new JobsDrawer();
