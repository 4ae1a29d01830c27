//! Journal, runs, waits and blobs on SQLite: the only home of SQL.
