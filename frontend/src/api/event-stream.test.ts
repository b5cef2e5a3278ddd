import { expect, it } from 'vitest';
import { EventStreamReader } from './event-stream.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

it('reads events whatever the pieces are that they come in', () => {
  const text = ': topics: card\nretry: 2000\nid: 7\n\nid: 8\nevent: card.updated\ndata: {"title":"ü"}\n\nid: 9\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\n';
  for (const size of [1, 2, 3, 7, text.length * 2]) {
    const reader = new EventStreamReader();
    const whole = bytes(text);
    const events = [];
    let retry: number | undefined;
    for (let at = 0; at < whole.length; at += size) {
      const portion = reader.read(whole.slice(at, at + size));
      events.push(...portion.events);
      retry = portion.retryMs ?? retry;
    }
    expect(events, `${size}`).toEqual([{ type: 'card.updated', data: '{"title":"ü"}' }, { type: 'x', data: 'a\nb' }]);
    expect(reader.lastId).toBe('9');
    expect(retry).toBe(2000);
  }
});

it('an event that was cut off is not counted as read', () => {
  const reader = new EventStreamReader();
  reader.read(bytes('id: 4\nevent: a\ndata: 1\n\nid: 5\nevent: b\nda'));
  reader.restart();
  expect(reader.lastId).toBe('4');
  // What has no id of its own, like the server’s goodbye, does not move the place.
  expect(reader.read(bytes('event: closed\ndata: {}\n\n')).events).toEqual([{ type: 'closed', data: '{}' }]);
  expect(reader.lastId).toBe('4');
});

it('what never ends is given up', () => {
  const reader = new EventStreamReader();
  expect(() => {
    for (let i = 0; i < 3; i += 1) reader.read(bytes('x'.repeat(600_000)));
  }).toThrow('the stream of events is not one');
});
