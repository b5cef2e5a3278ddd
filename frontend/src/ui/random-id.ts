const BYTES = 16;

/** A name that nobody else has. `crypto.randomUUID` is missing where the page is served without TLS. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(BYTES)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
