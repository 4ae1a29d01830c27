//! Examples of the commands for what is stored between runs: memory, channels and definitions.

/// The examples of a command, by its full name.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
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
        "drawloom memory change",
        "\
Examples:
  drawloom memory change visits incr                          add 1 to a number
  drawloom memory change limits merge '{\"files\": 30}'       change one field of an object
  drawloom memory change seen append-dedupe a.rs              append to a list unless it is there",
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
        "drawloom channels nak",
        "\
Examples:
  drawloom channels nak jobs lse_12_3 --group workers   give one message back",
    ),
    (
        "drawloom channels extend",
        "\
Examples:
  drawloom channels extend jobs lse_12_3 --group ci --for 5m   keep a message longer",
    ),
    (
        "drawloom channels await",
        "\
Examples:
  drawloom channels await jobs news --wait 30s   wait until one of two channels has a message
  drawloom channels await jobs news --all        wait until both have one",
    ),
    (
        "drawloom channels broadcast",
        "\
Examples:
  drawloom channels broadcast 'stop now' jobs news   publish one message to two channels",
    ),
    (
        "drawloom channels update",
        "\
Examples:
  drawloom channels update jobs --max-messages 500   keep fewer messages
  drawloom channels update jobs --ttl none           keep messages until they are read",
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
  drawloom defs show writer@1   show a version",
    ),
    (
        "drawloom defs create",
        "\
Examples:
  echo '{description: Writes texts., tools: []}' > writer.yaml
  drawloom defs create writer writer.yaml                define an agent
  echo '{description: House style., instructions: Be brief.}' > style.yaml
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
];
