/** What the page and the frame in which a plugin's tab runs apart from it say to each other, over one port. */

import type { CardDetail, HostState } from '../../plugin-host.d.ts';
import type { ActivePlugin } from '../api/types.ts';
import type { Density, Language, Theme } from '../ui/preferences.svelte.ts';
import type { FailurePhase } from './failure.ts';
import type { Detail } from './loaded.ts';
import type { Sheets } from './page-sheets.ts';

/** Below `/admin/`; served with a policy of its own. */
export const FRAME_PAGE = '/admin/frame.html';

/** The page's first message, with the port. */
export interface FrameStart {
  plugin: ActivePlugin;
  tabId: string;
  detail: Detail;
  view: FrameView;
  sheets: Sheets;
}

/** What of the page the frame has a copy of. */
export interface FrameView {
  state: HostState;
  theme: Theme;
  density: Density;
  language: Language;
}

/** An `ApiError` without its class. */
export interface SentError {
  message: string;
  status: number;
  code: string;
  detail: string;
  request_id: string | null;
}

export type ToFrame =
  | { kind: 'view'; view: FrameView }
  | { kind: 'card'; detail: CardDetail }
  | { kind: 'ping' }
  | { kind: 'answer'; id: number; value: unknown }
  | { kind: 'refusal'; id: number; error: SentError };

export type FromFrame =
  | { kind: 'drawn' }
  | { kind: 'failed'; phase: FailurePhase; message: string; technical: string | null }
  | { kind: 'late'; message: string }
  | { kind: 'pong' }
  | { kind: 'touched' }
  | { kind: 'height'; pixels: number }
  | { kind: 'toast'; message: string }
  | { kind: 'request'; id: number; path: string; method: string; body: unknown }
  | { kind: 'picture'; id: number; address: string }
  | { kind: 'abort'; id: number };
