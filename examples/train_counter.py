# ruff: noqa: INP001, T201 - a folder of scripts, no package
"""A training program in miniature: it counts, adds up over the gang, saves, resumes and stops.

    python examples/train_counter.py --steps 100 --step-s 0.1

Its "model" is one number that depends on every step of every rank, so that a step lost or done
twice shows in the last line. `--step-log FILE` gets a line for every step really done: attempt,
rank, step, node, GPUs, and by the machine's own clock when this process began and when the step was
done.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from allreduce import Ring

from gangline import checkpoint

BEGAN_S = time.monotonic()


def main() -> int:
    """Train; 0 when all steps are done, `checkpoint.STOPPED` when told to stop before."""
    options = _options()
    stop = checkpoint.StopFlag()
    every = checkpoint.Interval(options.checkpoint_every)
    step, model = _restored()
    with Ring() as ring:
        _say(f"rank {ring.rank} of {ring.world_size} begins at step {step}")
        while step < options.steps:
            time.sleep(options.step_s * (3 if ring.rank == options.slow_rank else 1))
            _fail_on_purpose(options, step)
            # Everybody leaves after the same step: the flags are added up like the gradients.
            ended = bool(options.until) and ring.rank == 0 and Path(options.until).exists()
            mine = [(step + 1) * (ring.rank + 1), bool(stop), ring.rank == 0 and every.due(), ended]
            with checkpoint.waiting():
                gradient, stopping, due, ended = ring.sum(mine)
            model, step = (model * 31 + gradient) % 1_000_000_007, step + 1
            _log_step(options.step_log, ring.rank, step)
            checkpoint.progress(step)
            if (due or stopping) and ring.rank == 0:
                _save(step, model, takes_s=options.save_s)
            if ended:
                break
            if stopping:
                _say(f"rank {ring.rank} was told to stop, saved at step {step}")
                return checkpoint.STOPPED
        _say(f"rank {ring.rank} is done: {step} steps, model {model}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--checkpoint-every", type=float, default=None, help="seconds")
    parser.add_argument("--save-s", type=float, default=0.0, help="how long a save takes")
    parser.add_argument("--fail-at", type=int, default=-1, help="fail before this step …")
    parser.add_argument("--fail-code", type=int, default=1, help="… with this exit code …")
    parser.add_argument("--fail-attempts", type=int, default=1, help="… in the first attempts")
    parser.add_argument("--slow-rank", type=int, default=-1, help="takes three times as long")
    parser.add_argument("--step-log", default="")
    parser.add_argument("--until", default="", help="done as soon as this file is there")
    return parser.parse_args()


def _restored() -> tuple[int, int]:
    """Step and model of the checkpoint to resume from, or the beginning."""
    resumed = checkpoint.resume()
    if resumed is None:
        return 0, 0
    kept = json.loads((resumed.path / "model.json").read_text())
    return int(kept["step"]), int(kept["model"])


def _save(step: int, model: int, *, takes_s: float) -> None:
    with checkpoint.publish(step) as folder:
        time.sleep(takes_s)
        (folder / "model.json").write_text(json.dumps({"step": step, "model": model}))


def _fail_on_purpose(options: argparse.Namespace, step: int) -> None:
    attempt = int(os.environ.get("GANGLINE_ATTEMPT", "1"))
    if step == options.fail_at and attempt <= options.fail_attempts:
        _say(f"fails at step {step}, as it was asked to")
        sys.exit(options.fail_code)


def _log_step(path: str, rank: int, step: int) -> None:
    if path:
        attempt = os.environ.get("GANGLINE_ATTEMPT", "1")
        node = os.environ.get("GANGLINE_NODE", "-")
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or "-"
        with Path(path).open("a") as log:
            log.write(f"{attempt} {rank} {step} {node} {gpus} {BEGAN_S} {time.monotonic()}\n")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
