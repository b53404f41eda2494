# ruff: noqa: INP001, T201 - a folder of scripts, no package
"""A small real PyTorch training under Gangline, on CPU: preempted, faulted and resumed, to the bit.

    python examples/train_torch.py --steps 200

Run it with `launcher: per-gpu`, one process a GPU (here: a CPU rank over gloo). Every step's data
comes from the step's number and the rank, every rank holds the same model and optimizer, and the
checkpoint holds both, so that a run that was stopped and resumed ends with the weights of the
undisturbed one. PyTorch is not among Gangline's dependencies.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys

import torch
import torch.distributed as dist

from gangline import checkpoint

_FEATURES = 16


def main() -> int:
    """Train; 0 when all steps are done, `checkpoint.STOPPED` when told to stop before."""
    options = _options()
    stop = checkpoint.StopFlag()
    every = checkpoint.Interval(options.checkpoint_every)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(
        torch.nn.Linear(_FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = _restore(model, optimizer)
    while step < options.steps:
        loss = _step(model, optimizer, step)
        step += 1
        checkpoint.progress(step)
        stopping, due = _agree(bool(stop), rank == 0 and every.due())
        if (stopping or due) and rank == 0:
            with checkpoint.publish(step) as folder:
                kept = {
                    "step": step,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                torch.save(kept, folder / "state.pt")
        if rank == 0:
            _note(options.loss_log, f"{step} {loss:.9f}")
        if stopping:
            return checkpoint.STOPPED
    print(f"rank {rank}: weights {_fingerprint(model)}", flush=True)
    dist.destroy_process_group()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=float, default=None, help="seconds")
    parser.add_argument("--loss-log", default="", help="file that gets `step loss` a line")
    return parser.parse_args()


def _restore(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load what is to be resumed, on every rank; the step to go on from."""
    resumed = checkpoint.resume()
    if resumed is None:
        return 0
    kept = torch.load(resumed.path / "state.pt", map_location="cpu")
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return int(kept["step"])


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> float:
    """One step on this rank's own data, gradients averaged over the gang in a fixed order."""
    world = dist.get_world_size()
    generator = torch.Generator().manual_seed(step * world + dist.get_rank())
    inputs = torch.randn(8, _FEATURES, generator=generator)
    wanted = inputs.sin().sum(dim=1, keepdim=True)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    for parameter in model.parameters():
        # Gathered and added up in rank order: the same sum to the bit in every run.
        parts = [torch.zeros_like(parameter.grad) for _ in range(world)]
        dist.all_gather(parts, parameter.grad)
        parameter.grad = torch.stack(parts).sum(dim=0) / world
    optimizer.step()
    return float(loss.detach())


def _agree(*flags: bool) -> tuple[bool, ...]:
    """True for all where it is true for one, so that everybody leaves after the same step."""
    shared = torch.tensor([int(flag) for flag in flags])
    with checkpoint.waiting():
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return tuple(bool(flag) for flag in shared)


def _fingerprint(model: torch.nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def _note(path: str, line: str) -> None:
    if path:
        with open(path, "a") as log:  # noqa: PTH123 - a name is enough here
            log.write(f"{os.environ.get('GANGLINE_ATTEMPT', '1')} {line}\n")


if __name__ == "__main__":
    sys.exit(main())
