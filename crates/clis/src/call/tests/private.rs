//! The private copy of a CLI's state: what a process gets, what comes back, and that no renewed login and no session is lost.

use drawloom_testkit::files::appears;

use super::*;

/// All files below a directory, with what is in them.
fn contents(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        match path.is_dir() {
            true => found.extend(contents(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text))),
            false => _ = found.insert(name, fs::read_to_string(path).expect("a text")),
        }
    }
    found
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

/// The login of Codex, as it writes it.
fn auth(account: &str, token: &str, second: u32) -> String {
    format!(
        "{{\n  \"OPENAI_API_KEY\": null,\n  \"tokens\": {{\"account_id\": \"{account}\", \"refresh_token\": \"{token}\"}},\n  \
         \"last_refresh\": \"1970-01-01T00:00:{second:02}Z\"\n}}"
    )
}

/// Has the script write the login.
fn renew(account: &str, token: &str, second: u32) -> String {
    format!("printf '%s' '{}' > $CODEX_HOME/auth.json", auth(account, token, second))
}

fn token_of(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("the login");
    let login: Value = serde_json::from_str(&text).expect("JSON");
    login["tokens"]["refresh_token"].as_str().expect("a token").to_owned()
}

impl Machine {
    fn codex_home(&self) -> PathBuf {
        self.at("home/.codex")
    }

    /// A user of Codex, with a login, settings, and work of another project.
    fn with_codex(self) -> Self {
        let home = self.codex_home();
        put(&home.join("auth.json"), &auth("me", "first", 1));
        put(&home.join("config.toml"), "model = \"m\"\n");
        put(&home.join("hooks.json"), "{}");
        put(&home.join("prompts/mine.md"), "a prompt");
        put(&home.join("history.jsonl"), "private history");
        put(&home.join("sessions/2026/01/02/rollout-x-other.jsonl"), "private session");
        self
    }

    async fn until(&self, file: &str) {
        let path = self.checkout().join(file);
        tokio::time::timeout(Duration::from_secs(60), appears(&path)).await.expect("the process gets there");
    }
}

/// What the script waits for.
fn wait(what: &str) -> String {
    format!("while ! {what}; do sleep 0.02; done")
}

#[tokio::test]
async fn settings_stay_the_users_and_the_renewed_login_and_the_session_come_back() {
    let machine = Machine::new().with_codex();
    let before = contents(&machine.codex_home());
    let script = format!(
        "cat $CODEX_HOME/history.jsonl $CODEX_HOME/sessions/*/*/*/*other* 2>/dev/null; cat $CODEX_HOME/prompts/mine.md >&2; \
         echo 'mcp_servers = 1' > $CODEX_HOME/config.toml; echo evil > $CODEX_HOME/hooks.json; echo evil > $CODEX_HOME/prompts/mine.md; \
         echo evil > $CODEX_HOME/prompts/new.md; echo evil > $CODEX_HOME/AGENTS.md; mkdir -p $CODEX_HOME/sessions/2026/01/02; \
         echo evil > $CODEX_HOME/sessions/2026/01/02/rollout-x-other.jsonl; echo mine > $CODEX_HOME/sessions/2026/01/02/rollout-x-thread-1.jsonl; \
         ln -s $CODEX_HOME/hooks.json $CODEX_HOME/sessions/2026/01/02/rollout-y-thread-1.jsonl; \
         {}; {}",
        renew("me", "second", 2),
        codex("thread-1", "done", 1)
    );
    let tool = machine.tool(&script, preset());
    let reply = machine.call(&tool, json!({ "directory": machine.checkout() })).await.expect("it runs");
    assert_eq!((reply.text.as_str(), &reply.problem), ("done", &None));
    let mut expected = before;
    expected.insert("auth.json".into(), auth("me", "second", 2).replace(": {\"account_id\": ", ": {\"account_id\":"));
    expected.insert("sessions/2026/01/02/rollout-x-thread-1.jsonl".into(), "mine\n".into());
    let mut found = contents(&machine.codex_home());
    let compact = |text: &mut String| *text = text.replace(": ", ":").replace(", ", ",");
    found.values_mut().for_each(compact);
    expected.values_mut().for_each(compact);
    assert_eq!(found, expected);
    assert_eq!(fs::read_dir(machine.at("clis/copies")).expect("the copies").count(), 0, "no copy is left");
}

