// Long work in short turns: keys, clicks and pictures come between them.

const channel = new MessageChannel();
const waiting = [];
channel.port1.onmessage = () => waiting.shift()();

/** Goes on in a task of its own, after what the browser wants to do meanwhile. */
export const turn = () =>
  globalThis.scheduler?.yield
    ? globalThis.scheduler.yield()
    : new Promise((done) => {
        waiting.push(done);
        channel.port2.postMessage(null);
      });
