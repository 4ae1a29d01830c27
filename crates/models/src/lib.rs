//! Model APIs, one module each, and the scripted model.
