// The scheduler's short words for why something is as it is, in words for people.

const WORDS = {
  // Of nodes.
  silent: "no heartbeat",
  lost: "no heartbeat for too long",
  heard: "heard again",
  unready: "a gang's start was not ready here in time",
  quarantine: "too many faults in a short time",
  // Of gangs that stop.
  preempted: "preempted",
  cancelled: "cancelled",
  limit: "its time limit was reached",
  drained: "its node was drained",
  maintenance: "maintenance of its node",
  infrastructure: "the machine failed",
  user: "its program failed",
  start_aborted: "not all nodes were ready in time",
  finished: "finished",
  // Of jobs that wait.
  capacity: "no room",
  fair_share: "others are first",
  reservation: "kept for others",
  topology: "no place of that shape",
  borrow_limit: "borrow limit",
  hold: "held",
  dependency: "waits for a job",
  nodes_unhealthy: "nodes unhealthy",
  starting: "starting",
  // Of evictions, and of places that are kept.
  reclaim: "its team takes back what it had lent",
  priority: "it has a higher class",
  claim: "as soon as those who make room are out",
  plan: "for a later start",
};

/** A short word in words; what is not known stays as it is. */
export const because = (word) => WORDS[word] || word || "";

/** Words as the beginning of a sentence. */
export const sentence = (words) => (words ? words[0].toUpperCase() + words.slice(1) : "");

/** A short word as a sentence of its own. */
export const Because = (word) => sentence(because(word));
