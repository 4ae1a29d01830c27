//! Examples of the commands for goals and their checkouts.

pub(super) const EXAMPLES: &[(&str, &str)] = &[
    (
        "drawloom goal run",
        "\
Examples:
  drawloom goal run 'Add a /health endpoint' --verify 'npm test'   start a goal and follow it
  drawloom goal run --goal-file goal.md --backend codex --detach   let the server drive it
  drawloom goal run 'Fix the parser' --protect 'tests/**' --yes    keep workers from changing tests",
    ),
    (
        "drawloom goal status",
        "\
Examples:
  drawloom goal status          show the newest goal
  drawloom goal status r_01a1   show another one",
    ),
    (
        "drawloom goal tail",
        "\
Examples:
  drawloom goal tail                 follow the newest goal
  drawloom goal tail --no-follow     show its events so far
  drawloom goal tail --json          print each event as a line of JSON",
    ),
    (
        "drawloom goal result",
        "\
Examples:
  drawloom goal result               show what came of the newest goal
  drawloom goal result --wait        wait for its end
  drawloom goal result --json        print the whole result",
    ),
    (
        "drawloom goal list",
        "\
Examples:
  drawloom goal list                 list goals
  drawloom goal list -q              print their ids only",
    ),
    (
        "drawloom goal resume",
        "\
Examples:
  drawloom goal resume ask_01a1 --answer FastAPI --answer Postgres   answer two questions
  drawloom goal resume ask_01a1 --decline                            do not approve a plan
  drawloom goal resume last --max-iterations 3                       go on from a stopped goal
  drawloom goal resume r_01a1 --say 'Keep the old API'               the same, with a word",
    ),
    (
        "drawloom goal say",
        "\
Examples:
  drawloom goal say last 'Keep the old API too'    tell the roles that are asked from now on",
    ),
    (
        "drawloom goal rm",
        "\
Examples:
  drawloom goal rm             remove the newest goal's branch, refs and files, after asking
  drawloom goal rm r_01a1 -y   remove another one without asking",
    ),
    (
        "drawloom goal cancel",
        "\
Examples:
  drawloom goal cancel                            stop the newest goal
  drawloom goal cancel r_01a1 --reason mistake    stop another one and say why",
    ),
    (
        "drawloom goal land",
        "\
Examples:
  drawloom goal land                    move the base branch to the newest goal's work
  drawloom goal land --into release     move another branch",
    ),
    (
        "drawloom goal backends",
        "\
Examples:
  drawloom goal backends          list who can work on goals
  drawloom goal backends --json   the same for programs",
    ),
    (
        "drawloom goal doctor",
        "\
Examples:
  drawloom goal doctor                 check programs, logins and this repository
  drawloom goal doctor --cwd ../app    check another repository",
    ),
    (
        "drawloom goal demo",
        "\
Examples:
  drawloom goal demo          watch two iterations of a mock team
  drawloom goal demo --json   print the result only",
    ),
    (
        "drawloom worktree list",
        "\
Examples:
  drawloom worktree list          list goals with checkouts on the disk
  drawloom worktree list --all    list goals whose checkouts were removed too",
    ),
    (
        "drawloom worktree diff",
        "\
Examples:
  drawloom worktree diff last                               show what the newest goal changed
  drawloom worktree diff last --stat                        show only which files differ
  drawloom worktree diff last --checkout s1 --uncommitted   show what is not committed in a checkout",
    ),
    (
        "drawloom worktree commit",
        "\
Examples:
  drawloom worktree commit last                  commit what lies in all checkouts of the newest goal
  drawloom worktree commit last --checkout s1    commit one checkout",
    ),
    (
        "drawloom worktree remove",
        "\
Examples:
  drawloom worktree remove last         remove its checkouts, after a question
  drawloom worktree remove last --yes   remove them without asking",
    ),
];
