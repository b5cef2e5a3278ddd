import { installTrustedTypes } from './plugin-host/trusted-types.ts';
import './styles/tokens.css';
import './styles/elements.css';
import './styles/app.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { connection } from './api/connection.svelte.ts';
import { session } from './api/session.svelte.ts';
import { loadLanguage } from './i18n/catalogue.svelte.ts';
import { preferences } from './ui/preferences.svelte.ts';

installTrustedTypes();
preferences.apply();
connection.watch();

const target = document.getElementById('app');
if (!target) throw new Error('index.html has no element #app');
// English needs no fetch; another language comes before the first words.
void loadLanguage().then(() => {
  // Before the page: whoever is not signed in needs the sign-in alone.
  void session.start();
  mount(App, { target });
});
