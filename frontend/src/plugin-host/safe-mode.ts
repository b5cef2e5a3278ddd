/** In the address: plugins draw only what somebody asks for. It is looked at before the first page can change the address. */
const NAME = 'safe';
const ON = '1';

export const safeMode = new URLSearchParams(location.search).get(NAME) === ON;

/** Opens this page anew, in safe mode or out of it. */
export function switchSafeMode(): void {
  const url = new URL(location.href);
  if (safeMode) url.searchParams.delete(NAME);
  else url.searchParams.set(NAME, ON);
  location.assign(url);
}