#[tokio::test]
async fn claude_code_gets_no_mcp_servers_and_only_its_login_comes_back() {
    let machine = Machine::new();
    let home = machine.at("home");
    let main = "{\n  \"mcpServers\": {\"mine\": {\"env\": {\"KEY\": \"private\"}}},\n  \"oauthAccount\": {\"accountUuid\": \"a\"},\n  \
                \"projects\": {\"/other\": {}},\n  \"unknown\": 1.50\n}";
    let login = "{\"claudeAiOauth\":{\"refreshToken\":\"first\",\"expiresAt\":1000},\"mcpOAuth\":{\"s\":\"private\"}}";
    put(&home.join(".claude.json"), main);
    put(&home.join(".claude/.credentials.json"), login);
    put(&home.join(".claude/settings.json"), "{}");
    put(&home.join(".claude/projects/-other/old.jsonl"), "private session");
    let id = "11111111-2222-4333-8444-555555555555";
    let slug = |path: &Path| path.to_string_lossy().replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    let checkout = machine.checkout().canonicalize().expect("the checkout");
    let script = format!(
        "cd $CLAUDE_CONFIG_DIR; cat .claude.json .credentials.json settings.json > $OLDPWD/seen; \
         cat projects/-other/* >> $OLDPWD/seen; \
         echo '{{\"hooks\":{{\"SessionStart\":[]}}}}' > settings.json; mkdir -p projects/-other projects/{slug}; \
         echo evil > projects/-other/{id}.jsonl; echo evil > projects/{slug}/other.jsonl; echo mine > projects/{slug}/{id}.jsonl; \
         echo '{{\"mcpServers\":{{\"evil\":{{}}}},\"oauthAccount\":{{\"accountUuid\":\"a\",\"name\":\"n\"}}}}' > .claude.json; \
         echo '{{\"claudeAiOauth\":{{\"refreshToken\":\"second\",\"expiresAt\":2000}},\"mcpOAuth\":{{}}}}' > .credentials.json; \
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"session_id\":\"{id}\",\"result\":\"done\"}}'",
        slug = slug(&checkout),
    );
    let tool = machine.tool_of("claude", &script, json!({ "preset": "claude_code" }));
    let input = json!({ "directory": checkout, "session": { "new": { "new": id } } });
    assert_eq!(machine.call(&tool, input).await.expect("it runs").text, "done");
    let seen = fs::read_to_string(checkout.join("seen")).expect("what it saw");
    assert!(seen.contains("accountUuid") && seen.contains("refreshToken"), "{seen}");
    assert!(!seen.contains("private") && !seen.contains("projects"), "{seen}");
    let found = contents(&home);
    assert_eq!(
        found[".claude.json"],
        main.replace("{\"accountUuid\": \"a\"}", "{\"accountUuid\":\"a\",\"name\":\"n\"}")
    );
    let renewed = login
        .replace("{\"refreshToken\":\"first\",\"expiresAt\":1000}", "{\"expiresAt\":2000,\"refreshToken\":\"second\"}");
    assert_eq!(found[".claude/.credentials.json"], renewed);
    let session = format!(".claude/projects/{}/{id}.jsonl", slug(&checkout));
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let mut expected = [
        ".claude.json",
        ".claude/.credentials.json",
        ".claude/projects/-other/old.jsonl",
        ".claude/settings.json",
        &session,
    ];
    expected.sort_unstable();
    assert_eq!((names.as_slice(), found[".claude/settings.json"].as_str()), (expected.as_slice(), "{}"));
}

#[tokio::test]
async fn nothing_comes_back_to_another_account_a_removed_login_or_from_an_impossible_time() {
    for (users, renewed, expected) in [
        (Some(auth("you", "yours", 1)), renew("me", "second", 2), Some("yours")),
        (None, renew("me", "second", 2), None),
        (Some(auth("me", "first", 1)), renew("you", "second", 2), Some("first")),
        (Some(auth("me", "first", 1)), renew("me", "second", 2).replace("1970", "9999"), Some("first")),
        (Some(auth("me", "newer", 9)), renew("me", "second", 2), Some("newer")),
        (Some(auth("me", "older", 1)), renew("me", "second", 2), Some("second")),
    ] {
        let machine = Machine::new().with_codex();
        let script = format!("{renewed}; touch renewed; {}; {}", wait("[ -e go ]"), codex("thread-1", "done", 1));
        let mut tool = machine.tool(&script, preset());
        // An early comparison would hide what the last one does.
        tool.parts.clock = Arc::new(Stopped(TestClock::default()));
        let input = json!({ "directory": machine.checkout() });
        let beside = async {
            machine.until("renewed").await;
            let path = machine.codex_home().join("auth.json");
            match &users {
                Some(text) => fs::write(path, text).expect("a file"),
                None => fs::remove_file(path).expect("it is removed"),
            }
            fs::write(machine.checkout().join("go"), "").expect("a file");
        };
        let (reply, ()) = tokio::join!(machine.call(&tool, input), beside);
        assert_eq!(reply.expect("it runs").text, "done");
        let path = machine.codex_home().join("auth.json");
        assert_eq!(path.exists().then(|| token_of(&path)).as_deref(), expected, "{users:?}");
    }
}

