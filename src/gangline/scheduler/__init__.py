"""The scheduler: a pure core that decides, and a dull driver that reads, steps and commits."""
