export interface Sheets {
  tokens: string;
  elements: string;
}

/**
 * The page's own styles that tabs share. They are read where the page has them, before any plugin's code runs: each
 * stands in a block that is named by its condition.
 */
export const PAGE_SHEETS: Sheets = { tokens: named('--tokens'), elements: named('--elements') };

function named(name: string): string {
  for (const { cssRules } of Array.from(document.styleSheets)) {
    for (const rule of Array.from(cssRules)) {
      if (rule instanceof CSSSupportsRule && rule.conditionText.includes(name)) return Array.from(rule.cssRules, ({ cssText }) => cssText).join('\n');
    }
  }
  return '';
}