/// A clock by which the files are never compared while a process runs.
struct Stopped(TestClock);

#[async_trait]
impl drawloom_contract::time::Clock for Stopped {
    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        self.0.now()
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        if time.since(self.0.now()) > EXCHANGE_EVERY {
            self.0.sleep_until(time).await;
        }
        std::future::pending().await
    }
}

#[tokio::test]
async fn two_workers_at_once_hand_each_other_a_renewed_login() {
    let machine = Machine::new().with_codex();
    let has = |token: &str| wait(&format!("grep -q {token} $CODEX_HOME/auth.json"));
    // One renews what it began with, the other what the first one renewed; the first one ends last.
    let script = format!(
        "case $(cat) in *First*) {}; {}; touch first;; *) {}; {}; touch second; {};; esac; {}",
        renew("me", "second", 2),
        has("third"),
        has("second"),
        renew("me", "third", 3),
        wait("[ -e first ]"),
        codex("thread-1", "done", 1),
    );
    let tool = machine.tool(&script, preset());
    let input = |prompt: &str| json!({ "prompt": prompt, "directory": machine.checkout() });
    let mut second = machine.context();
    second.call = 3;
    let both =
        async { tokio::join!(machine.call(&tool, input("First")), machine.call_in(&second, &tool, input("Second"))) };
    let (first, second) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("both see the newest");
    assert_eq!((first.expect("it runs").problem, second.expect("it runs").problem), (None, None));
    assert_eq!(token_of(&machine.codex_home().join("auth.json")), "third");
}

#[tokio::test]
async fn what_a_killed_server_left_in_a_copy_is_brought_back_and_its_session_goes_on() {
    let machine = Machine::new().with_codex();
    let session = "$CODEX_HOME/sessions/2026/01/02/rollout-x-thread-1.jsonl";
    let script = format!(
        "case \"$*\" in *resume*) {};; *) {}; mkdir -p $(dirname {session}); echo said > {session}; {}; touch begun; sleep 600;; esac",
        codex("thread-1", &format!("'\"$(cat {session})\"'"), 1),
        renew("me", "second", 2),
        codex("thread-1", "never", 1).split("; ").next().expect("the first event"),
    );
    let mut tool = machine.tool(&script, preset());
    tool.parts.clock = Arc::new(Stopped(TestClock::default()));
    let input = json!({ "directory": machine.checkout() });
    {
        let call = machine.call(&tool, input.clone());
        tokio::pin!(call);
        let begun = async {
            machine.until("begun").await;
            // The id of the session is in the record of the run.
            appears(&machine.tree().join(format!("sessions/{}.json", machine.context().run.run))).await;
        };
        tokio::select! { _ = &mut call => panic!("it runs on"), () = begun => {} }
    }
    assert_eq!(token_of(&machine.codex_home().join("auth.json")), "first");
    let tool = machine.tool(&script, preset());
    let mut again = machine.context();
    again.call = 3;
    let own = json!({ "directory": machine.checkout(), "session": { "own": { "new": "id2" } } });
    assert_eq!(machine.call_in(&again, &tool, own).await.expect("it runs").text, "said");
    assert_eq!(token_of(&machine.codex_home().join("auth.json")), "second");
    assert_eq!(fs::read_dir(machine.at("clis/copies")).expect("the copies").count(), 0, "no copy is left");
}

