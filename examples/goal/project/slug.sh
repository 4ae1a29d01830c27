#!/bin/sh
# Prints the slug of a title: `sh slug.sh 'Hello, World!'` prints hello-world.
printf '%s\n' "$1" | tr 'A-Z' 'a-z'
