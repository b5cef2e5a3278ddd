/** What every tab's styles begin with, in the page and in a frame. */
export const TAB_SHEET = ':host { display: block; color: var(--text); }';
