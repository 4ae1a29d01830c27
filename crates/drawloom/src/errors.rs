//! Every error code with what it means and what to do: the reference page is made from this list, and a test looks in the
//! sources for codes that are missing here.

/// Where a code is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// In a run's result, once it was accepted.
    Run,
    /// In the answer to a request that was not accepted.
    Request,
    /// When a server starts, or cannot take more.
    Server,
    /// From the store.
    Store,
    /// From a client that reaches a server.
    Client,
    /// From a command.
    Command,
}

impl Group {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 6] = [Self::Run, Self::Request, Self::Server, Self::Store, Self::Client, Self::Command];

    /// Its title on the page.
    pub fn title(self) -> &'static str {
        match self {
            Self::Run => "Of runs",
            Self::Request => "Of requests",
            Self::Server => "Of the server",
            Self::Store => "Of the store",
            Self::Client => "Of clients",
            Self::Command => "Of commands",
        }
    }
}

/// An error code.
#[derive(Debug, Clone, Copy)]
pub struct ErrorCard {
    /// The code.
    pub code: &'static str,
    /// Where it is met.
    pub group: Group,
    /// What it means.
    pub means: &'static str,
    /// What to do.
    pub next: &'static str,
}

macro_rules! errors {
    ($($group:ident { $($code:literal: $means:literal, $next:literal;)* })*) => {
        /// All of them.
        pub static ERRORS: &[ErrorCard] =
            &[$($(ErrorCard { code: $code, group: Group::$group, means: $means, next: $next },)*)*];
    };
}

