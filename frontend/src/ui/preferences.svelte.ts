/** How one person likes the UI to look, kept by this browser. */

export const THEMES = ['system', 'light', 'dark'] as const;
export const DENSITIES = ['comfortable', 'compact'] as const;
export const LANGUAGES = ['en', 'ru'] as const;
export type Theme = (typeof THEMES)[number];
export type Density = (typeof DENSITIES)[number];
export type Language = (typeof LANGUAGES)[number];

const PREFIX = 'cardinal.';
const systemDark = typeof matchMedia === 'function' ? matchMedia('(prefers-color-scheme: dark)') : null;

class Preferences {
  #theme = $state<Theme>(read('theme', THEMES, 'system'));
  #density = $state<Density>(read('density', DENSITIES, 'comfortable'));
  #language = $state<Language>(read('language', LANGUAGES, navigator.language.startsWith('ru') ? 'ru' : 'en'));

  get theme(): Theme {
    return this.#theme;
  }
  set theme(theme: Theme) {
    this.#theme = theme;
    write('theme', theme);
    this.apply();
  }

  get density(): Density {
    return this.#density;
  }
  set density(density: Density) {
    this.#density = density;
    write('density', density);
    this.apply();
  }

  get language(): Language {
    return this.#language;
  }
  set language(language: Language) {
    this.#language = language;
    this.keepLanguage(language);
    this.apply();
  }

  /** For the next time the page is opened; what is drawn stays as it is. */
  keepLanguage(language: Language): void {
    write('language', language);
  }

  /** The theme that is seen. */
  get shownTheme(): 'light' | 'dark' {
    if (this.#theme !== 'system') return this.#theme;
    return systemDark?.matches ? 'dark' : 'light';
  }

  /** For numbers and dates: the browser's own region when it speaks the chosen language. */
  get locale(): string {
    const own = navigator.language || 'en';
    return own.split('-', 1)[0] === this.#language ? own : this.#language;
  }

  /** Puts the choices on the page's root element, where `tokens.css` looks for them. */
  apply(): void {
    const { dataset } = document.documentElement;
    if (this.#theme === 'system') delete dataset.theme;
    else dataset.theme = this.#theme;
    dataset.density = this.#density;
    document.documentElement.lang = this.#language;
  }
}

export const preferences = new Preferences();

function read<T extends string>(name: string, allowed: readonly T[], fallback: T): T {
  try {
    const kept = localStorage.getItem(PREFIX + name) as T | null;
    return kept && allowed.includes(kept) ? kept : fallback;
  } catch {
    return fallback; // storage switched off by the browser
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // The choice holds until the page is closed.
  }
}
