#!/bin/sh
# A coding CLI without a model: it reads a prompt from stdin, does what its role asks, and prints an answer. It does not do everything
# at once, so that the loop has something to feed back: the first slug.sh forgets punctuation.
prompt=$(cat)
has() { case "$prompt" in *"$1"*) return 0 ;; esac; return 1; }

if has 'You are the planner'; then
    if has 'not ok: slug.sh'; then
        echo '[{"id": "slug", "description": "Drop punctuation and outer dashes in slug.sh.", "files": ["slug.sh"]}]'
    else
        cat << 'PLAN'
[{"id": "slug", "description": "Make slug.sh print slugs.", "files": ["slug.sh"]},
 {"id": "title", "description": "Make title.sh print titles.", "files": ["title.sh"]}]
PLAN
    fi
elif has 'You are one worker'; then
    if has '# Your subgoal: title'; then
        cat > title.sh << 'PROGRAM'
#!/bin/sh
# Prints the title of a slug: `sh title.sh hello-world` prints Hello World.
printf '%s\n' "$1" | awk -F- '{ for (i = 1; i <= NF; i++) $i = toupper(substr($i, 1, 1)) substr($i, 2); print }'
PROGRAM
    elif has 'not ok: slug.sh'; then
        cat > slug.sh << 'PROGRAM'
#!/bin/sh
# Prints the slug of a title: `sh slug.sh 'Hello, World!'` prints hello-world.
printf '%s\n' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' '-' | sed 's/^-//; s/-$//'
PROGRAM
    else
        cat > slug.sh << 'PROGRAM'
#!/bin/sh
# Prints the slug of a title: `sh slug.sh 'Hello, World!'` prints hello-world.
printf '%s\n' "$1" | tr 'A-Z ' 'a-z-'
PROGRAM
    fi
    echo "Changed $(git status --short | sed 's/^...//' | tr '\n' ' ')and looked at the tests."
elif has 'You are the reviewer'; then
    if has 'FAILED'; then
        echo '{"quality_ok": false, "consistency_ok": true, "goal_aligned": true, "goal_complete": false, "issues": ["A test fails; see the verification."]}'
    else
        echo '{"quality_ok": true, "consistency_ok": true, "goal_aligned": true, "goal_complete": true, "issues": []}'
    fi
elif has 'JSON array of strings'; then
    echo '[]'
else
    echo 'Every test of tests/run.sh passes, and no test was changed.'
fi