errors! {
    Run {
        "budget_exhausted": "The budget of the run's tree is spent, and not even a last turn could be paid.", "Raise `budget`, or ask for less.";
        "cancelled": "A caller stopped the run.", "Nothing, if that was meant; its reason is in the message.";
        "command_refused": "A command could not be confined as asked.", "`drawloom doctor` says what this machine can confine.";
        "command_unsendable": "A command has text that no process can be given.", "Use paths and values that are UTF-8 text.";
        "context_too_long": "The conversation does not fit the model.", "Ask for less, or use a model with a larger context.";
        "insecure_connection": "A host's certificate was not accepted.", "Check the address and the machine's clock.";
        "interrupted": "The step was in flight when the process ended, or Ctrl-C ended the command, or no process executes the run.", "A server resumes the run; for a command, see its hint.";
        "launcher_broken": "The process between drawloom and a command broke off.", "The run goes on; see the tool's result.";
        "launcher_not_started": "A command's launcher could not be started.", "Check that more processes may be started.";
        "model_auth": "The provider rejected the credential.", "Check the variable that `api_key_env` names; `drawloom doctor --keys` asks the provider.";
        "model_bad_request": "The provider does not understand the request.", "Check the model's name and the agent's settings.";
        "model_overloaded": "The provider has too much to do.", "Runs wait by themselves; list other models under `tiers` to fall back on.";
        "model_refused": "The model declined.", "Ask differently, or ask another model.";
        "model_stream_cut": "The model's stream ended before the turn did.", "The turn is tried again; if it persists, look at the network.";
        "model_unavailable": "The provider cannot be reached or failed inside.", "`drawloom doctor --keys` asks the provider; `user_tiers` can name others.";
        "no_address": "A host's name has no address.", "Check its spelling.";
        "parent_ended": "The run that spawned it ended.", "Look at the parent: `drawloom runs show`.";
        "port_denied": "A tool wanted a port that is not allowed.", "List it under `tools.http.ports`.";
        "private_address": "A host is at an address that is not public.", "The operator can except it under `tools.http.private_hosts`.";
        "quarantined": "The process died several times at the same step of this run.", "Look at its last step with `drawloom replay`, and start it anew.";
        "queue_timeout": "The run waited too long for its first slot.", "Raise `concurrency`, or send less at once.";
        "throttled": "The provider says \"slow down\".", "Runs wait by themselves; nothing fails for it.";
        "timeout": "The run's wall-clock limit is over.", "Raise `timeout_ms` or `run_timeout_seconds`.";
        "unknown_provider": "The provider is not in the config any more.", "Put it back under `providers`, or start the run anew.";
        "unknown_user_tier": "There is no user tier of that name.", "Define it under `user_tiers`, or leave `user_tier` out.";
        "unpriced_model": "A money budget is set, and the model has no price.", "Add its price under `pricing`, or use a token budget.";
        "unreadable": "The run's journal cannot be folded.", "Use the version that wrote it, or restore a backup.";
    }
    Request {
        "agent_id_in_use": "A live run has this handle.", "Pick another agent_id, or cancel the run that has it.";
        "backpressure": "The queue is full.", "Ask again later, or raise `max_queue_depth`.";
        "bad_authorization": "The Authorization header is not `Bearer TOKEN`.", "Send it in that form.";
        "bad_batch_size": "A batch has no run, or more than 32.", "Split it.";
        "bad_form": "A value does not have the form it must have.", "The message says which form.";
        "bad_from_seq": "The run has no record of that number.", "Use an id that the stream gave.";
        "bad_header": "A header is not text.", "Send plain text.";
        "bad_key": "A key of memory is empty, too long, or has a control character or a secret in it.", "Use a key of 1 to 512 bytes.";
        "bad_limit": "A bounded list would keep no entry, or too many.", "Ask for 1 to 10,000 entries.";
        "bad_path": "The path cannot be read.", "Check its escapes.";
        "bad_pattern": "What to search for is no regular expression.", "Escape characters such as ( [ * + ? with a backslash.";
        "bad_query": "The query cannot be read.", "Check its escapes.";
        "bad_range": "The text has no such line or byte.", "The message says how long it is.";
        "bad_time": "A time is not in RFC 3339.", "Write it like 2026-11-16T09:30:00Z.";
        "bad_ttl": "The time to live is zero, or longer than the config allows.", "Ask for a shorter time, or raise `memory.max_ttl_seconds`.";
        "bad_value": "A value is not one of those that are possible.", "The message lists them.";
        "body_too_slow": "The body did not come in time.", "Send it faster; 30 s is the limit.";
        "both_spellings": "A field and its other spelling are both there.", "Leave one of them out.";
        "broken_body": "The connection broke in the middle of the body.", "Send it again.";
        "child_exists": "The child of this call was started before.", "Nothing: it is the same child.";
        "conflict": "Another writer changed the run.", "Ask again.";
        "contradiction": "The path and the body say different things.", "Leave one of them out.";
        "empty_query": "A search names no word.", "Name a word with letters or digits.";
        "host_denied": "The Host header names no address of this server.", "Use the address that the server announced.";
        "idempotency_key_reused": "The key was used before with a different request.", "Use a new key for a new request.";
        "insufficient_scope": "The token may not do this.", "Add the scope to the principal, or use another token.";
        "invalid_json": "The body is not JSON.", "The message says where.";
        "invalid_request": "The request is not as it must be.", "The problems say where and how.";
        "key_busy": "A key of memory was changed by others again and again.", "Ask again.";
        "missing_key": "A field that must be there is not.", "Add it.";
        "more_problems": "There are more problems than are listed.", "Fix these first.";
        "artifact_too_large": "The artifact does not fit into the answer.", "Read it in parts with read_artifact.";
        "no_artifact": "The run has no such text, or its tree no such artifact.", "Wait for its end, read its journal, or list its artifacts.";
        "no_token": "The server wants a token.", "Send `Authorization: Bearer …`; commands read DRAWLOOM_TOKEN.";
        "not_built": "The field belongs to something that this version does not have.", "Leave it out.";
        "not_for_children": "A tool started a child with a user, session, handle or tier of its own.", "This is a fault of the tool: leave them out.";
        "number_overflow": "A number in memory would be too large.", "Set the key to a smaller number first.";
        "origin_denied": "A browser's page from elsewhere called an open server.", "Set a token, or call from the server's own page.";
        "content_type_denied": "A browser sent a body that is not JSON.", "Send `Content-Type: application/json`.";
        "out_of_range": "A number is too small or too large.", "The message says the limit.";
        "repeated": "Something is there twice.", "Leave one out.";
        "repeated_key": "A JSON object has a key twice.", "Leave one out.";
        "secret_agent_id": "The handle looks like a secret.", "Pick another agent_id.";
        "secret_user_id": "The user's name looks like a secret.", "Pick another user_id.";
        "session_busy": "Another run of the session is unfinished.", "Wait for it, cancel it, or leave session_id out.";
        "stopping": "The server is stopping.", "Ask again when it is back.";
        "too_deep": "The JSON is nested too deeply.", "Flatten it.";
        "too_large": "The body is longer than allowed.", "Send less.";
        "too_long": "A text or list is too long.", "The message says the limit.";
        "too_short": "A text or list is too short.", "The message says the limit.";
        "too_many_answers": "Too many large answers wait for their readers.", "Ask again later. If `retryable` is false, the request was carried out: read its result with GET.";
        "too_many_bodies": "Too many large bodies are held at once.", "Ask again later.";
        "too_many_searches": "Searches of long texts wait for their turn too long.", "Search again later.";
        "too_many_sessions": "Too many MCP sessions have a call in flight.", "End some with DELETE, or wait for their calls.";
        "toolset_not_asked": "The tool is in a toolset that the MCP client did not ask for.", "Connect with `--toolsets`, or `/mcp?toolsets=`.";
        "unexpected_body": "A GET has a body.", "Put the fields into the query.";
        "unexpected_field": "A field means nothing with the scope of memory that was named.", "Leave it out.";
        "unexpected_query": "A POST has a query.", "Put the fields into the body.";
        "unknown_executor": "The agent names an executor that this server does not have.", "Use one of those that the error lists.";
        "unknown_agent": "There is no agent of that name.", "`drawloom agents list` shows them.";
        "unknown_agent_id": "No run has this agent_id.", "`drawloom runs list` shows runs.";
        "unknown_batch": "There is no such batch here.", "Check its id; it may have been pruned.";
        "unknown_key": "A key is not known.", "The hint says what was probably meant.";
        "unknown_route": "There is nothing at that address.", "GET /v1/openapi.json lists every route.";
        "unknown_run": "There is no such run here.", "Check its id; it may have been pruned.";
        "unknown_session": "There is no such session.", "Leave session_id out to begin a new one.";
        "unknown_toolset": "There is no such set of MCP tools.", "The hint lists them.";
        "unknown_token": "The token is unknown.", "Check it.";
        "wrong_fields": "A change of memory has fields of another change.", "The message says which it takes.";
        "wrong_instance": "The request is meant for another server, which had this address before.", "Look again where the server is; `drawloom mcp` does it by itself.";
        "wrong_method": "The route has no such method.", "The hint says which it has.";
        "wrong_type": "A value has the wrong type.", "The message says which it must have.";
    }
    Server {
        "bad_listen": "The address to listen on cannot be read.", "Write it like 127.0.0.1:8787.";
        "bad_provider": "A provider cannot be opened.", "The message says which key of it.";
        "bug": "A mistake of ours.", "See the server's log for the request id, and report it.";
        "cannot_listen": "The address cannot be had.", "Another program may have the port; pass --listen.";
        "duplicate_operation": "Two operations of the process have one name.", "Rename the one that was added.";
        "duplicate_route": "Two operations of the process have one route.", "Change the route of the one that was added.";
        "empty_token": "A token's variable is set to nothing.", "Set it to a long random text, or unset it.";
        "bash_network_without_token": "Commands of agents reach the network, and the server would take calls without a token.", "Set DRAWLOOM_TOKEN, or tools.bash.network: none.";
        "no_entropy": "The operating system gives no random bytes.", "Allow the getrandom system call, or make /dev/urandom readable.";
        "no_idempotency_key": "An operation that was added changes something and takes no idempotency key.", "Add the field to its request.";
        "no_tokens": "Principals are configured, and none has its token.", "Set their variables.";
        "open_to_the_network": "Without a token the server listens on loopback only.", "Set DRAWLOOM_TOKEN, or listen on 127.0.0.1.";
        "same_token": "Two callers have the same token.", "Give each its own.";
        "too_many_connections": "The server has as many connections as it takes.", "Close some, or ask again later.";
    }
    Store {
        "lost_ownership": "Another process owns the data now.", "Stop one of them.";
        "over_quota": "The owner of a value would have more keys or bytes than its quota.", "Delete something first, or keep less.";
        "run_ended": "A tool's effect came after the end of its run, and was not made.", "Nothing: the run has its result.";
        "stale": "A value is not at the revision that the change expected.", "Read it again and decide anew.";
        "store_closed": "The store was closed.", "Ask again when the server is back.";
        "store_corrupt": "The store is damaged, or the file is not a store.", "Restore a backup.";
        "store_failed": "The database or the file system said no.", "See the message; `drawloom doctor` checks the data directory.";
        "store_full": "The disk is full, or the process may not make its files larger. Before the store's format changes there must be space for a copy of it.", "Free some space or raise `ulimit -f`; runs go on by themselves after that.";
        "store_gone": "The store's files were deleted or replaced while the server was using them; it records nothing any more.", "Stop the server, put the files back or restore a backup, and start it again.";
        "store_locked": "Another process has the store.", "Wait for it to end, or pass another --data-dir.";
        "store_read_only": "The store cannot be written.", "Make the data directory and all that is in it writable.";
        "store_too_new": "A newer version wrote the store.", "Use that version, or another --data-dir.";
        "value_too_large": "A value or a message is larger than 1 MiB.", "Split it, or keep a reference to it.";
    }
    Client {
        "answer_too_large": "An answer is longer than a client takes.", "Ask for less.";
        "bad_address": "The server's address cannot be read.", "Write it like http://127.0.0.1:8787.";
        "connection_broken": "The connection broke.", "Ask again; with an idempotency key nothing happens twice.";
        "event_too_large": "An event is longer than a client takes.", "Read the run instead of following it.";
        "http_setup": "The HTTP client cannot be made.", "See the message.";
        "line_too_long": "A message of an MCP host is longer than 16 MiB.", "Send less at once.";
        "no_connection": "No server answers at the address.", "Start `drawloom serve`, or check --url.";
        "not_drawloom": "What answers there is no drawloom server.", "Check --url.";
        "outcome_unknown": "The connection broke, and it is unknown whether the request was carried out.", "Find out before you ask again.";
        "refused": "The server refused, in words that this version does not know.", "Use the same version on both sides.";
        "server_not_started": "`drawloom mcp` could not start a server.", "The message says why; `serve.log` in the data directory has more.";
        "session_lost": "The server has lost an MCP session and opens no new one.", "Connect again.";
        "stream_cut": "A stream of events ended before its run.", "Follow it again: nothing is lost.";
        "too_many_calls": "An MCP host has more than 1,024 calls in flight, or 256 other requests.", "Wait for some; `spawn_runs` starts many runs with one call.";
        "unknown_answer": "An answer has an unknown form.", "Use the same version on both sides.";
        "unknown_operation": "There is no operation of that name.", "`drawloom call` lists them.";
        "upstream_away": "The server behind `drawloom mcp` did not come back in time.", "Start it; what was accepted goes on.";
        "upstream_denied": "The server behind `drawloom mcp` does not let it in.", "Set DRAWLOOM_TOKEN in the host's config for it.";
    }
    Command {
        "bad_config": "The config has mistakes.", "Each is listed with file, line and column.";
        "bad_data_dir": "The data directory cannot be used.", "Make it writable, or pass --data-dir.";
        "bad_field": "A field is not of the form key=value.", "Write it like that, or pass --input FILE.";
        "bad_file": "A file cannot be read.", "See the message.";
        "ambiguous_id": "Several runs or batches have an id that starts like this.", "Add more characters of the id; the message lists them.";
        "not_a_batch": "A run was given where a batch is needed.", "Give the id of a batch.";
        "not_a_run": "A batch was given where one run is needed.", "List its runs with `drawloom runs list --batch`.";
        "bad_line": "A line of a file to import is not an entry.", "Each line is an object as `memory export` writes it.";
        "bad_log_filter": "The log filter cannot be read.", "Write a level such as `info`.";
        "bad_prompt": "The prompt cannot be read, or is too long.", "See the message.";
        "bad_toolsets": "A toolset's name is empty.", "Write it like --toolsets core,runs.";
        "bad_trust_file": "The file that lists the configs you trust cannot be used.", "See the message; delete the file to start over.";
        "import_running": "Another import into the same config is running.", "Run the command again when it has ended.";
        "cannot_write": "A file cannot be written.", "Choose a writable folder.";
        "exists": "The file exists and was not replaced.", "Choose another name, or pass --force if the command has it.";
        "no_data": "The directory given to `drawloom adopt` contains no store.", "See what can be adopted with `drawloom status`.";
        "data_in_use": "The data belongs to an existing project.", "Copy it with `drawloom backup` and `drawloom restore`.";
        "has_data": "The project already has data, so it cannot adopt other data.", "Keep the two apart with --data-dir.";
        "cannot_move": "The data could not be moved into the project; nothing is lost.", "Fix the cause and run the command again, or use `drawloom backup` and `drawloom restore`.";
        "cannot_stop": "The server's process could not be stopped.", "Stop it with `kill` and the process id in the message.";
        "no_log": "The project has no log of a background server.", "Start one with `drawloom restart`; `drawloom serve` logs to its terminal.";
        "foreign_config": "A config that was found belongs to another user.", "Read it first; `--config FILE` uses it on purpose.";
        "in_use": "Another process owns the data directory.", "Use its server, wait, or pass another --data-dir.";
        "other_config": "The server of the data directory runs another config than this command found.", "Pass --data-dir to keep the two apart, stop that server, or pass --url to use it on purpose.";
        "conflicting_options": "Two options cannot be used together.", "Remove one of them.";
        "needs_server": "What was asked needs a server, and a command without one executes the run.", "Wait for that command.";
        "no_agent": "Several prompts were given and no agent.", "Add --agent.";
        "no_answer": "The command could not ask for confirmation: stdin ended or is not a terminal.", "Pass --yes.";
        "not_found": "What was named does not exist, or holds nothing to bring over.", "See the message.";
        "no_config": "No config was found.", "`drawloom init` writes one.";
        "no_data_dir": "There is no home directory to keep data in.", "Pass --data-dir.";
        "no_home": "There is no home directory in which hosts keep their config.", "Set HOME.";
        "no_pipe": "The process was started without stdin or stdout.", "Start it as an MCP host does, with pipes.";
        "no_plugin": "Only Claude Code takes the plugin.", "Use --client claude, or --write for another client.";
        "no_prompt": "No prompt was given.", "Pass one, or pipe it on stdin.";
        "no_remote_backup": "A server cannot be backed up over the network.", "Run `drawloom backup` on the server's machine.";
        "no_runtime": "The process cannot start its threads.", "Look at its limits.";
        "no_scope": "The MCP host has no config file of that scope.", "Use --scope user.";
        "no_temporary_directory": "No temporary directory can be made.", "Set TMPDIR.";
        "not_empty": "The data directory already has a store.", "Back it up and pass --force, or pass another --data-dir.";
        "secret_in_file": "A secret would be written into a config file as plain text.", "Set DRAWLOOM_TOKEN in the environment of the host in its place.";
        "unfinished_runs": "The backup has unfinished runs.", "Pass --resume or --cancel to `drawloom restore`.";
        "untrusted_config": "A config that was found can do things that you have not agreed to; nothing of it was started.", "`drawloom trust` shows what it can do and asks; `--yes` agrees without a question.";
    }
}
