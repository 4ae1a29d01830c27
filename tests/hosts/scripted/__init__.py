"""A scripted model on loopback: hosts ask it as they would ask a real one, and it calls the tools that a play says."""
