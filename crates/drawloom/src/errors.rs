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
            Self::Run => "Runs",
            Self::Request => "Requests",
            Self::Server => "Server",
            Self::Store => "Store",
            Self::Client => "Clients",
            Self::Command => "Commands",
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
        "bad_answer": "A planner or reviewer of a goal answered in another form than was asked, also when asked again.", "Choose another model for that role.";
        "workspace_failed": "A step of a goal in its repository failed; the message says which.", "Fix the cause and start the goal again; its branch and refs are kept.";
        "budget_limited": "A limit of a goal stopped it. What was done is on its branch.", "Raise the limit, or continue from the branch with another goal.";
        "stagnated": "Iterations of a goal changed neither files nor verify results.", "Read the reviewer's issues, and change the goal or its criteria.";
        "plan_declined": "The plan of a goal was not approved.", "Start the goal again with more detail.";
        "empty_output": "A role of a goal ended without any output.", "Look at its run; the goal tries again.";
        "role_refused": "A role of a goal could not be started.", "The message says why.";
        "invalid_goal": "The input of a goal cannot be read.", "Start goals with `orchestrate` or `drawloom goal run`.";
        "invalid_input": "The input of a run does not fit its executor.", "The message says what is wrong.";
        "bad_model": "The model of an agent on a coding CLI begins with `-`.", "Set `model` to a name that the CLI knows.";
        "bad_output": "A coding CLI ended without a result that could be read.", "Read the message; run the CLI by hand to see more.";
        "budget": "A coding CLI reached its maximum cost.", "Raise `max_cost` of the CLI, or give it a smaller task.";
        "budget_exhausted": "The budget of the run and its child runs is spent.", "Raise `budget`, or give it a smaller task.";
        "cancelled": "The run was cancelled.", "None needed; the message has the reason.";
        "cli_not_called": "A coding CLI could not be called.", "The message has the reason.";
        "command_refused": "The sandbox for a command could not be set up.", "Run `drawloom doctor`: it shows what this machine supports.";
        "command_unsendable": "A command contains text that cannot be passed to a process.", "Use paths and values that are UTF-8 text.";
        "context_too_long": "The conversation exceeds the context window of the model.", "Give it a smaller task, or use a model with a larger context window.";
        "crashed": "A coding CLI failed, after all retries.", "Read the message; run the CLI by hand to see more.";
        "foreign_directory": "A run on a coding CLI names a directory outside the checkouts of its own tree.", "Leave `directory` out to use the agent's volume.";
        "insecure_connection": "The TLS certificate of a host is not valid.", "Check the address and the clock of this machine.";
        "interrupted": "The step was in flight when the process ended, or Ctrl-C ended the command, or no process executes the run.", "A server resumes the run; for a command, see its hint.";
        "launcher_broken": "The helper process that runs a command exited.", "The run continues; see the result of the tool call.";
        "launcher_not_started": "The helper process for a command could not be started.", "Check the process limits of this machine.";
        "max_turns": "A coding CLI reached its maximum of turns.", "Give it a smaller task.";
        "model_auth": "The provider rejected the credential.", "Check the variable that `api_key_env` names; `drawloom doctor --keys` tests the key.";
        "model_without_tools": "The agent has tools, and its model cannot call any.", "Choose another model, or remove the tools of the agent.";
        "model_bad_request": "The provider rejected the request as invalid.", "Check the model name and the settings of the agent.";
        "model_overloaded": "The provider is overloaded.", "Runs retry automatically; list more models under `tiers` to fall back on.";
        "model_refused": "The model refused to answer.", "Change the prompt, or use another model.";
        "model_stream_cut": "The stream of the model ended early.", "The call is retried; if it keeps failing, check the network.";
        "model_unavailable": "The provider is unreachable or had an internal error.", "Run `drawloom doctor --keys`; list more models under `tiers` to fall back on.";
        "no_address": "A host name has no address.", "Check the spelling.";
        "no_such_mode": "A coding CLI has no way to run in the mode that was asked for.", "Use another mode, or set the arguments for it in `clis`.";
        "not_installed": "The program of a coding CLI was not found.", "Install it, or set `program` of the CLI.";
        "limit_exceeded": "The coding CLI used more memory or processes than it may.", "Raise the key that the message names, or give it less to do at once.";
        "not_isolated": "The mode skip_permissions was asked for outside an isolated checkout.", "Use the mode edit.";
        "not_private": "The machine has no namespaces, so the coding CLI cannot get a private copy of its state.", "Allow namespaces of users, or set `unconfined: true` of the CLI.";
        "not_logged_in": "A coding CLI has no valid login.", "Log in with the CLI as the user of the server, or set its variables.";
        "output_not_written": "The output of a process could not be written.", "Check that the directory exists and that the disk is not full.";
        "overloaded": "The model of a coding CLI was not available, after all retries.", "Try again later.";
        "parent_ended": "The parent run ended.", "See `drawloom runs show` with the id of the parent.";
        "permission_denied": "A coding CLI stopped because its own rules refused a tool call.", "Use another mode.";
        "port_denied": "A tool used a port that is not allowed.", "List it under `tools.http.ports`.";
        "private_address": "A host has a private address.", "List it under `tools.http.private_hosts`.";
        "quarantined": "The process died several times at the same step of this run.", "See its last step with `drawloom replay`, and start a new run.";
        "queue_timeout": "The run waited too long for its first slot.", "Raise `concurrency`, or start fewer runs at once.";
        "rate_limited": "A coding CLI is rate limited for longer than a run waits.", "Try again later, or use another CLI.";
        "read_only_volume": "A mode that changes files was asked for in a read-only volume.", "Use the mode read_only, or set the volume's mode to rw.";
        "throttled": "The provider limits the rate of calls.", "Runs wait and retry automatically.";
        "timed_out": "A coding CLI had not finished within its time limit.", "Raise `time_limit_seconds`, or give it less to do.";
        "timeout": "The run reached its time limit.", "Raise `timeout_ms` or `run_timeout_seconds`.";
        "unknown_cli": "The agent names a coding CLI that is not configured any more.", "Set `provider` of the agent to one of those in the message.";
        "unknown_provider": "The provider is not in the config any more.", "Add it under `providers`, or start a new run.";
        "unknown_user_tier": "Unknown user tier.", "Define it under `user_tiers`, or leave `user_tier` out.";
        "unmetered_backend": "The goal has a limit of cost or tokens, and the backend does not report them.", "Use `--max-agent-calls` (or `--max-tokens`), or choose another backend.";
        "unpriced_model": "A money budget is set, and the model has no price.", "Add its price under `pricing`, or use a token budget.";
        "unreadable": "The journal of the run cannot be read.", "Use the version that wrote it, or restore a backup.";
    }
    Request {
        "agent_as_worker": "An agent of the config cannot work in a goal's repository.", "Use a coding CLI or `model:NAME` as the worker.";
        "no_api_key": "The provider of a goal's model has no API key.", "Set the variable that `drawloom doctor` names.";
        "no_default_model": "A goal asks for the backend `model`, and the config has no default model.", "Write `model:NAME`, or set `defaults` in the config.";
        "unknown_model": "The config has no such model for the backend `model`.", "Write an alias, a tier or PROVIDER/MODEL; `drawloom goal backends` lists them.";
        "unknown_backend": "No backend of goals has this name.", "`drawloom goal backends` lists them.";
        "bad_cwd": "The directory of a goal cannot be used.", "Name a directory of a git repository on the server's machine, as an absolute path.";
        "cwd_denied": "Goals may not work in this directory.", "The operator lists directories under `goals.directories`.";
        "other_directory": "Another directory, or a link, is at the path of the goal's repository.", "Put the directory back, or start another goal with its real path.";
        "needs_acceptance": "The work changes files that make tools run something.", "Read them, then pass their paths in `accept` (`goal land --accept`).";
        "unclear_goal": "`last` was asked for outside of a repository, and there are goals of several.", "Name the goal, or run the command in its repository.";
        "needs_cwd": "An option of a goal needs a repository.", "Pass `cwd`.";
        "needs_verify": "`witness` and `protect` need verify commands.", "Pass `verify_commands`.";
        "bad_verify": "A verify command is empty.", "Remove it.";
        "bad_setup": "The setup command of a goal is empty.", "Leave it out to use `goals.setup`, or pass `true` to run nothing.";
        "goals_need_token": "A server without a token does not run programs for goals.", "Set a token, or use `drawloom goal run`.";
        "not_a_goal": "The run is not a goal.", "`orchestrate_list` lists goals.";
        "goal_running": "The goal has not ended.", "Wait for it, or cancel it.";
        "goal_ended": "The goal has ended, and nothing can be said to it.", "Go on from it: `drawloom goal resume GOAL --say TEXT`.";
        "goal_completed": "The goal is completed, and nothing was said that is missing.", "Pass `say` (`--say TEXT`).";
        "budget_used_up": "A limit of the ended goal is used up.", "Pass it for the new goal, such as `--max-iterations 3`.";
        "bad_resume": "Neither a token nor a goal was named, or both.", "Pass one of `token` and `run_id`.";
        "nothing_said": "The text for a goal is empty.", "Pass a text.";
        "too_much_said": "A goal takes no more texts.", "Cancel it, and resume it with one text that has it all.";
        "long_argument": "A command template has the prompt in an argument, which takes no more than 128 KiB, or about 2 MB with all others.", "Use `{prompt_file}`, or stdin.";
        "token_used": "The questions of the goal were already answered.", "Follow the goal with `orchestrate_tail`.";
        "no_branch": "The goal has no repository, or did not begin at a branch.", "Name a branch with `into`.";
        "not_kept_yet": "What the workers of a cancelled goal left is not committed yet.", "Read the result again later; the next start of the server tries again too.";
        "nothing_to_land": "The goal changed nothing.", "Look at its result.";
        "not_completed": "The goal was not completed, so its work is not landed.", "Look at its branch first; `unverified` lands it all the same.";
        "checkouts": "The directory of checkouts cannot be used.", "The message says why.";
        "not_a_repository": "The directory is not in a git repository.", "Run `git init` and commit, or name another directory.";
        "no_commit": "The repository has no commit.", "Commit something first.";
        "unknown_base": "The base is not a commit of the repository.", "Name a branch, tag or commit.";
        "git_too_old": "Git is older than 2.38.", "Install a newer one.";
        "incomplete_repository": "The repository is a partial clone and lacks files.", "Fetch them, or use a full clone.";
        "in_place": "The work of a goal without isolation is in the checkout already.", "Commit it there.";
        "in_place_denied": "A token of `principals` cannot let workers change a checkout itself.", "Leave `isolate` out.";
        "in_place_taken": "Another goal works in this checkout without isolation.", "Wait for it, or cancel it.";
        "not_clean": "Work without isolation begins with a clean checkout.", "Commit or stash your changes, or leave `--no-isolate` out.";
        "not_in_place": "The checkout cannot be changed without isolation; the message says why.", "Leave `--no-isolate` out.";
        "branch_exists": "The branch of the goal exists and belongs to something else.", "Rename or delete it.";
        "other_options": "The goal was prepared before with other options.", "Start another goal.";
        "missing_answers": "Some questions of a goal were not answered; its token stays valid.", "Answer every question; an empty answer leaves the choice to the team.";
        "ambiguous_goal": "Several goals have an id that begins so.", "Write more of the id.";
        "unknown_goal": "No goal has this id, or it has no checkouts here.", "Check the id: `drawloom goal list`.";
        "unknown_checkout": "The goal has no checkout of this name.", "`drawloom worktree list` lists them.";
        "unknown_commit": "The repository does not contain the commit.", "Check the id.";
        "unknown_branch": "The repository has no such branch.", "Check the name.";
        "branch_checked_out": "The branch is checked out, and is not changed.", "Use the git command in the message.";
        "branch_moved": "Another process moved the branch.", "Look at it, and try again.";
        "ref_taken": "A ref of the goal has another commit than expected.", "Another process changed it; start the goal again.";
        "not_protected": "Git did not write a protected file as the base has it.", "Report it with the repository's attributes and settings.";
        "checkout_damaged": "A state file of a checkout is damaged.", "Remove the goal's checkouts; its refs stay.";
        "checkout_file": "A file of a checkout cannot be read or written.", "The message says why.";
        "checkout_quota": "The goal uses more of the disk than it may.", "Remove old checkouts, or raise the quota.";
        "checkout_read_only": "The checkout is read-only.", "Use one of a worker.";
        "checkout_replaced": "A directory of ours was replaced by something else.", "Remove the goal's checkouts.";
        "checkout_unsaved": "A checkout has changes that are in no checkpoint.", "Commit them with `drawloom worktree commit`.";
        "disk_full": "Too little of the disk is free to go on.", "Free some space.";
        "git_failed": "A git command failed; the message has what git said.", "Fix the cause.";
        "git_stopped": "A git command did not finish.", "Try again; a very large repository may need more time.";
        "git_unexpected": "Git answered something unexpected.", "Check its version; 2.38 or newer is needed.";
        "included_too_large": "The files to include are too large.", "Include fewer.";
        "invalid_checkout_value": "A name or path of a checkout is not valid.", "The message says why.";
        "invalid_glob": "A glob is not valid.", "Correct it.";
        "no_ports": "All ports for checkouts are in use.", "End what uses them.";
        "setup_failed": "The setup command of a checkout failed.", "Its output is in the message.";
        "agent_id_in_use": "Another unfinished run has this agent_id.", "Use another agent_id, or cancel that run.";
        "agent_unusable": "The agent is defined but cannot run: no version is active, or it does not fit the config.", "Promote a version, or see `drawloom defs verify NAME`.";
        "agent_yaml_immutable": "The config defines an agent of this name.", "Fork it under another name, or edit the config.";
        "artifact_too_large": "The artifact does not fit into the answer.", "Read it in parts with read_artifact.";
        "backpressure": "The queue of runs is full.", "Retry later, or raise `max_queue_depth`.";
        "bad_authorization": "The Authorization header is not `Bearer TOKEN`.", "Send it in that form.";
        "bad_batch_size": "A batch is empty, or has more than 32 runs.", "Split it.";
        "bad_form": "A value has the wrong format.", "The message describes the format.";
        "bad_from_seq": "The run has no event with that id.", "Use an id from the stream.";
        "bad_header": "A header contains characters that are not text.", "Send plain text.";
        "bad_key": "A memory key is empty or too long, or contains a control character or a secret.", "Use a key of 1 to 512 bytes.";
        "bad_limit": "The limit of a list in memory is out of range.", "Use 1 to 10,000 entries.";
        "bad_name": "A definition, a tag or the name of a dimension cannot have this name: it is empty or too long, or has characters that it must not have.", "The message says what is allowed.";
        "bad_path": "The URL path cannot be decoded.", "Check its percent-encoding.";
        "bad_pattern": "The search pattern is not a valid regular expression.", "Escape characters such as ( [ * + ? with a backslash.";
        "bad_query": "The query string cannot be decoded.", "Check its percent-encoding.";
        "bad_range": "The line or byte is beyond the end of the text.", "The message says how long it is.";
        "bad_score": "A score is not a number from 0 to 1.", "Divide it by the highest score that can be reached.";
        "bad_time": "A time is not in RFC 3339 format.", "Write it like 2026-11-16T09:30:00Z.";
        "bad_ttl": "The time to live is zero, or longer than the config allows.", "Use a shorter time, or raise `memory.max_ttl_seconds`.";
        "bad_value": "A value is not one of the allowed ones.", "The message lists them.";
        "bad_version": "Not a version of a definition.", "Write NAME@VERSION.";
        "body_too_slow": "The request body took longer than 30 s.", "Send it faster, or send less.";
        "both_spellings": "A field is present under both of its names.", "Remove one of them.";
        "broken_body": "The connection broke while the body was sent.", "Retry.";
        "channel_busy": "A channel is changed by others all the time.", "Retry.";
        "channel_cursor_invalid": "The cursor is not one of this channel.", "Pass `next_cursor` of an answer.";
        "channel_cursor_regression": "The cursor is before the committed one.", "Read older messages with peek and `from_cursor`.";
        "channel_group_unknown": "The channel has no such consumer group.", "Pass the group whose subscribe returned the leases.";
        "channel_lease_invalid": "The lease is not one that a group subscribe returned.", "Pass `lease` of a message.";
        "channel_lease_lost": "The lease is over, and the message went to another member or was settled.", "Do not repeat its work; subscribe again.";
        "channel_name_in_use": "A channel of this name exists.", "Use update_channel, or another name.";
        "channel_name_invalid": "The name of a channel, consumer or group is invalid.", "The message says which characters are allowed.";
        "channel_not_declared": "Unknown channel.", "Add it under `channels`, or make it with create_channel.";
        "channel_scope_invalid": "The channel has another scope.", "The message names it.";
        "channel_setting_invalid": "A setting of the channel is out of range.", "The message says the limits.";
        "channel_yaml_immutable": "The channel comes from the config file.", "Change the file; purge_channel works at any time.";
        "child_exists": "This call has already started its child run.", "None needed: it is the same run.";
        "conflict": "Another process changed the run.", "Retry.";
        "content_type_denied": "A browser sent a body that is not JSON.", "Send `Content-Type: application/json`.";
        "contradiction": "The path and the body have different values for a field.", "Remove one of them.";
        "definition_busy": "Others kept changing the same definition.", "Try again.";
        "definition_exceeds_maker": "A definition asks for more than its maker may give.", "Ask for less; the message says what the operator would have to write.";
        "definition_too_large": "The source of a definition is longer than 256 KiB.", "Shorten the prompt or the files.";
        "empty_query": "The search has no words.", "Add a word with letters or digits.";
        "files_left_out": "A checkout has files that no commit takes, such as `.env`, and they would be lost.", "Copy them first, or pass `--discard`.";
        "host_denied": "The Host header is not an address of this server.", "Use the address that `drawloom status` shows.";
        "agent_not_allowed": "An agent may not spawn this agent.", "Add it to `agents` of the agent that spawns it.";
        "agent_not_defined": "The agent of a run that is to be retried is not defined any more.", "Define it again.";
        "already_retried": "The run was retried before.", "Retry the run that the message names, when it has ended.";
        "child_run": "A child run cannot be deleted alone.", "Delete its top-level run.";
        "completed": "The run completed.", "Pass `--completed` to run it once more all the same.";
        "never_started": "The child run was refused before it started and cannot be retried.", "Start the agent with `spawn_run`.";
        "goal_continued": "The goal was resumed already, and the goal that went on from it has ended or belongs to another user.", "Resume the goal that the message names.";
        "goals_unreadable": "The folder of goals cannot be listed, so the server does not know which runs belong to a goal with a branch.", "Make the folder readable.";
        "reserved_agent": "Agents named `drawloom/…` are parts of drawloom and cannot be started directly.", "Start a goal: `drawloom goal run`.";
        "run_of_goal": "Runs of a goal cannot be retried, and a goal with a branch, refs or a folder cannot be deleted.", "Go on from the goal: `drawloom goal resume GOAL`; before you delete it: `drawloom goal rm GOAL`.";
        "not_ended": "The run has not ended.", "Wait for it, or cancel it.";
        "not_waiting": "The call that started a child run does not wait for others any more.", "Retry the child run again; it becomes a run of its own.";
        "run_of_batch": "A run of a batch cannot be deleted alone.", "Delete the batch.";
        "answer_not_stored": "The request was carried out before, and its answer was too large to be stored for a repeat.", "Read what it made; do not send it with another key.";
        "idempotency_key_reused": "The key was used before with a different request.", "Use a new key for a new request.";
        "insufficient_scope": "The token lacks a scope.", "Add the scope to the principal, or use another token.";
        "invalid_definition": "The source of a definition has mistakes.", "Fix what the message lists; `verify_definition` lists all.";
        "invalid_json": "The body is not valid JSON.", "The message says where.";
        "invalid_request": "The request is invalid.", "`problems` lists each error with its place.";
        "key_busy": "A memory key or an evaluation is changed by others all the time.", "Retry.";
        "maker_without_power": "The maker of a definition is not known, or not in the config any more.", "A caller who may give what it has promotes it, or creates it again.";
        "missing_key": "A required field is missing.", "Add it.";
        "more_problems": "The list of problems is cut.", "Fix these first.";
        "needs_checkout": "`uncommitted` was given without a checkout.", "Name one; `drawloom worktree list` lists them.";
        "no_active_version": "The definition has no active version.", "Name a version.";
        "no_artifact": "The run has no such text or artifact.", "Wait until it ends, or list its artifacts.";
        "no_token": "The server requires a token.", "Send `Authorization: Bearer …`; commands read DRAWLOOM_TOKEN.";
        "not_built": "The field is not supported in this version.", "Remove it.";
        "not_for_children": "A tool set user, session, handle or tier of a child run.", "Fix the tool: child runs inherit these.";
        "not_the_owner": "An agent tried to change a definition that it did not make.", "Fork it under another name.";
        "number_overflow": "A number in memory would be too large.", "Set the key to a smaller number first.";
        "origin_denied": "A web page of another origin called a server without a token.", "Set a token, or call from the same origin.";
        "out_of_range": "A number is too small or too large.", "The message says the limit.";
        "repeated": "A value is in a list twice.", "Remove one.";
        "repeated_channel": "A channel is named twice.", "Name each channel once.";
        "number_too_large": "An integer in the input does not fit in 64 bits.", "Write it as text, or as a float.";
        "repeated_key": "A JSON object has a key twice.", "Remove one.";
        "secret_agent_id": "The agent_id looks like a secret.", "Use another agent_id.";
        "secret_user_id": "The user_id looks like a secret.", "Use another user_id.";
        "session_busy": "Another run of the session is unfinished.", "Wait for it, cancel it, or remove session_id.";
        "skill_yaml_immutable": "A folder of the config has a skill of this name.", "Use another name, or edit the folder.";
        "stopping": "The server is shutting down.", "Retry when it is back.";
        "too_deep": "The JSON is nested too deeply.", "Use fewer levels.";
        "too_large": "The body is longer than allowed.", "Send less.";
        "too_long": "A text or list is too long.", "The message says the limit.";
        "too_many_bytes": "The streams of this caller, or of all, hold too many bytes.", "Close streams that are not read, or read them, and try again.";
        "too_many_answers": "Too many large responses are waiting to be read.", "Retry later. If `retryable` is false, the request was carried out: read its result with GET.";
        "too_many_children": "A child run cannot be retried in its place: too many are queued, or its tree has too many runs.", "Retry later, or raise the limit.";
        "too_many_bodies": "Too many large requests at once.", "Retry later.";
        "too_many_dimensions": "An evaluation has too many dimensions.", "Combine some of them.";
        "too_many_evaluations": "The run has too many evaluations, or they are too large together.", "Submit with a tag: the same tag replaces the evaluation.";
        "too_many_searches": "Too many searches at once.", "Retry later.";
        "too_many_sessions": "Too many MCP sessions have a call in flight.", "End some with DELETE, or wait for their calls.";
        "too_many_versions": "The definition has 1,000 versions.", "Use another name.";
        "too_short": "A text or list is too short.", "The message says the limit.";
        "toolset_not_asked": "The tool is in a toolset that is not enabled.", "Connect with `--toolsets`, or `/mcp?toolsets=`.";
        "unexpected_body": "A GET request has a body.", "Put the fields into the query string.";
        "unexpected_field": "A field does not apply to this scope or op.", "Remove it.";
        "unexpected_query": "A POST request has a query string.", "Put the fields into the body.";
        "unknown_agent": "Unknown agent.", "See `drawloom agents list`.";
        "unknown_agent_id": "No run has this agent_id.", "See `drawloom runs list`.";
        "unknown_batch": "Unknown batch.", "Check its id; it may have been pruned.";
        "unknown_executor": "Unknown executor.", "Use one of those that the error lists.";
        "unknown_key": "Unknown key.", "The hint suggests the right one.";
        "unknown_route": "Unknown URL path.", "GET /v1/openapi.json lists every route.";
        "unknown_definition": "Unknown definition.", "See `drawloom defs ls`. For evaluations, pass the digest that runs show as `definition`, the name of an agent, or name@version.";
        "unknown_evaluation": "Unknown evaluation.", "Check its id; it may have been pruned with its run.";
        "unknown_run": "Unknown run.", "Check its id; it may have been pruned.";
        "unknown_session": "Unknown session.", "Remove session_id to start a new one.";
        "unknown_token": "The token is rejected.", "Check DRAWLOOM_TOKEN.";
        "unknown_toolset": "Unknown MCP toolset.", "The hint lists them.";
        "unknown_version": "The definition has no such version.", "See `drawloom defs ls NAME`.";
        "user_denied": "The token belongs to one user and cannot remove messages of another, by a purge or by a change of the channel.", "Leave `user_id` out, or use a token with the scope `runs:read:all`.";
        "version_retired": "The version is retired.", "Use another version, or take the retirement back.";
        "volume_yaml_immutable": "The config defines a volume of this name.", "Use another name, or edit the config.";
        "wrong_fields": "The fields do not fit the operation.", "The message lists those that do.";
        "wrong_instance": "Another server has this address now.", "Get the address from `drawloom status`.";
        "wrong_method": "The URL path does not support this method.", "The hint lists those that it supports.";
        "wrong_type": "A value has the wrong type.", "The message has the right one.";
    }
    Server {
        "bad_listen": "The listen address is invalid.", "Write it like 127.0.0.1:8787.";
        "bad_provider": "The config of a provider is invalid.", "The message names the key.";
        "bug": "An internal error.", "Find the request id in the server log, and report it.";
        "cannot_listen": "The server cannot listen on the address.", "Another program may use the port; pass another one with --listen.";
        "duplicate_operation": "Two operations have the same name.", "Rename the one that was added.";
        "duplicate_route": "Two operations have the same route.", "Change the route of the one that was added.";
        "empty_token": "The variable of a token is empty.", "Set it to a random value (`openssl rand -hex 32`), or unset it.";
        "weak_token": "A token has fewer than 22 characters, or fewer than 8 different ones, so it can be guessed.", "Make one with `openssl rand -hex 32`.";
        "bash_network_without_token": "Commands of agents can reach the network, and the server would accept calls without a token.", "Set DRAWLOOM_TOKEN, or tools.bash.network: none.";
        "cli_without_token": "Agents run coding CLIs, which could call the server without a token.", "Set DRAWLOOM_TOKEN, or use `drawloom run`.";
        "no_entropy": "The operating system provides no random bytes.", "Allow the getrandom system call, or make /dev/urandom readable.";
        "no_idempotency_key": "An added operation changes something and has no idempotency key.", "Add the field to its request.";
        "no_tokens": "Principals are configured, but none of their tokens is set.", "Set their variables.";
        "open_to_the_network": "Without a token the server listens on loopback only.", "Set DRAWLOOM_TOKEN, or listen on 127.0.0.1.";
        "same_token": "Two callers have the same token.", "Give each its own.";
        "too_many_connections": "The limit of connections is reached.", "Close some, or retry later.";
    }
    Store {
        "lost_ownership": "Another process owns the data now.", "Stop one of them.";
        "over_quota": "The quota of keys or bytes is reached.", "Delete entries, or store less.";
        "run_ended": "The run has ended, so a late change was not made.", "None needed: the run has its result.";
        "stale": "A value is not at the revision that the change expected.", "Read it again and retry.";
        "store_closed": "The store is closed.", "Retry when the server is back.";
        "store_corrupt": "The store is damaged, or the file is not a store.", "Restore a backup.";
        "store_failed": "The database or the file system reported an error.", "See the message; `drawloom doctor` checks the data directory.";
        "store_full": "The disk is full, or the process may not make its files larger. Before the store's format changes there must be space for a copy of it.", "Free some space or raise `ulimit -f`; runs continue afterwards.";
        "store_gone": "The store's files were deleted or replaced while the server was using them; it records nothing any more.", "Stop the server, put the files back or restore a backup, and start it again.";
        "store_locked": "Another process is using the store.", "Wait until it ends, or pass another --data-dir.";
        "store_read_only": "The store cannot be written.", "Make the data directory and its files writable.";
        "store_too_new": "A newer version wrote the store.", "Use that version, or another --data-dir.";
        "value_too_large": "A value or a message is larger than 1 MiB.", "Split it, or keep a reference to it.";
    }
    Client {
        "answer_too_large": "A response is larger than the client accepts.", "Request less.";
        "bad_address": "The server URL is invalid.", "Write it like http://127.0.0.1:8787.";
        "connection_broken": "The connection broke.", "Retry; with an idempotency key nothing happens twice.";
        "event_too_large": "An event is larger than the client accepts.", "Use `drawloom runs show` instead.";
        "http_setup": "The HTTP client could not be set up.", "See the message.";
        "line_too_long": "A message of an MCP host is longer than 16 MiB.", "Send less at once.";
        "no_connection": "No server answers at the address.", "Start `drawloom serve`, or check --url.";
        "not_drawloom": "The server at this address is not a drawloom server.", "Check --url.";
        "outcome_unknown": "The connection broke, and the server may or may not have carried out the request.", "Check before you retry.";
        "refused": "The server refused with an unknown error.", "Use the same version on both sides.";
        "server_not_started": "`drawloom mcp` could not start a server.", "The message says why; `serve.log` in the data directory has more.";
        "session_lost": "The server lost an MCP session and rejects a new one.", "Connect again.";
        "stream_cut": "A stream of events ended before its run.", "Follow it again; nothing is lost.";
        "too_many_calls": "An MCP host has more than 1,024 calls in flight, or 256 other requests.", "Wait for some; `spawn_runs` starts many runs with one call.";
        "unknown_answer": "A response has an unknown format.", "Use the same version on both sides.";
        "unknown_operation": "Unknown operation.", "`drawloom call` lists them.";
        "upstream_away": "The server behind `drawloom mcp` did not come back in time.", "Start it; accepted runs continue.";
        "upstream_denied": "The server behind `drawloom mcp` rejected the token.", "Set DRAWLOOM_TOKEN in the environment of the host.";
    }
    Command {
        "bad_goal": "The goal cannot be read from its file or stdin.", "The message says why.";
        "no_goal": "No goal was given.", "Pass one, or pipe it on stdin.";
        "no_goals": "The project has no goals yet.", "Start one with `drawloom goal run`.";
        "bad_cost": "The cost is not a number from 0 up.", "Write it like 1.50.";
        "bad_config": "The config has errors.", "Each is listed with file, line and column.";
        "bad_data_dir": "The data directory cannot be used.", "Make it writable, or pass --data-dir.";
        "bad_field": "A field is not in the form key=value.", "Use that form, or pass --input FILE.";
        "bad_file": "A file cannot be read.", "See the message.";
        "ambiguous_id": "Several ids start like this.", "Type more characters; the message lists the ids.";
        "not_a_batch": "A run was given where a batch is needed.", "Give the id of a batch.";
        "not_a_run": "A batch was given where one run is needed.", "List its runs with `drawloom runs list --batch`.";
        "bad_line": "A line of the imported file is not valid.", "Each line must be an object as `memory export` prints it.";
        "bad_log_filter": "The log filter is invalid.", "Write a level such as `info`.";
        "bad_prompt": "The prompt cannot be read, or is too long.", "See the message.";
        "bad_toolsets": "The name of a toolset is invalid.", "Write it like --toolsets core,runs.";
        "bad_trust_file": "The list of trusted configs cannot be used.", "See the message; delete the file to start over.";
        "import_running": "Another import into the same config is running.", "Run the command again when it has ended.";
        "cannot_write": "A file cannot be written.", "Choose a writable folder.";
        "exists": "The file exists and was not replaced.", "Choose another name, or pass --force if the command has it.";
        "no_data": "The directory given to `drawloom adopt` contains no store.", "See what can be adopted with `drawloom status --all`.";
        "entry_of_others": "The entry in the host's config was not written by `drawloom mcp install`.", "Remove it by hand.";
        "cannot_remove": "A file or directory cannot be deleted.", "Fix what the message names, and run the command again.";
        "unknown_project": "No project has this name, config or data directory.", "See `drawloom projects list`.";
        "ambiguous_project": "Several projects have this name.", "Name one by its data directory.";
        "data_in_use": "The data belongs to an existing project.", "Copy it with `drawloom backup` and `drawloom restore`.";
        "has_data": "The project has used data of its own, so it cannot adopt other data.", "The message has the command for each choice.";
        "project_moved": "The folder of the project was moved, and its runs are in the data directory of the old place.", "Move them here with `drawloom adopt DIR`, or begin with new data: `drawloom adopt --none`.";
        "cannot_move": "The data could not be moved into the project; nothing is lost.", "Fix the cause and run the command again, or use `drawloom backup` and `drawloom restore`.";
        "cannot_stop": "The server's process could not be stopped.", "Stop it with `kill` and the process id in the message.";
        "no_log": "The project has no log of a background server.", "Start one with `drawloom restart`; `drawloom serve` logs to its terminal.";
        "foreign_config": "The config belongs to another user.", "Read it, then pass it with `--config FILE`.";
        "in_use": "Another process owns the data directory.", "Use its server, wait, or pass another --data-dir.";
        "other_config": "The server of the data directory uses another config.", "Pass another --data-dir, stop that server, or pass --url to use it.";
        "conflicting_options": "Two options cannot be used together.", "Remove one of them.";
        "needs_server": "This needs a server, but the run belongs to a command without one.", "Wait for that command.";
        "no_agent": "Prompts were given without an agent.", "Add --agent.";
        "no_answer": "The command could not ask for confirmation: stdin ended or is not a terminal.", "Pass --yes.";
        "not_found": "The item does not exist, or the folder contains nothing to import.", "Check the name or the folder in the message.";
        "no_config": "No config was found.", "`drawloom init` writes one.";
        "no_data_dir": "No home directory for the data.", "Pass --data-dir.";
        "no_home": "No home directory for the config of MCP hosts.", "Set HOME.";
        "no_pipe": "The process was started without stdin or stdout.", "Start it as an MCP host does, with pipes.";
        "no_plugin": "The plugin is for Claude Code only.", "Use --client claude, or --write for another client.";
        "no_prompt": "No prompt was given.", "Pass one, or pipe it on stdin.";
        "no_remote_backup": "A server cannot be backed up over the network.", "Run `drawloom backup` on the server's machine.";
        "no_runtime": "The process cannot start threads.", "Check its limits.";
        "no_scope": "The MCP host has no config file of that scope.", "Use --scope user.";
        "no_temporary_directory": "A temporary directory cannot be created.", "Set TMPDIR.";
        "not_empty": "The data directory already has a store.", "Back it up and pass --force, or pass another --data-dir.";
        "secret_in_file": "A secret would be written into a config file as plain text.", "Set DRAWLOOM_TOKEN in the environment of the host instead.";
        "unfinished_runs": "The backup has unfinished runs.", "Pass --resume or --cancel to `drawloom restore`.";
        "wait_timeout": "The runs had not ended within --timeout; they continue.", "Wait again, or cancel them.";
        "untrusted_config": "The config is not trusted yet; nothing was started.", "Run `drawloom trust`: it shows what the config can do and asks; `--yes` skips the question.";
    }
}
