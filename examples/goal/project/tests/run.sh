#!/bin/sh
# Runs every test: `sh tests/run.sh`.
cd "$(dirname "$0")/.." || exit 1
failed=0
check() { # program argument expected
    got=$(sh "$1" "$2")
    if [ "$got" = "$3" ]; then
        echo "ok: $1 '$2'"
    else
        echo "not ok: $1 '$2' prints '$got', not '$3'"
        failed=1
    fi
}
for file in tests/*_test.sh; do . "./$file"; done
exit $failed
