"""The vocabulary of the log, its wire format, and the drivers of the log itself."""
