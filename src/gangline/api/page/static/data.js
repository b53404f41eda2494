// Where the page's data come from, and which moment it shows.

/** at: milliseconds of the moment that is shown; null for the present. who: who has signed in. */
export const shown = { at: null, who: null };

/** The moment that is shown, in milliseconds. */
export const now = () => shown.at ?? Date.now();

// A line that broke without a word would be waited for without end.
const PATIENCE_MS = 60_000;
const UNREACHABLE = "the API cannot be reached; what stands here is what was read last";
const UNANSWERED = "the API has not answered for a minute; what stands here is what was read last";

/** The JSON of a route; throws an Error with the problem's detail and its status. */
export async function get(path, options = {}) {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const wanted = { headers: { accept: "application/json" }, signal, ...options };
  const answer = await fetch(path, wanted).catch(() => {
    throw new Error(signal.aborted ? UNANSWERED : UNREACHABLE);
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

/** What is said to somebody whose token did not open the door: theirs to mend, or not. */
function refusal(error) {
  if (error.status === 401) return "This token is not known here: mistyped, ended or revoked.";
  if (error.status) return `The API says: ${error.message}.`;
  return "The API cannot be reached, so nobody has looked at the token. Try again in a while.";
}

/**
 * Who we are, as soon as the API says so; asks for a token where the cell wants one.
 *
 * told: called with the error of an answer that says neither, and it is asked again.
 */
export async function signIn(dialog, form, words, told) {
  let signedIn = () => {};
  form.addEventListener("submit", async (event) => {
    event.preventDefault(); // or the browser would write the token into the address
    words.textContent = "";
    const body = JSON.stringify({ token: new FormData(form).get("token") });
    await get("/v1/session", { method: "POST", body }).then(
      () => signedIn(),
      (error) => {
        words.textContent = refusal(error);
      },
    );
  });
  for (;;) {
    try {
      const who = await get("/v1/session");
      dialog.close();
      return who;
    } catch (error) {
      if (error.status !== 401) {
        told(error);
        await pause(AGAIN_MS / 1000);
        continue;
      }
    }
    if (!dialog.open) dialog.showModal();
    await new Promise((done) => {
      signedIn = done;
    });
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