#[tokio::test]
async fn a_command_of_the_config_has_the_state_that_the_config_names() {
    let machine = Machine::new();
    put(&machine.at("home/.mine/login.json"), "{\"token\": \"first\", \"other\": 1}");
    put(&machine.at("home/.mine/settings.ini"), "fine");
    put(&machine.at("home/.mine/private"), "private");
    let script = "cd ~/.mine; cat settings.ini private sessions/one; echo '{\"token\":\"second\",\"other\":2}' > login.json; \
                  echo evil > settings.ini; mkdir -p sessions; echo said > sessions/one; echo x > other";
    let config = json!({ "command": ["mine"], "state": [{
        "path": "~/.mine", "settings": ["*.ini"], "login": [{ "file": "login.json", "fields": ["token"] }], "sessions": ["sessions/**"]
    }] });
    let tool = machine.tool_of("mine", &format!("({script}) 2>/dev/null"), config);
    assert_eq!(machine.call(&tool, json!({})).await.expect("it runs").text, "fine");
    let expected = [
        ("login.json", "{\"token\": \"second\", \"other\": 1}"),
        ("private", "private"),
        ("sessions/one", "said\n"),
        ("settings.ini", "fine"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(contents(&machine.at("home/.mine")), BTreeMap::from(expected));
    assert_eq!(machine.call(&tool, json!({})).await.expect("it runs").text, "finesaid");
}

#[tokio::test]
async fn without_namespaces_a_variable_leads_to_the_copy_and_a_cli_without_one_is_refused() {
    let machine = Machine::new().with_codex();
    let script =
        format!("echo evil > $CODEX_HOME/config.toml; {}; {}", renew("me", "second", 2), codex("t", "done", 1));
    let mut tool = machine.tool(&script, preset());
    tool.parts.launcher = tool.parts.launcher.without(&[drawloom_process::Layer::Namespaces]);
    assert_eq!(machine.call(&tool, json!({})).await.expect("it runs").text, "done");
    assert_eq!(fs::read_to_string(machine.codex_home().join("config.toml")).expect("the settings"), "model = \"m\"\n");
    assert_eq!(token_of(&machine.codex_home().join("auth.json")), "second");
    let mut tool = machine.tool_of("mine", "true", json!({ "command": ["mine"], "state": [{ "path": "~/.mine" }] }));
    tool.parts.launcher = tool.parts.launcher.without(&[drawloom_process::Layer::Namespaces]);
    let refused = machine.call(&tool, json!({})).await.expect_err("it is refused");
    assert!(refused.starts_with("not_private: this machine has no namespaces"), "{refused}");
}

#[tokio::test]
async fn databases_that_a_version_makes_at_its_first_start_are_made_once_and_hold_no_work() {
    let machine = Machine::new();
    // The one that only makes databases gets no prompt.
    let script = format!(
        "cat $CODEX_HOME/state.sqlite > found 2>/dev/null || echo none > found; case \"$*\" in '{SEED}') \
         echo empty > $CODEX_HOME/state.sqlite; ls $CODEX_HOME > $CODEX_HOME/seen.sqlite;; *) echo work > $CODEX_HOME/state.sqlite;; esac; {}",
        codex("t", "done", 1)
    );
    let tool = machine.whole_tool("codex", &script, preset());
    let found = || fs::read_to_string(machine.at("volume/found")).expect("what it found");
    for expected in ["none\n", "empty\n", "empty\n"] {
        assert_eq!(machine.call(&tool, json!({})).await.expect("it runs").text, "done");
        assert_eq!(found(), expected);
    }
    let tool = machine.whole_tool("codex", &format!("{script} # another version"), preset());
    machine.call(&tool, json!({})).await.expect("it runs");
    assert_eq!(found(), "none\n", "another version makes its own");
    assert_eq!(fs::read_dir(machine.at("clis/seeds")).expect("the seeds").count(), 1);
}

#[tokio::test]
async fn opencode_installs_its_library_only_for_users_who_have_plugins_or_tools() {
    for (file, expected) in [
        ("opencode.json", "prepared"),
        ("tool/mine.ts", "as it is"),
        ("package.json", "as it is"),
        ("plugins/a.js", "as it is"),
    ] {
        let machine = Machine::new();
        let home = machine.at("home/.config/opencode");
        put(&home.join(file), "{}");
        let script = "cd $XDG_CONFIG_HOME/opencode; [ -e package-lock.json ] && [ -e node_modules ] && said=prepared || said='as it is'; \
                      echo \"{\\\"type\\\":\\\"text\\\",\\\"part\\\":{\\\"text\\\":\\\"$said\\\"}}\"; \
                      echo '{\"type\":\"step_finish\",\"part\":{\"reason\":\"stop\"}}'";
        let tool = machine.tool_of("opencode", script, json!({ "preset": "opencode" }));
        assert_eq!(machine.call(&tool, json!({})).await.expect("it runs").text, expected, "{file}");
        assert_eq!(contents(&home).keys().collect::<Vec<_>>(), [file], "the user's directory stays as it is");
    }
}
