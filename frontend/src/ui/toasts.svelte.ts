import { asApiError, problemPage, reasonOf } from '../api/error.ts';
import { t } from '../i18n/common.ts';

export interface Toast {
  id: number;
  message: string;
  tone: 'plain' | 'bad';
  at: string;
  /** Takes back what the message says was done. */
  undo?: () => unknown;
  /** Where the thing is that it is about. */
  href?: string;
  /** The page that explains an error. */
  problem?: string;
}

type Extra = Pick<Toast, 'undo' | 'href' | 'problem'>;

const SHOWN_FOR_MS = 6_000;
const SHOWN_WITH_UNDO_MS = 10_000;
/** How much longer it stays while somebody points at it. */
const HELD_FOR_MS = 1_000;
const MOST_AT_ONCE = 4;
const MOST_NOTICES = 50;

let nextId = 1;

class Toasts {
  /** On the screen now. */
  items = $state.raw<Toast[]>([]);
  /** Everything that was said since the page was opened, the last first. */
  notices = $state.raw<Toast[]>([]);
  /** Errors in `notices` that nobody has looked at. */
  unseen = $state(0);

  /** Errors stay until they are dismissed. */
  show(message: string, tone: Toast['tone'] = 'plain', extra: Extra = {}): void {
    const toast: Toast = { id: nextId++, message, tone, at: new Date().toISOString(), ...extra };
    this.items = [...this.items, toast].slice(-MOST_AT_ONCE);
    this.notices = [toast, ...this.notices].slice(0, MOST_NOTICES);
    if (tone === 'bad') this.unseen += 1;
    else {
      // Not from under a pointer that is about to press its button.
      const end = () => (document.querySelector('.toasts:is(:hover, :focus-within)') ? setTimeout(end, HELD_FOR_MS) : this.dismiss(toast.id));
      setTimeout(end, extra.undo ? SHOWN_WITH_UNDO_MS : SHOWN_FOR_MS);
    }
  }

  /** Says why something was not done, with the page that explains it; `message` in the place of the server's words alone. */
  failed(thrown: unknown, message?: (reason: string) => string): void {
    const error = asApiError(thrown);
    const problem = problemPage(error);
    const reason = reasonOf(error);
    this.show(message?.(reason) ?? reason, 'bad', problem ? { problem } : {});
  }

  /** Says what was done, with a button that takes it back. */
  undoable(message: string, undo: () => Promise<unknown>, href?: string): void {
    this.show(message, 'plain', { undo, ...(href ? { href } : {}) });
  }

  async undo(toast: Toast): Promise<void> {
    this.dismiss(toast.id);
    this.notices = this.notices.map((notice) => (notice.id === toast.id ? { ...notice, undo: undefined } : notice) as Toast);
    try {
      await toast.undo?.();
    } catch (thrown) {
      this.failed(thrown, (reason) => t('notUndone', { reason }));
    }
  }

  dismiss(id: number): void {
    this.items = this.items.filter((toast) => toast.id !== id);
  }

  seen(): void {
    this.unseen = 0;
  }
}

export const toasts = new Toasts();
