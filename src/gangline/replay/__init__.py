"""Reading history again, and making it up: replay, simulation, scenarios, reports."""
