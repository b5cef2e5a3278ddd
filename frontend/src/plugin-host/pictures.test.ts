import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { followPictures, PictureAddresses, setPicturesAside } from './pictures.ts';

const PHOTO = 'https://shop.example/photo.png';

beforeEach(() => {
  URL.createObjectURL = () => 'blob:made';
  URL.revokeObjectURL = () => {};
});
afterEach(() => document.body.replaceChildren());

function tab(html: string, read: (address: string) => Promise<Blob>) {
  const host = document.createElement('div');
  document.body.append(host);
  const root = host.attachShadow({ mode: 'open' });
  const stop = followPictures(root, read);
  const parsed = document.createElement('div');
  parsed.innerHTML = html;
  setPicturesAside(parsed);
  root.append(...parsed.childNodes);
  return { root, stop };
}

it('foreign addresses are set aside before the browser can ask for them', () => {
  const parsed = document.createElement('div');
  parsed.innerHTML = `<img src="${PHOTO}" srcset="${PHOTO} 2x"><img src="//shop.example/b.png"><img src="data:image/gif;base64,R0"><img src="/admin/assets/plugins/x/y/a.png">`;
  setPicturesAside(parsed);
  const seen = Array.from(parsed.querySelectorAll('img'), (image) => [image.getAttribute('src'), image.getAttribute('srcset'), image.dataset.picture]);
  expect(seen[0]).toEqual([null, null, PHOTO]);
  expect(seen[1]?.[0]).toBe(null);
  expect(seen.slice(2).map(([src]) => src)).toEqual(['data:image/gif;base64,R0', '/admin/assets/plugins/x/y/a.png']);
});

it('a picture is shown as the bytes that the host read, now and when it comes later', async () => {
  const asked: string[] = [];
  const read = (address: string) => (asked.push(address), Promise.resolve(new Blob()));
  const { root, stop } = tab(`<p><img src="${PHOTO}"></p>`, read);
  await vi.waitFor(() => expect(root.querySelector('img')?.getAttribute('src')).toBe('blob:made'));
  const later = document.createElement('img');
  later.src = 'https://shop.example/later.png';
  root.append(later);
  await vi.waitFor(() => expect(later.getAttribute('src')).toBe('blob:made'));
  expect(asked).toEqual([PHOTO, 'https://shop.example/later.png']);
  stop();
});

it('a picture that is not there ends in an error event, as the browser’s own', async () => {
  const { root, stop } = tab('', () => Promise.reject(new Error('refused')));
  const image = document.createElement('img');
  const failed = new Promise((resolve) => image.addEventListener('error', resolve));
  image.src = PHOTO;
  root.append(image);
  await failed;
  expect(image.hasAttribute('src')).toBe(false);
  stop();
});

it('addresses are known from what the server sent, wherever they stand in it', () => {
  const addresses = new PictureAddresses();
  addresses.learn({ item: { attributes: { sources: { 'a:b': { data: { images: [PHOTO] } } } } } });
  expect([addresses.has(PHOTO), addresses.has(`${PHOTO}?secret`)]).toEqual([true, false]);
  for (const odd of [null, 7, 'text', [[[]]]]) addresses.learn(odd);
  for (let n = 0; n < 20_001; n += 1) addresses.learn(`https://shop.example/${n}`);
  expect([addresses.has(PHOTO), addresses.has('https://shop.example/20000')]).toEqual([false, true]);
});
