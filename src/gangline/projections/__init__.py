"""The views: read models in Postgres, each a fold of decisions, written by the projector."""
