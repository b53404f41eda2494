// Where the page's data come from: the same routes that every client reads, and the live stream.

/** The JSON of a route; throws an Error with the problem's detail and its status. */
export async function get(path, options = {}) {
  const answer = await fetch(path, { headers: { accept: "application/json" }, ...options });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw Object.assign(new Error(body.detail || `${path}: ${answer.status}`), {
    status: answer.status,
  });
}

/** Ask for a token where the cell wants one; returns when we are in. */
export async function signIn(dialog, form, words) {
  for (;;) {
    try {
      return await get("/v1/session");
    } catch (error) {
      if (error.status !== 401) return null;
    }
    if (!dialog.open) dialog.showModal();
    await new Promise((done) => form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const token = new FormData(form).get("token");
      const wanted = { method: "POST", body: JSON.stringify({ token }) };
      await get("/v1/session", wanted).then(
        () => dialog.close(),
        () => { words.textContent = "This token does not come in."; });
      done();
    }, { once: true }));
  }
}

/** Follow decisions after a position. `heard` gets each row; `state` gets "live" or "dead". */
export function follow({ after, heard, state }) {
  const source = new EventSource(`/v1/events?after=${encodeURIComponent(after)}`);
  source.addEventListener("open", () => state("live"));
  source.addEventListener("error", () => state("dead"));
  source.addEventListener("decision", (event) => heard(JSON.parse(event.data)));
  return source;
}

/** Calls of `work` at most once in `ms`, the last one always. */
export function calmly(work, ms) {
  let timer = null;
  let running = false;
  let again = false;
  const run = async () => {
    timer = null;
    running = true;
    try { await work(); } finally {
      running = false;
      if (again) { again = false; ask(); }
    }
  };
  const ask = () => {
    if (running) again = true;
    else if (timer === null) timer = setTimeout(run, ms);
  };
  return ask;
}
