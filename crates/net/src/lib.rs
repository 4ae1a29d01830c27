//! Outbound HTTP: the only home of reqwest.
