#!/bin/sh
# Prints the title of a slug: `sh title.sh hello-world` prints Hello World.
printf '%s\n' "$1"
