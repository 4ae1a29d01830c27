//! Examples of every command, which its help shows. A test checks that none is missing and that each one parses.

mod goals;

/// The examples of a command, by its full name.
pub(super) fn find(path: &str) -> Option<&'static str> {
    EXAMPLES.iter().chain(goals::EXAMPLES).find(|(name, _)| *name == path).map(|(_, text)| *text)
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
        "drawloom adopt",
        "\
Examples:
  drawloom status                                          find data without a project
  drawloom adopt ~/.local/share/drawloom/projects/shop-1   move it into this project",
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
        "drawloom memory get",
        "\
Examples:
  drawloom memory get style                    show your own value
  drawloom memory get style --agent reviewer   show the value of an agent
  drawloom memory get style --provenance       also show who wrote it",
    ),
    (
        "drawloom memory set",
        "\
Examples:
  drawloom memory set style short              store a text
  drawloom memory set limits '{\"files\": 20}'   store JSON
  drawloom memory set note hello --ttl 30d     store a value for 30 days",
    ),
    (
        "drawloom memory list",
        "\
Examples:
  drawloom memory list                    list your keys
  drawloom memory list review: --tenant   list shared keys that start with review:
  drawloom memory list -q                 print only the keys",
    ),
    (
        "drawloom memory rm",
        "\
Examples:
  drawloom memory rm style                  delete a key
  drawloom memory rm a b --agent reviewer   delete two keys of an agent",
    ),
    (
        "drawloom memory search",
        "\
Examples:
  drawloom memory search 'lock timeout'             find entries with both words
  drawloom memory search '\"race condition\" retr*'   find a phrase and the start of a word",
    ),
    (
        "drawloom memory watch",
        "\
Examples:
  drawloom memory watch              show changes of your memory
  drawloom memory watch --run last   show changes of the newest run's memory",
    ),
    (
        "drawloom memory export",
        "\
Examples:
  drawloom memory export > memory.jsonl                   save your memory
  drawloom memory export --agent reviewer > agent.jsonl   save an agent's memory",
    ),
    (
        "drawloom memory import",
        "\
Examples:
  drawloom memory import memory.jsonl                   write the entries of a file
  drawloom memory import agent.jsonl --agent reviewer   write them into an agent's memory",
    ),
    (
        "drawloom channels list",
        "\
Examples:
  drawloom channels list         list all channels
  drawloom channels list exp3-   list channels that start with exp3-
  drawloom channels list -q      print only the names",
    ),
    (
        "drawloom channels create",
        "\
Examples:
  drawloom channels create jobs                          make a queue for the whole tenant
  drawloom channels create news --broadcast              deliver every message to every consumer
  drawloom channels create ticks --max-messages 100      keep 100 messages",
    ),
    (
        "drawloom channels publish",
        "\
Examples:
  drawloom channels publish jobs '{\"file\": \"a.rs\"}'   publish JSON
  drawloom channels publish jobs hello --after 10m      make the message visible in ten minutes
  drawloom channels publish inbox hello --user ann      publish for a user",
    ),
    (
        "drawloom channels read",
        "\
Examples:
  drawloom channels read jobs                   take the next messages
  drawloom channels read jobs --wait 30s        wait for a message
  drawloom channels read jobs --peek            read without taking
  drawloom channels read jobs --group workers   read under a lease",
    ),
    (
        "drawloom channels ack",
        "\
Examples:
  drawloom channels ack jobs cur_12                             acknowledge up to a cursor
  drawloom channels ack jobs --group workers --lease lse_12_3   acknowledge one message",
    ),
    (
        "drawloom channels tail",
        "\
Examples:
  drawloom channels tail jobs         show new messages
  drawloom channels tail jobs --all   start with the messages that the channel has",
    ),
    (
        "drawloom channels purge",
        "\
Examples:
  drawloom channels purge jobs               remove all messages
  drawloom channels purge inbox --user ann   remove the messages of a user",
    ),
    (
        "drawloom channels rm",
        "\
Examples:
  drawloom channels rm jobs   delete a channel with its messages",
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
        "drawloom defs ls",
        "\
Examples:
  drawloom defs ls                list what is defined
  drawloom defs ls writer         list the versions of an agent
  drawloom defs ls --kind skill   list skills",
    ),
    (
        "drawloom defs show",
        "\
Examples:
  drawloom defs show writer     show the active version
  drawloom defs show writer@2   show another version",
    ),
    (
        "drawloom defs create",
        "\
Examples:
  drawloom defs create writer writer.yaml                define an agent
  drawloom defs create style style.yaml --kind skill     define a skill
  drawloom defs create writer writer.yaml --no-promote   do not use it for new runs yet",
    ),
    (
        "drawloom defs fork",
        "\
Examples:
  drawloom defs fork writer --set max_iterations=8 --promote   change a field and use it
  drawloom defs fork writer --name writer-short                start another agent from it",
    ),
    (
        "drawloom defs diff",
        "\
Examples:
  drawloom defs diff writer@1 writer@2   compare two versions
  drawloom defs diff writer@1 writer     compare with the active version",
    ),
    (
        "drawloom defs promote",
        "\
Examples:
  drawloom defs promote writer@2                use version 2 for new runs
  drawloom defs promote style@1 --kind skill    use an older version of a skill",
    ),
    (
        "drawloom defs retire",
        "\
Examples:
  drawloom defs retire writer@1          take version 1 out of use
  drawloom defs retire writer@1 --undo   take that back",
    ),
    (
        "drawloom defs verify",
        "\
Examples:
  drawloom defs verify writer writer.yaml   check a file before you create it
  drawloom defs verify writer               check the active version with today's config",
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
