import type { Activate, PluginHost } from '../plugin-host';

export const activate: Activate = (host) => {
{{#tab}}
  host.registerCardTabRenderer('{{name}}', (container, { item }, { signal }) => {
    if (item) return drawNotes(host, container, item.id, signal);
    container.textContent = 'Open a card first.';
  });
{{/tab}}
{{#page}}
  host.registerPageRenderer?.('{{name}}', (container, _, { signal }) => drawLatest(host, container, signal));
{{/page}}
};
{{#tab}}

async function drawNotes(host: PluginHost, container: HTMLElement, card: string, signal: AbortSignal): Promise<void> {
  const path = `/plugins/{{name}}/cards/${card}`;
  const { items } = await host.apiRequest<{ items: string[] }>(path, { signal });
  container.innerHTML = `
    <ul>${items.map((text) => `<li>${host.esc(text)}</li>`).join('')}</ul>
    <form><input name="text" aria-label="Note" required> <button>Add</button></form>`;
  container.querySelector('form')?.addEventListener('submit', async (event) => {
    event.preventDefault();
    const text = container.querySelector('input')?.value;
    await host.apiRequest(path, { method: 'POST', body: { text }, signal });
    host.showToast('Noted');
    await drawNotes(host, container, card, signal);
  });
}
{{/tab}}
{{#page}}

interface Note {
  card_id: string;
  title: string;
  text: string;
}

async function drawLatest(host: PluginHost, container: HTMLElement, signal: AbortSignal): Promise<void> {
  const { items } = await host.apiRequest<{ items: Note[] }>('/plugins/{{name}}/latest', { signal });
  const rows = items.map(
    ({ card_id, title, text }) =>
      `<tr><td><a href="/admin/cards/${card_id}">${host.esc(title)}</a></td><td>${host.esc(text)}</td></tr>`,
  );
  container.innerHTML = items.length
    ? `<table><thead><tr><th>Card</th><th>Note</th></tr></thead><tbody>${rows.join('')}</tbody></table>`
    : '<p>No card has a note yet.</p>';
}
{{/page}}
