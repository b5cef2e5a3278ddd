import { request, useCredentials } from './client.ts';
import { holds } from './scopes.ts';
import type { Me } from './types.ts';

/** For this tab alone, and only when the user asked to stay signed in across reloads. */
const STORAGE_KEY = 'cardinal.token';

type Phase = 'starting' | 'unreachable' | 'signed-out' | 'signed-in' | 'expired';

interface Login {
  access_token: string;
}

// The token lives in this closure. It is never part of any state that a page or a plugin can read.
let token: string | null = null;
let waiting: { promise: Promise<void>; resolve: () => void; reject: (why: Error) => void } | null = null;

class Session {
  phase = $state<Phase>('starting');
  me = $state.raw<Me | null>(null);
  /** Why the server could not be asked who we are. */
  problem = $state.raw<unknown>(null);

  can(scope: string): boolean {
    return scope === '' ? this.me !== null : holds(this.me?.scopes ?? [], scope);
  }

  /** Picks up the token that a reload left behind, if any. */
  async start(): Promise<void> {
    token = readStored();
    if (!token) {
      this.phase = 'signed-out';
      return;
    }
    try {
      this.me = await request<Me>('/auth/me');
      this.phase = 'signed-in';
    } catch (thrown) {
      // A stored token that is refused ends in `renew`, which forgets it. What is left is a server
      // that cannot answer now: the token stays.
      if (token) {
        this.problem = thrown;
        this.phase = 'unreachable';
      }
    }
  }

  async signIn(username: string, password: string, remember: boolean): Promise<void> {
    const login = await request<Login>('/auth/login', { method: 'POST', body: { username, password }, anonymous: true });
    const before = this.me?.user.id;
    token = login.access_token;
    const me = await request<Me>('/auth/me', { once: true });
    store(remember ? token : null);
    // Somebody else's half-filled forms and cached lists must not become this user's.
    if (before !== undefined && before !== me.user.id) return location.reload();
    this.me = me;
    this.phase = 'signed-in';
    waiting?.resolve();
    waiting = null;
  }

  /** Whether the token outlives a reload, as the user chose. */
  get remembered(): boolean {
    return readStored() !== null;
  }

  async signOut(): Promise<void> {
    // Whether or not the server can be told, this tab forgets the token.
    await request('/auth/logout', { method: 'POST', once: true }).catch(() => {});
    this.giveUp();
  }

  /** Ends the session in this tab; requests that wait for a new sign-in fail. */
  giveUp(): void {
    token = null;
    forgetTab();
    this.me = null;
    this.phase = 'signed-out';
    waiting?.reject(new Error('signed out'));
    waiting = null;
  }

  /** A request was refused with 401: ask for the password over the page that is open, once for all. */
  renew(refused: string | null): Promise<void> {
    if (token !== refused && token !== null) return Promise.resolve();
    if (this.phase === 'signed-out') return Promise.reject(new Error('signed out'));
    if (!this.me) {
      this.giveUp();
      return Promise.reject(new Error('signed out'));
    }
    if (!waiting) waiting = Promise.withResolvers<void>();
    store(null);
    this.phase = 'expired';
    return waiting.promise;
  }
}

export const session = new Session();
useCredentials({ token: () => token, renew: (refused) => session.renew(refused) });

function readStored(): string | null {
  try {
    return sessionStorage.getItem(STORAGE_KEY);
  } catch {
    return null; // storage switched off by the browser
  }
}

function store(value: string | null): void {
  try {
    if (value) sessionStorage.setItem(STORAGE_KEY, value);
    else sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // Without storage a reload asks for the password again; nothing else is lost.
  }
}

/** What this tab keeps is one person's: where they were, what they looked at. */
function forgetTab(): void {
  try {
    sessionStorage.clear();
  } catch {
    // Without storage nothing was kept.
  }
}
