// A person at a browser, scripted: follows redirects with a cookie jar, logs in as whoever, consents to everything.
const CALLBACK = "http://127.0.0.1:9999/cb";

export { CALLBACK };

// The address of the callback that the walk through the provider's pages ends at; nothing has to listen there.
export async function consent(start, login = "alice") {
  const cookies = new Map();
  let [next, form] = [String(start), null];
  for (let step = 0; step < 20; step += 1) {
    const answer = await fetch(next, {
      redirect: "manual",
      method: form ? "POST" : "GET",
      body: form,
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
    });
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    const location = answer.headers.get("location");
    if (location) {
      [next, form] = [new URL(location, next).href, null];
      if (next.startsWith(CALLBACK)) return new URL(next);
      continue;
    }
    const page = await answer.text();
    const action = /action="([^"]+)"/.exec(page)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1];
    if (!action) throw new Error(`${answer.status} at ${next}: ${page.slice(0, 500)}`);
    next = new URL(action, next).href;
    form = new URLSearchParams(prompt === "login" ? { prompt, login, password: "any" } : { prompt });
  }
  throw new Error("the provider leads nowhere");
}
