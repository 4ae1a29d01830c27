//! `drawloom mcp install`, on homes of its own.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Home, Ran};

/// Every client that has a config file.
pub(crate) const CLIENTS: [&str; 9] =
    ["claude", "codex", "opencode", "cursor", "vscode", "gemini", "zed", "windsurf", "cline"];

pub(crate) fn install(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(&["mcp", "install"]);
    // Nothing of this machine is found by its program, and this one only by its path.
    command.args(arguments).env("PATH", "/nowhere").env_remove("CODEX_HOME").env_remove("DRAWLOOM_DATA_DIR");
    command.env_remove("CLINE_MCP_SETTINGS_PATH");
    let mut ran = home.finish(&mut command);
    ran.stdout = ran.stdout.replace(env!("CARGO_BIN_EXE_drawloom"), "/bin/drawloom");
    ran
}

#[test]
fn every_client_is_shown_its_config() {
    let home = Home::new();
    let mut all = String::new();
    for client in CLIENTS {
        all.push_str(&format!("$ drawloom mcp install --client {client}\n"));
        all.push_str(&install(&home, &["--client", client]).exits(0).stdout);
        all.push('\n');
    }
    let upstream = ["--client", "codex", "--upstream", "https://looms.example", "--toolsets", "runs,agents"];
    all.push_str(&format!("$ drawloom mcp install {}\n", upstream.join(" ")));
    all.push_str(&install(&home, &upstream).exits(0).stdout);
    all.push_str("\n$ drawloom mcp install --client claude --scope project --data-dir data\n");
    all.push_str(&install(&home, &["--client", "claude", "--scope", "project", "--data-dir", "data"]).exits(0).stdout);
    insta::assert_snapshot!("shown", all);
}

#[test]
fn what_is_written_is_shown_first_and_nothing_else_changes() {
    let home = Home::new();
    let before = "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
    home.write(".claude.json", before);
    let file = home.path().join(".claude.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let asked = install(&home, &["--client", "claude", "--write"]).exits(3);
    assert!(asked.stdout.contains("+    \"drawloom\": {"), "{}", asked.stdout);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before, "nobody agreed");
    assert!(asked.stderr.starts_with("error: Write <home>/.claude.json? Nothing was written"), "{asked:?}");
    let written = install(&home, &["--client", "claude", "--write", "--yes"]).exits(0);
    insta::assert_snapshot!("written", written.stdout);
    let after = std::fs::read_to_string(&file).expect("a file");
    let after: serde_json::Value = serde_json::from_str(&after).expect("JSON");
    assert_eq!((&after["numStartups"], &after["mcpServers"]["other"]["command"]), (&3.into(), &"x".into()));
    let config = home.path().join("drawloom.yaml");
    assert_eq!(after["mcpServers"]["drawloom"]["args"], serde_json::json!(["mcp", "--config", config]));
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let again = install(&home, &["--client", "claude", "--write", "--yes"]).exits(0);
    assert_eq!(again.stdout, "<home>/.claude.json already has it.\n");
}

#[test]
fn every_client_can_be_written_from_nothing_and_is_then_found() {
    let home = Home::new();
    assert!(install(&home, &[]).exits(0).stdout.starts_with("No known MCP host"));
    for client in CLIENTS {
        let written = install(&home, &["--client", client, "--write", "--yes", "--json"]).exits(0).json();
        assert_eq!((&written["client"], &written["written"]), (&client.into(), &true.into()));
    }
    insta::assert_snapshot!("found", install(&home, &[]).exits(0).stdout);
    let listed = install(&home, &["--json"]).exits(0).json();
    let listed = listed["clients"].as_array().expect("a list").clone();
    assert!(listed.len() == CLIENTS.len() && listed.iter().all(|row| row["state"] == "configured"), "{listed:?}");
}

