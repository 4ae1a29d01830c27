#!/bin/sh
# Drives a goal in a small repository and takes its work.
#
#   examples/goal/run.sh                 with the coding CLI that `auto` means
#   examples/goal/run.sh codex           with this backend
#   examples/goal/run.sh script          with worker.sh in place of a model: no key, no network
#
# More arguments go to `drawloom goal run`, such as --skip-permissions. DRAWLOOM names the program; `drawloom` on PATH when absent.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
backend=${1:-auto}
[ $# -eq 0 ] || shift

work=$(mktemp -d)
cp -R "$here/project" "$work/repository"
cat > "$work/drawloom.yaml" << CONFIG
clis:
  script: { command: ["$here/worker.sh"], skip_permissions_args: [] }
CONFIG
run_drawloom() { "${DRAWLOOM:-drawloom}" --config "$work/drawloom.yaml" --data-dir "$work/data" "$@"; }
trap 'run_drawloom stop > "$work/stop.log" 2>&1 || true' EXIT

cd "$work/repository"
git init -q -b main
git add -A
git -c user.name=example -c user.email=example@localhost commit -q -m 'two programs that do not work yet'

echo "== tests before"
sh tests/run.sh || true

echo "== the goal, with the backend $backend"
run_drawloom goal run --goal-file "$here/goal.md" --backend "$backend" --verify 'sh tests/run.sh' --protect 'tests/**' --witness \
    --non-interactive "$@"

echo "== landing"
# main is checked out here, so the command answers what to run; nothing else changes a checkout.
# It has moved nothing then, which is exit code 1.
command=$(run_drawloom goal land last) || [ $? -eq 1 ]
echo "$command"
$command

echo "== tests after"
sh tests/run.sh
git log --oneline --graph
echo "the repository is $work/repository"
