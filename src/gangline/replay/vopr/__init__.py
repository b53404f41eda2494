"""Deterministic simulation of a whole cell, in the manner of TigerBeetle's VOPR.

One virtual clock, one thread, one seed. Real: the scheduler process (leader, standby, takeover,
snapshots), the scheduler's core, the agents' core. Simulated: the bus behind each process's own
faulty line, machines, programs, users and operators. The auditor looks at every record that lands.

`python -m gangline.replay.vopr --seeds 1000` runs many; `docs/reliability.md` tells of long runs.
"""

from gangline.replay.vopr.simulation import Simulation, Verdict, run_seed

__all__ = ["Simulation", "Verdict", "run_seed"]