#[test]
fn a_connection_to_another_project_is_named_and_a_host_that_is_not_here_is_not_connected() {
    let home = Home::new();
    let written = install(&home, &["--client", "claude", "--write", "--yes"]).exits(0);
    assert!(
        written.stdout.ends_with("wrote <home>/.claude.json; Claude Code was not found on this machine\n"),
        "{written:?}"
    );
    install(&home, &["--client", "codex", "--write", "--yes"]).exits(0);
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("other.yaml", &config);
    let listed = install(&home, &["--config", "other.yaml"]).exits(0).stdout;
    let named = listed.matches("configured for another project: <home>/drawloom.yaml").count();
    assert_eq!(named, 2, "{listed}");
    let shown = install(&home, &["--config", "other.yaml", "--client", "claude"]).exits(0).stdout;
    assert!(shown.contains("replaces its connection to <home>/drawloom.yaml"), "{shown}");
    let settings = install(&home, &["--patience", "77"]).exits(0).stdout;
    assert!(settings.contains("configured with other settings: args"), "{settings}");
    let again = install(&home, &["--config", "other.yaml", "--client", "claude", "--write", "--yes"]).exits(0);
    assert!(again.stdout.ends_with("Claude Code is configured; restart it to use drawloom.\n"), "{again:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let home = Home::new();
    home.write(".claude.json", "{ \"mcpServers\": [");
    let refused = install(&home, &["--client", "claude", "--write", "--yes"]).exits(2);
    assert!(refused.stderr.contains("was not changed: it is not JSON"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(home.path().join(".claude.json")).expect("a file"), "{ \"mcpServers\": [");
    let no_scope = install(&home, &["--client", "windsurf", "--scope", "project"]).exits(2);
    assert!(no_scope.stderr.contains("--scope user"), "{}", no_scope.stderr);
    let bad = install(&home, &["--client", "claude", "--upstream", "nowhere"]).exits(2);
    assert!(bad.stderr.contains("write it like http://127.0.0.1:8787"), "{}", bad.stderr);
}

#[test]
fn what_the_user_put_into_the_entry_stays_and_is_not_shown() {
    let home = Home::new();
    let token = "hush-hush-hush";
    let mine = serde_json::json!({ "command": "old", "env": { "DRAWLOOM_TOKEN": token }, "timeout": 90_000_000 });
    let before = serde_json::json!({ "mcpServers": { "drawloom": mine, "other": { "env": { "KEY": token } } } });
    home.write(".claude.json", &serde_json::to_string_pretty(&before).expect("JSON"));
    let written = install(&home, &["--client", "claude", "--write", "--yes", "--patience", "77"]).exits(0);
    assert!(!written.stdout.contains(token) && written.stdout.contains("(not shown)"), "{}", written.stdout);
    let after = std::fs::read_to_string(home.path().join(".claude.json")).expect("a file");
    let after: serde_json::Value = serde_json::from_str(&after).expect("JSON");
    let entry = &after["mcpServers"]["drawloom"];
    assert_eq!((&entry["env"]["DRAWLOOM_TOKEN"], &entry["timeout"]), (&token.into(), &90_000_000.into()));
    let args: Vec<&str> = entry["args"].as_array().expect("a list").iter().filter_map(|arg| arg.as_str()).collect();
    assert!(args.ends_with(&["--patience", "77"]), "{args:?}");
}

#[test]
fn hosts_with_a_limit_of_calls_get_ten_minutes_and_a_longer_one_stays() {
    let home = Home::new();
    let timeout = |client: &str, file: &str, field: &str| {
        install(&home, &["--client", client, "--write", "--yes"]).exits(0);
        let text = std::fs::read_to_string(home.path().join(file)).expect("a file");
        let line = text.lines().find(|line| line.trim_start().trim_start_matches('"').starts_with(field));
        line.and_then(|line| line.split([':', '=']).nth(1)).map(|value| value.trim().trim_matches(',').to_owned())
    };
    let cline = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    for (client, file, field, least) in [
        ("claude", ".claude.json", "timeout", "86400000"),
        ("codex", ".codex/config.toml", "tool_timeout_sec", "600"),
        ("opencode", ".config/opencode/opencode.json", "timeout", "600000"),
        ("gemini", ".gemini/settings.json", "timeout", "600000"),
        ("zed", ".config/zed/settings.json", "timeout", "600"),
        ("cline", cline, "timeout", "600"),
    ] {
        assert_eq!(timeout(client, file, field).as_deref(), Some(least), "{client}");
        let path = home.path().join(file);
        let text = std::fs::read_to_string(&path).expect("a file");
        std::fs::write(&path, text.replace(least, "3")).expect("a file");
        assert_eq!(timeout(client, file, field).as_deref(), Some(least), "{client} is raised");
        let longer = format!("{least}0");
        std::fs::write(&path, text.replace(least, &longer)).expect("a file");
        assert_eq!(timeout(client, file, field).as_deref(), Some(longer.as_str()), "{client} keeps a longer one");
    }
    let listed = install(&home, &["--json"]).exits(0).json();
    let states = listed["clients"].as_array().expect("a list").clone();
    assert!(states.iter().all(|row| row["state"] == "configured"), "{states:?}");
    for (client, file) in [("cursor", ".cursor/mcp.json"), ("windsurf", ".codeium/windsurf/mcp_config.json")] {
        assert_eq!(timeout(client, file, "timeout"), None, "{client} has no such setting");
    }
}

#[test]
fn cline_is_found_by_its_extension_by_its_command_line_and_by_its_variable() {
    let home = Home::new();
    let shown = |home: &Home| install(home, &["--client", "cline", "--json"]).exits(0).json()["file"].clone();
    let extension = "<home>/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    assert_eq!(shown(&home), extension);
    std::fs::create_dir_all(home.path().join(".cline/data/settings")).expect("a directory");
    home.write(".cline/data/settings/cline_mcp_settings.json", "{}");
    assert_eq!(shown(&home), "<home>/.cline/data/settings/cline_mcp_settings.json");
    let mut command = home.command(&["mcp", "install", "--client", "cline", "--json"]);
    let ran = home.finish(command.env("CLINE_MCP_SETTINGS_PATH", home.path().join("mine.json"))).exits(0);
    assert_eq!(ran.json()["file"], "<home>/mine.json");
}

#[test]
fn codex_hands_on_every_variable_that_the_config_needs() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let more = "env: [LISTED]\nmcp_servers:\n  here: { command: [x], env: { TOKEN: GIVEN } }\n  there: { url: 'https://host.example/mcp', bearer_env: BEARER, headers_env: { X-Key: HEADER } }\n";
    home.write("drawloom.yaml", &format!("{config}{more}"));
    let shown = install(&home, &["--client", "codex"]).exits(0).stdout;
    let listed = shown.lines().find(|line| line.starts_with("env_vars")).expect("a list of variables");
    for name in ["DRAWLOOM_TOKEN", "LISTED", "GIVEN", "BEARER", "HEADER"] {
        assert!(listed.contains(&format!("{name:?}")), "{name} is not in {listed}");
    }
}

#[test]
fn a_link_is_written_through_and_a_new_file_of_a_project_is_for_all() {
    let home = Home::new();
    let (link, real) = (home.path().join(".claude.json"), home.path().join("dotfiles/claude.json"));
    std::os::unix::fs::symlink("dotfiles/claude.json", &link).expect("a link");
    install(&home, &["--client", "claude", "--write", "--yes"]).exits(0);
    assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink(), "it is still a link");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o600);
    install(&home, &["--client", "claude", "--scope", "project", "--write", "--yes"]).exits(0);
    home.write("usual", "");
    assert_eq!(mode(&home.path().join(".mcp.json")), mode(&home.path().join("usual")));
}

