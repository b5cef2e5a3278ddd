export interface Toast {
  id: number;
  message: string;
  tone: 'plain' | 'bad';
}

const SHOWN_FOR_MS = 6_000;
const MOST_AT_ONCE = 4;

let nextId = 1;

class Toasts {
  items = $state.raw<Toast[]>([]);

  show(message: string, tone: Toast['tone'] = 'plain'): void {
    const toast = { id: nextId++, message, tone };
    this.items = [...this.items, toast].slice(-MOST_AT_ONCE);
    setTimeout(() => this.dismiss(toast.id), SHOWN_FOR_MS);
  }

  dismiss(id: number): void {
    this.items = this.items.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
