/** @type {import('../plugin-host').Activate} */
export function activate(host) {
{{#tab}}
  host.registerCardTabRenderer('{{name}}', async (container, { item }) => {
    if (!item) {
      container.textContent = 'Open a card first.';
      return;
    }
    const path = `/plugins/{{name}}/cards/${item.id}`;
    async function show() {
      const { items } = await host.apiRequest(path);
      container.innerHTML = `
        <ul>${items.map((text) => `<li>${host.esc(text)}</li>`).join('')}</ul>
        <form><input name="text" aria-label="Note" required> <button>Add</button></form>`;
      container.querySelector('form').addEventListener('submit', async (event) => {
        event.preventDefault();
        await host.apiRequest(path, { method: 'POST', body: { text: event.target.elements.text.value } });
        host.showToast('Noted');
        await show();
      });
    }
    await show();
  });
{{/tab}}
{{#page}}
  host.registerPageRenderer?.('{{name}}', async (container) => {
    const { items } = await host.apiRequest('/plugins/{{name}}/latest');
    const rows = items.map(
      ({ card_id, title, text }) =>
        `<tr><td><a href="/admin/cards/${card_id}">${host.esc(title)}</a></td><td>${host.esc(text)}</td></tr>`,
    );
    container.innerHTML = items.length
      ? `<table><thead><tr><th>Card</th><th>Note</th></tr></thead><tbody>${rows.join('')}</tbody></table>`
      : '<p>No card has a note yet.</p>';
  });
{{/page}}
}
