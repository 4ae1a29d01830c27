//! What goes over a socket: request and response types, error body, typed client.
