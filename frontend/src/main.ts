import { installTrustedTypes } from './plugin-host/trusted-types.ts';
import './styles/tokens.css';
import './styles/elements.css';
import './styles/app.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { session } from './api/session.svelte.ts';
import './api/live.svelte.ts';
import { loadLanguage } from './i18n/catalogue.svelte.ts';
import { preferences } from './ui/preferences.svelte.ts';

installTrustedTypes();
preferences.apply();

// After an upgrade of the server the old page's chunks are gone; a fresh page has the new ones.
addEventListener('vite:preloadError', () => location.reload());

const target = document.getElementById('app');
if (!target) throw new Error('index.html has no element #app');
// English needs no fetch; another language comes before the first words.
void loadLanguage().then(() => {
  mount(App, { target });
  void session.start();
});
