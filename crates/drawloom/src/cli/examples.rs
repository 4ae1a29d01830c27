//! Examples of every command, which its help shows. A test checks that none is missing and that each one parses.

mod goals;
mod stores;

/// The examples of a command, by its full name.
pub(super) fn find(path: &str) -> Option<&'static str> {
    EXAMPLES
        .iter()
        .chain(goals::EXAMPLES)
        .chain(stores::EXAMPLES)
        .find(|(name, _)| *name == path)
        .map(|(_, text)| *text)
}

const EXAMPLES: &[(&str, &str)] = &[
    (
        "drawloom init",
        "\
Examples:
  drawloom init                   write ./drawloom.yaml, after a few questions
  drawloom init --yes team.yaml   write team.yaml without questions",
    ),
    (
        "drawloom import",
        "\
Examples:
  drawloom import claude-code           report what would be imported
  drawloom import claude-code --write   import it",
    ),
    (
        "drawloom import claude-code",
        "\
Examples:
  drawloom import claude-code                           report what would be imported
  drawloom import claude-code --from ~/plugin --write   import a plugin",
    ),
    (
        "drawloom serve",
        "\
Examples:
  drawloom serve                        serve on the address of the config
  drawloom serve --listen 127.0.0.1:0   serve on a free port
  drawloom serve --log debug            log more",
    ),
    (
        "drawloom status",
        "\
Examples:
  drawloom status         show this project
  drawloom status --all   show all projects of this user",
    ),
    (
        "drawloom stop",
        "\
Examples:
  drawloom stop                stop the server of this project
  drawloom stop -c team.yaml   stop the server of another config",
    ),
    (
        "drawloom restart",
        "\
Examples:
  drawloom restart          restart the server, after a change of the config
  drawloom restart --json   print its address for a script",
    ),
    (
        "drawloom logs",
        "\
Examples:
  drawloom logs -n 20   show the last 20 lines
  drawloom logs -f      follow the log",
    ),
    (
        "drawloom projects list",
        "\
Examples:
  drawloom projects list          list all projects of this user
  drawloom projects list --json   list them for a script",
    ),
    (
        "drawloom projects rm",
        "\
Examples:
  drawloom projects rm shop         delete the data of the project shop, after a question
  drawloom projects rm shop --yes   delete it without a question",
    ),
    (
        "drawloom complete",
        "\
Examples:
  drawloom complete -- run ''   print the names of all agents",
    ),
    (
        "drawloom adopt",
        "\
Examples:
  drawloom status                                          find data without a project
  drawloom adopt ~/.local/share/drawloom/projects/shop-1   move it into this project
  drawloom adopt --none                                    begin with new data",
    ),
    (
        "drawloom mcp",
        "\
Examples:
  drawloom mcp install --client claude --write    connect Claude Code
  drawloom mcp --upstream http://127.0.0.1:8787   use a running server",
    ),
    (
        "drawloom mcp install",
        "\
Examples:
  drawloom mcp install                           list the hosts on this machine
  drawloom mcp install --client codex            print the config for Codex
  drawloom mcp install --client claude --write   write it into Claude Code's config",
    ),
    (
        "drawloom mcp uninstall",
        "\
Examples:
  drawloom mcp uninstall                           list the hosts that are connected
  drawloom mcp uninstall --client claude --write   remove the connection from Claude Code's config",
    ),
    (
        "drawloom run",
        "\
Examples:
  drawloom run reader 'Summarize README.md'   start a run and follow it
  git diff | drawloom run reviewer            read the prompt from stdin
  drawloom run reader 'Hello' --detach -q     start a run, print its id and return",
    ),
    (
        "drawloom batch",
        "\
Examples:
  drawloom batch reviews.yaml                     start the runs of a file; a rerun continues
  drawloom batch reviews.yaml --fresh             start all of them again
  drawloom batch --agent reader 'One' 'Two'       start a run for each prompt
  drawloom batch reviews.yaml --json > out.json   save the results, in the order of the file

File format (YAML or JSON):
  - { agent: reader, prompt: Summarize chapter 1 }
  - { agent: reader, prompt: Summarize chapter 2 }",
    ),
    (
        "drawloom runs",
        "\
Examples:
  drawloom runs list --active   list runs that have not ended
  drawloom runs show last       show the newest run
  drawloom runs cancel last     cancel it",
    ),
    (
        "drawloom runs wait",
        "\
Examples:
  drawloom runs wait last                 wait for the newest run
  drawloom runs wait b_01a1 -q            wait for all runs of a batch
  drawloom runs wait last --timeout 10m   wait for ten minutes at most",
    ),
    (
        "drawloom runs retry",
        "\
Examples:
  drawloom runs retry r_01a1              run a failed run once more and follow it
  drawloom runs retry last --completed    run the newest run once more although it completed",
    ),
    (
        "drawloom runs rm",
        "\
Examples:
  drawloom runs rm r_01a1         delete a run with its child runs, after asking
  drawloom runs rm b_01a1 --yes   delete a batch without asking",
    ),
    (
        "drawloom cost",
        "\
Examples:
  drawloom cost                           show what each agent cost
  drawloom cost --by model --since 7d     show what each model cost in the last seven days
  drawloom cost --by day --user ada       show what the runs of a user cost each day",
    ),
    (
        "drawloom runs cancel",
        "\
Examples:
  drawloom runs cancel last                         cancel the newest run
  drawloom runs cancel b_01a1 --reason 'too slow'   cancel all runs of a batch",
    ),
    (
        "drawloom artifacts",
        "\
Examples:
  drawloom artifacts list last                      list the artifacts of the newest run
  drawloom artifacts get last report.md --to r.md   download one",
    ),
    (
        "drawloom artifacts list",
        "\
Examples:
  drawloom artifacts list last                      list the artifacts of the newest run
  drawloom artifacts list r_01a1 --prefix review/   list those whose names start with review/",
    ),
    (
        "drawloom artifacts show",
        "\
Examples:
  drawloom artifacts show last report.md --lines 40    show the first 40 lines
  drawloom artifacts show last report.md --grep TODO   show matching lines
  drawloom artifacts show last journal                 show the journal of the run",
    ),
    (
        "drawloom artifacts get",
        "\
Examples:
  drawloom artifacts get last report.md                  print an artifact
  drawloom artifacts get last report.md --to report.md   save it to a file",
    ),
    (
        "drawloom evaluations list",
        "\
Examples:
  drawloom evaluations list last               list the evaluations of the newest run
  drawloom evaluations list last --latest      list only the newest of each tag
  drawloom evaluations list --def reviewer     list those of an agent's current definition",
    ),
    (
        "drawloom evaluations show",
        "\
Examples:
  drawloom evaluations show last --tag style   show the newest evaluation with this tag
  drawloom evaluations show e_… --json         show one by its id, as JSON",
    ),
    (
        "drawloom evaluations submit",
        "\
Examples:
  drawloom evaluations submit last 0.9                            evaluate the newest run
  drawloom evaluations submit last 0.8 -d style=0.7 --tag first   with a dimension and a tag",
    ),
    (
        "drawloom evaluations stats",
        "\
Examples:
  drawloom evaluations stats reviewer          compare the versions of an agent
  drawloom evaluations stats --def reviewer    show its current definition only",
    ),
    (
        "drawloom replay",
        "\
Examples:
  drawloom replay last            check the newest run
  drawloom replay r_01a1 --json   print every decision",
    ),
    (
        "drawloom agents",
        "\
Examples:
  drawloom agents list      list agents with their models and tools
  drawloom agents list -q   print only their names",
    ),
    (
        "drawloom agents list",
        "\
Examples:
  drawloom agents list           list agents with their models and tools
  drawloom agents list -o wide   show every column, uncut
  drawloom agents list -q        print only their names",
    ),
    (
        "drawloom agents show",
        "\
Examples:
  drawloom agents show reviewer          show the agent reviewer as it will run
  drawloom agents show reviewer --json   print it for a script",
    ),
    (
        "drawloom config show",
        "\
Examples:
  drawloom config show                              show every value and where it comes from
  drawloom config show -c base.yaml -c local.yaml   show two merged files",
    ),
    (
        "drawloom skills",
        "\
Examples:
  drawloom skills list              list skills and the agents that can load them
  drawloom skills show code-style   show the instructions of a skill",
    ),
    (
        "drawloom skills list",
        "\
Examples:
  drawloom skills list      list skills and the agents that can load them
  drawloom skills list -q   print only their names",
    ),
    (
        "drawloom skills show",
        "\
Examples:
  drawloom skills show code-style          show the instructions of a skill
  drawloom skills show code-style --json   also print its folder",
    ),
    (
        "drawloom models",
        "\
Examples:
  drawloom models list                      list models with their tiers and prices
  drawloom models list --remote anthropic   list the models of a provider",
    ),
    (
        "drawloom models list",
        "\
Examples:
  drawloom models list                      list models with their tiers and prices
  drawloom models list -o wide              show every column, uncut
  drawloom models list --remote anthropic   list the models of a provider",
    ),
    (
        "drawloom validate",
        "\
Examples:
  drawloom validate                     check the config of this folder
  drawloom validate base.yaml ci.yaml   check two files as one config",
    ),
    (
        "drawloom config",
        "\
Examples:
  drawloom config schema > drawloom.schema.json   save the schema for an editor",
    ),
    (
        "drawloom config schema",
        "\
Examples:
  drawloom config schema > drawloom.schema.json   save the schema for an editor",
    ),
    (
        "drawloom trust",
        "\
Examples:
  drawloom trust --show     show what the config can do
  drawloom trust            show it and ask
  drawloom trust --revoke   stop trusting it",
    ),
    (
        "drawloom doctor",
        "\
Examples:
  drawloom doctor          check config, data, server and machine
  drawloom doctor --keys   also check every API key with one call",
    ),
    (
        "drawloom backup",
        "\
Examples:
  drawloom backup monday.db          back up this project's store
  drawloom backup monday.db --json   print size and counts for a script",
    ),
    (
        "drawloom restore",
        "\
Examples:
  drawloom restore monday.db                    restore into an empty data directory
  drawloom restore monday.db --force --cancel   replace the store; cancel unfinished runs",
    ),
    (
        "drawloom prune",
        "\
Examples:
  drawloom prune --older-than 30d             show what would be deleted, then ask
  drawloom prune --older-than 12h --dry-run   only show it
  drawloom prune --older-than 30d --yes       delete without asking, for scripts",
    ),
    (
        "drawloom demo",
        "\
Examples:
  drawloom demo          run the demo
  drawloom demo --keep   run it and keep serving its API until Ctrl-C",
    ),
    (
        "drawloom call",
        "\
Examples:
  drawloom call                                    list all operations
  drawloom call list_runs limit=5                  call one
  drawloom call spawn_run agent=reader prompt=Hi   start a run and wait for it
  drawloom call spawn_runs --input batch.json      read the whole input from a file",
    ),
    (
        "drawloom completions",
        "\
Examples:
  drawloom completions bash > ~/.local/share/bash-completion/completions/drawloom
  drawloom completions zsh > \"${fpath[1]}/_drawloom\"",
    ),
    (
        "drawloom man",
        "\
Examples:
  drawloom man ./man1   write one page per command",
    ),
];