#[test]
fn secrets_are_not_written_and_not_shown() {
    let home = Home::new();
    let secret = "hush-hush-hush";
    let header = |name: &str| format!("{name}: {secret}");
    let headers = ["Authorization", "Cookie", "X-Api-Key", "x-secret", "X-Auth-Token"].map(header);
    let mut refused: Vec<Vec<String>> = headers.into_iter().map(|header| vec!["--header".into(), header]).collect();
    refused.push(vec!["--upstream".into(), format!("https://ann:{secret}@looms.example")]);
    for arguments in refused {
        let mut all = vec!["--client", "codex", "--write", "--yes"];
        all.extend(arguments.iter().map(String::as_str));
        let ran = install(&home, &all).exits(2);
        assert!(ran.stderr.contains("plain text") && ran.stderr.contains("DRAWLOOM_TOKEN"), "{ran:?}");
        assert!(!ran.stderr.contains(secret) && !ran.stdout.contains(secret), "{ran:?}");
    }
    assert!(!home.path().join(".codex").exists());
    install(&home, &["--client", "codex", "--write", "--yes", "--header", "X-Team: weavers"]).exits(0);
}

#[test]
fn what_a_host_could_not_start_is_refused_at_once() {
    let home = Home::new();
    for (arguments, says) in [
        (["--toolsets", ""], "is not a toolset name"),
        (["--toolsets", "core, runs"], "is not a toolset name"),
        (["--header", "Content-Length: 7"], "content-length cannot be set with --header"),
        (["--upstream", "http://127.0.0.1:70000"], "is not the URL of a server"),
    ] {
        let refused = install(&home, &[["--client", "claude"], arguments].concat()).exits(2);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
}

fn uninstall(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(&["mcp", "uninstall"]);
    command.args(arguments).env("PATH", "/nowhere").env_remove("CODEX_HOME").env_remove("CLINE_MCP_SETTINGS_PATH");
    home.finish(&mut command)
}

#[test]
fn uninstall_takes_out_of_every_client_what_install_wrote_and_nothing_else() {
    let home = Home::new();
    assert_eq!(uninstall(&home, &[]).exits(0).stdout, "no MCP host is connected\n");
    for client in CLIENTS {
        // A file that the user has, with comments where the format takes them.
        let empty = install(&home, &["--client", client, "--json"]).exits(0).json();
        let file = empty["file"].as_str().expect("a file").replace("<home>", &home.path().to_string_lossy());
        let before = if file.ends_with(".toml") { "# mine\nmodel = \"m\"\n" } else { "{\n  \"mine\": [1, 2]\n}\n" };
        std::fs::create_dir_all(std::path::Path::new(&file).parent().expect("a directory")).expect("a directory");
        std::fs::write(&file, before).expect("a file");
        let read = || std::fs::read_to_string(&file).expect("a file");

        install(&home, &["--client", client, "--write", "--yes"]).exits(0);
        let connected = read();
        let shown = uninstall(&home, &["--client", client]).exits(0);
        assert!(shown.stdout.contains("drawloom") && shown.stdout.contains("\n-"), "{client}: {shown:#?}");
        uninstall(&home, &["--client", client, "--write"]).exits(3);
        assert_eq!(read(), connected, "{client}: nobody agreed");
        let listed = uninstall(&home, &["--json"]).exits(0).json();
        assert_eq!(
            (listed["clients"].as_array().map(Vec::len), &listed["clients"][0]["client"]),
            (Some(1), &client.into())
        );

        let removed = uninstall(&home, &["--client", client, "--write", "--yes", "--json"]).exits(0).json();
        assert_eq!((removed["removed"] == true, read()), (true, before.to_owned()), "{client}");
        let again = uninstall(&home, &["--client", client, "--write", "--yes", "--json"]).exits(0).json();
        assert_eq!((again["removed"] == false, read()), (true, before.to_owned()), "{client}: twice is once");

        std::fs::remove_file(&file).expect("a file");
        install(&home, &["--client", client, "--write", "--yes"]).exits(0);
        assert!(std::path::Path::new(&file).exists());
        let removed = uninstall(&home, &["--client", client, "--write", "--yes", "--json"]).exits(0).json();
        assert!(removed["file_removed"] == true && !std::path::Path::new(&file).exists(), "{client}: {removed}");
    }
}

#[test]
fn uninstall_leaves_an_entry_that_install_did_not_write_and_plugin_files_that_were_edited() {
    let home = Home::new();
    let others = "{ \"mcpServers\": { \"drawloom\": { \"command\": \"npx\", \"args\": [\"x\"] } } }";
    home.write(".claude.json", others);
    let refused = uninstall(&home, &["--client", "claude", "--write", "--yes", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "entry_of_others");
    assert_eq!(std::fs::read_to_string(home.path().join(".claude.json")).expect("a file"), others);

    install(&home, &["--client", "claude", "--plugin", "plugin"]).exits(0);
    home.write("plugin/commands/review.md", "mine");
    let first = uninstall(&home, &["--client", "claude", "--plugin", "plugin", "--json"]).exits(0).json();
    assert_eq!(first["kept"], serde_json::json!(["commands/review.md"]), "{first}");
    assert!(home.path().join("plugin/commands/review.md").exists() && !home.path().join("plugin/.mcp.json").exists());
    std::fs::remove_file(home.path().join("plugin/commands/review.md")).expect("a file");
    uninstall(&home, &["--client", "claude", "--plugin", "plugin"]).exits(0);
    assert!(!home.path().join("plugin").exists());
}
