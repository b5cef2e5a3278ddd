/** What a text comes to, in a few letters: the build finds translations by it. */
export function hashOf(text: string | { other: string }): string {
  let hash = 0;
  for (const letter of typeof text === 'string' ? text : text.other) hash = (Math.imul(hash, 31) + (letter.codePointAt(0) ?? 0)) | 0;
  return (hash >>> 0).toString(36);
}
