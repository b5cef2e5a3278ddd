/** A question about a loss, which `Ask.svelte` shows. */
interface Question {
  text: string;
  /** What the button says that agrees. */
  yes: string | undefined;
  answer: (yes: boolean) => void;
}

class Asking {
  question = $state.raw<Question | null>(null);

  answer(yes: boolean): void {
    this.question?.answer(yes);
    this.question = null;
  }
}

export const asking = new Asking();

/** Asks before something is lost; a question that is open already counts as refused. */
export function ask(text: string, yes?: string): Promise<boolean> {
  asking.answer(false);
  return new Promise((answer) => (asking.question = { text, yes, answer }));
}
