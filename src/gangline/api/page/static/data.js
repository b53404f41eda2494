// Where the page's data come from, and which moment it shows.

/** at: milliseconds of the moment that is shown; null for the present. who: who has signed in. */
export const shown = { at: null, who: null };

/** The moment that is shown, in milliseconds. */
export const now = () => shown.at ?? Date.now();

/** The JSON of a route; throws an Error with the problem's detail and its status. */
export async function get(path, options = {}) {
  const wanted = { headers: { accept: "application/json" }, ...options };
  const answer = await fetch(path, wanted).catch(() => {
    throw new Error("the API cannot be reached; what stands here is what was read last");
  });
  const body = await answer.json().catch(() => null);
  if (answer.ok && body === null) throw new Error("the API's answer broke off");
  if (answer.ok) return body;
  const error = new Error(body?.detail || `${path}: ${answer.status}`);
  throw Object.assign(error, { status: answer.status, body });
}

const AGAIN = 4;
const AGAIN_MS = 3_000;
const pause = (seconds) =>
  new Promise((done) => {
    setTimeout(done, 1000 * seconds);
  });

/** The same, again after a while where others are looking into the past just now. */
async function patiently(path) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await get(path);
    } catch (error) {
      if (error.status !== 503 || shown.at === null || tries >= AGAIN) throw error;
      await pause(2);
    }
  }
}

/** Data of a page at the moment that is shown; query: further parameters, empty ones left out. */
export function page(path, query = {}) {
  const wanted = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...query, at: shown.at })) {
    if (value !== null && value !== undefined && value !== "") wanted.set(key, value);
  }
  return patiently(`/page/${path}?${wanted}`);
}

/** Ask for something to be done; returns the position of the fact. */
export function post(path, body = {}) {
  return get(path, { method: "POST", body: JSON.stringify(body) });
}

/** Ask for a token where the cell wants one; returns who we are when we are in. */
export async function signIn(dialog, form, words) {
  for (;;) {
    try {
      return await get("/v1/session");
    } catch (error) {
      if (error.status !== 401) return null;
    }
    if (!dialog.open) dialog.showModal();
    await new Promise((done) =>
      form.addEventListener(
        "submit",
        async (event) => {
          event.preventDefault();
          const token = new FormData(form).get("token");
          const wanted = { method: "POST", body: JSON.stringify({ token }) };
          await get("/v1/session", wanted).then(
            () => dialog.close(),
            () => {
              words.textContent = "This token does not come in.";
            },
          );
          done();
        },
        { once: true },
      ),
    );
  }
}

/** Follow decisions from now on. `heard` gets each row; `state` gets "live" or "dead". */
export function follow({ heard, state }) {
  const source = new EventSource("/v1/events?after=end");
  source.addEventListener("open", () => state("live"));
  source.addEventListener("error", () => {
    state("dead");
    // A cut line the browser mends by itself; an answer that is no stream it takes for the end.
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => follow({ heard, state }), AGAIN_MS);
    }
  });
  source.addEventListener("decision", (event) => heard(JSON.parse(event.data)));
}

/** Calls of `work` at most once in `ms`, the last one always. */
export function calmly(work, ms) {
  let timer = null;
  let running = false;
  let again = false;
  const run = async () => {
    timer = null;
    running = true;
    try {
      await work();
    } finally {
      running = false;
      if (again) {
        again = false;
        ask();
      }
    }
  };
  const ask = () => {
    if (running) again = true;
    else if (timer === null) timer = setTimeout(run, ms);
  };
  return ask;
}
