import { query, request } from './client.ts';
import { allPages, type Page } from './page.ts';
import type { Session } from './generated.ts';

export type { Session };

export type Role = 'owner' | 'admin' | 'editor' | 'viewer';
/** From the one that may do most. */
export const ROLES: readonly Role[] = ['owner', 'admin', 'editor', 'viewer'];

export interface User {
  id: string;
  username: string;
  /** `user`, `oidc` or `plugin`. */
  kind: string;
  role: Role | null;
  disabled: boolean;
  disabled_at: string | null;
  has_password: boolean;
  /** Of a user of an identity provider. */
  identity: { issuer: string; subject: string } | null;
  created_at: string;
  updated_at: string;
}

const PER_REQUEST = 200;
const userPath = (id: string) => `/users/${encodeURIComponent(id)}`;

export interface People {
  users: User[];
  /** There are more than one request brings: a search narrows them down. */
  more: boolean;
}

/** People whose name contains `q`: users of this host and of the identity provider. Plugins' accounts are the host's own business. */
export async function listUsers(q: string, signal: AbortSignal): Promise<People> {
  const page = await request<Page<User>>(`/users${query({ limit: PER_REQUEST, q })}`, { signal });
  return { users: page.items.filter((user) => user.kind !== 'plugin'), more: page.next_cursor !== null };
}

export function listOwners(signal: AbortSignal): Promise<User[]> {
  return allPages('/users', { limit: PER_REQUEST, role: 'owner' }, signal);
}

export interface NewUser {
  username: string;
  password: string;
  role: Role;
}

export async function createUser(user: NewUser): Promise<User> {
  return (await request<{ item: User }>('/users', { method: 'POST', body: user })).item;
}

export interface UserChange {
  role?: Role | null;
  disabled?: boolean;
  password?: string;
  username?: string;
}

export async function changeUser(id: string, change: UserChange): Promise<User> {
  return (await request<{ item: User }>(userPath(id), { method: 'PATCH', body: change, contentType: 'application/merge-patch+json' })).item;
}

export function deleteUser(id: string): Promise<void> {
  return request(userPath(id), { method: 'DELETE' });
}

/** One's own when nobody is named. */
export function listSessions(userId: string | null, signal: AbortSignal): Promise<Session[]> {
  return allPages('/sessions', { limit: PER_REQUEST, user_id: userId }, signal);
}

export function endSession(id: string): Promise<void> {
  return request(`/sessions/${encodeURIComponent(id)}`, { method: 'DELETE' });
}

export function endSessionsOf(userId: string): Promise<void> {
  return request(`/sessions${query({ user_id: userId })}`, { method: 'DELETE' });
}

/** Ends every login of the user, this one too. */
export function changePassword(current: string, next: string): Promise<void> {
  return request('/auth/password', { method: 'POST', body: { current_password: current, new_password: next } });
}
