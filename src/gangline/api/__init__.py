"""The REST API and the page: validates what comes in, appends facts to the log, reads views."""
