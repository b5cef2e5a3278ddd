/** The frame in which a plugin's tab runs apart from the page; see `plugin-host/frame-tab.ts` for the other end. */
import { installTrustedTypes } from './plugin-host/trusted-types.ts';
import { runFrame } from './plugin-host/frame-main.ts';

installTrustedTypes();

addEventListener('message', function begin(event) {
  const [port] = event.ports;
  // Only the page that the frame stands in can post the first message: nobody else has this window.
  if (event.source !== parent || !port) return;
  removeEventListener('message', begin);
  runFrame(event.data, port);
});
