//! Who may touch what: definitions, gates, lint, volumes.
