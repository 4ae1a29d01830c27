#!/bin/sh
# A coding CLI for tests. The goal's text, which every prompt has, says what each role does:
#   PLAN: a line that the planner answers; PLAN2: the same in a second iteration
#   WORK id: a command that the worker of this subgoal runs in its directory; WORK id again: in a second try
#   SAY role: what a role answers in place of its usual answer
prompt=$(cat)
export ARGUMENTS="$*"
line() { printf '%s\n' "$prompt" | sed -n "s/^$1: //p"; }
say=''
case "$prompt" in
    *'You are the planner'*)
        say=$(line PLAN2)
        case "$prompt" in *'# Feedback of the last iteration'*) ;; *) say='' ;; esac
        [ -n "$say" ] || say=$(line PLAN)
        ;;
    *'You are one worker'*)
        id=$(printf '%s\n' "$prompt" | sed -n 's/^# Your subgoal: //p' | head -n 1)
        work=$(line "WORK $id")
        case "$prompt" in *'# An earlier try failed'* | *'Your changes conflict'* | *'# Feedback of the last iteration'*)
            again=$(line "WORK $id again")
            [ -z "$again" ] || work=$again
            ;;
        esac
        printf '%s\n' "$work" > "$TMPDIR/work.sh"
        sh "$TMPDIR/work.sh" || exit $?
        say=$(line 'SAY worker')
        [ -n "$say" ] || say="done with $id"
        ;;
    *'You are the reviewer'*)
        say=$(line 'SAY reviewer')
        [ -n "$say" ] || say='{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}'
        ;;
    *'JSON array of strings'*) say=$(line 'SAY clarifier'); [ -n "$say" ] || say='[]' ;;
    *) say='Every file of the goal exists.' ;;
esac
printf '%s\n' "$say"
