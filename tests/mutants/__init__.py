"""Wrong patches with names: the simulation must catch each, or its auditor is blind there."""
