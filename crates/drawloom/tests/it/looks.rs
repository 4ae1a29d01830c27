//! How things look: committed snapshots of what people read, at three widths, with and without colours.

use regex::Regex;

use crate::support::Home;

/// What differs from run to run, replaced by something of the same width.
pub(crate) fn normal(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, with) in [
        (r"r_[0-9a-f]{32}", "r_00000000000000000000000000000000"),
        (r"b_[0-9a-f]{32}", "b_00000000000000000000000000000000"),
        (r"s_[0-9a-f]{32}", "s_00000000000000000000000000000000"),
        (r"a_[0-9a-f]{32}", "a_00000000000000000000000000000000"),
        (r"…[0-9a-f]{6}", "…000000"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-01T00:00:00.000Z"),
        (r"\d\d:\d\d:\d\d\.\d{3}", "00:00:00.000"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "2026-01-01 00:00:00 UTC"),
        (r"(\[2m|\b)\d\d:\d\d:\d\d\b", "${1}00:00:00"),
        // In a tree, whether two runs began in the same millisecond does not matter.
        (r"(─ [^\n]*  (?:\x1b\[2m)?)r_[0-9a-f]{12,31}\b", "${1}r_0000000000000"),
        (r"(\[2m|\b)r_[0-9a-f]{13,31}\b", "${1}r_0000000000000"),
        (r"(\[2m|\b)r_[0-9a-f]{12}\b", "${1}r_000000000000"),
        (r"\b[rbsa]_[0-9a-f]+…", "id…"),
        (r"\b\d\.\d s\b", "N.N s"),
        (r"\b\d+ ms\b", "N ms"),
        (r"\d+\.\d [KMG]iB free", "N GiB free"),
        (r"\b\d{3,7} files", "N files"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:N"),
        (r"process \d+", "process N"),
        // What the kernel confines is the machine's.
        (r"(?m)^[^\n]*sandbox [^\n]*\n( {20}[^\n]*\n)*", "the sandbox of this machine\n"),
    ] {
        text = Regex::new(pattern).expect("a pattern").replace_all(&text, with).into_owned();
    }
    text
}

/// Times are a little over a second, so that they are always as wide.
///
/// A home with a tree of runs, a failure and a batch in its journal.
fn lived_in() -> Home {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: boom }
          fail: { kind: refused, message: it went boom }
          delay_ms: 1100
        - when: { agent: lead, turn: 1 }
          calls: [{ tool: Agent, input: { op: parallel_spawn, spawns: [{ name: reader, prompt: read it }, { name: second, prompt: boom goes the second }] } }]
        - when: { agent: lead }
          text: \"Both are back: one has read, one went wrong.\"
        - when: { contains: read, turn: 1 }
          calls: [{ tool: Read, input: { path: note.txt, bytes: true } }]
        - when: { contains: read }
          text: \"the note says: {{last}}\"
          delay_ms: 1100
        - text: \"{{prompt}}\"
          delay_ms: 1100
defaults: { provider: script, model: test }
pricing: { models: { script/test: { input: 3, output: 15 } } }
agents:
  lead: { description: Hands work to readers., tools: [Agent], agents: [reader, second] }
  second: { description: Goes wrong., tools: [], agents: [] }
  reader: { description: Reads 織機 and says what is in it., tools: [Read], agents: [] }
volumes:
  notes: { path: notes, mode: ro, default: true }
",
    );
    home
}

fn newest(home: &Home, agent: &str) -> String {
    let list = home.run(&["runs", "list", "--agent", agent, "--json"]).exits(0).json();
    list["runs"][0]["run_id"].as_str().expect("a run").to_owned()
}

/// The answer at three widths and once in colour.
fn at_widths(home: &Home, arguments: &[&str]) -> String {
    let mut all = String::new();
    // The doctor names a directory, whose length is the machine's.
    let widths: &[(&str, &str)] = match arguments {
        ["doctor"] => &[("120", "never"), ("120", "always")],
        ["runs", "tail" | "show", ..] | ["status", ..] => &[("80", "never"), ("140", "never"), ("80", "always")],
        _ => &[("40", "never"), ("80", "never"), ("120", "never"), ("80", "always")],
    };
    for (width, colour) in widths.iter().copied() {
        let ran = home.run(&[arguments, &["--width", width, "--color", colour]].concat());
        let shown = normal(&ran.stdout).replace('\u{1b}', "␛");
        let longest = ran.stdout.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or(0);
        // What calls said is shown as it is.
        if colour == "never" && matches!(arguments, ["runs", ..]) && !arguments.contains(&"--calls") {
            assert!(longest <= width.parse().expect("a number"), "{width}: {longest}\n{shown}");
        }
        all.push_str(&format!("── {width} columns, colours {colour}\n{shown}\n"));
    }
    all
}

#[test]
fn lists_and_trees_fit_the_width() {
    let home = lived_in();
    // Runs that begin in the same moment are listed in any order, so these come one after the other.
    home.run(&["run", "reader", "read it"]).exits(0);
    home.run(&["run", "reader", "boom"]).exits(1);
    insta::assert_snapshot!("runs_list", at_widths(&home, &["runs", "list"]));
    let run = home.run(&["run", "lead", "Have both read."]).exits(0);
    // Both children end at the same time, so their two lines come in any order.
    let mut told: Vec<String> = normal(&run.stderr).lines().map(str::to_owned).collect();
    told[3..5].sort();
    insta::assert_snapshot!("run_beside", told.join("\n"));
    let lead = newest(&home, "lead");
    insta::assert_snapshot!("runs_show", at_widths(&home, &["runs", "show", &lead]));
    insta::assert_snapshot!("runs_show_calls", at_widths(&home, &["runs", "show", "last", "--calls"]));
    insta::assert_snapshot!("runs_tail", at_widths(&home, &["runs", "tail", &lead]));
    insta::assert_snapshot!("runs_tail_tree", in_one_order(&at_widths(&home, &["runs", "tail", &lead, "--tree"])));
    insta::assert_snapshot!("agents_list", at_widths(&home, &["agents", "list"]));
    insta::assert_snapshot!("models_list", at_widths(&home, &["models", "list"]));
    home.run(&["stop"]).exits(0);
    insta::assert_snapshot!("doctor", at_widths(&home, &["doctor"]));
    let batch = home.run(&["batch", "--agent", "reader", "read it", "boom", "三 words 織機"]).exits(1);
    insta::assert_snapshot!("batch", normal(&format!("{}{}", batch.stdout, batch.stderr)));
}

/// The lines of a tail of a tree, each part sorted by run: what runs do at the same time comes in any order.
fn in_one_order(text: &str) -> String {
    let mut parts: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match parts.last_mut().filter(|_| !line.starts_with("──")) {
            Some(part) => part.push(line),
            None => parts.push(vec![line]),
        }
    }
    let run = |line: &&str| {
        line.trim_start_matches("␛[2m")
            .get(12..)
            .map(|rest| rest.trim_start_matches("␛[0m").trim_start().split(' ').next().unwrap_or_default().to_owned())
    };
    for part in &mut parts {
        part[1..].sort_by_key(run);
    }
    parts.concat().join("\n")
}

#[test]
fn all_projects_fit_the_width() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    for project in ["alpha", "a/folder/with/a/long/path/to/the/project"] {
        let folder = home.path().join(project);
        std::fs::create_dir_all(folder.join("notes")).expect("a directory");
        std::fs::write(folder.join("drawloom.yaml"), &config).expect("a file");
        let mut run = home.command(&["run", "echo", "hi"]);
        assert_eq!(home.finish(run.current_dir(&folder).env_remove("DRAWLOOM_DATA_DIR")).code, 0);
    }
    let mut stop = home.command(&["stop"]);
    assert_eq!(home.finish(stop.current_dir(home.path().join("alpha")).env_remove("DRAWLOOM_DATA_DIR")).code, 0);
    // A port has four or five digits, and a data directory is named by a digest.
    let ports = Regex::new(r"127\.0\.0\.1:\d+ *").expect("a pattern");
    let digests = Regex::new(r"-[0-9a-f]{8,}").expect("a pattern");
    let mut all = String::new();
    for width in ["80", "140"] {
        let mut status = home.command(&["status", "--all", "--width", width]);
        let shown = home.finish(status.env_remove("DRAWLOOM_DATA_DIR")).exits(0).stdout;
        let longest = shown.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or(0);
        assert!(longest <= width.parse().expect("a number"), "{shown}");
        let shown = ports.replace_all(&shown, "127.0.0.1:N  ");
        let data = digests.replace_all(&shown, "-0000");
        all.push_str(&format!("── {width} columns\n{data}\n"));
    }
    insta::assert_snapshot!("status_all", all);
}

#[test]
fn times_are_told_in_the_zone_of_the_reader() {
    let home = Home::new();
    home.run(&["run", "echo", "hi"]).exits(0);
    let mut list = home.command(&["runs", "list"]);
    let table = home.finish(list.env("TZ", "XYZ-5:30")).exits(0).stdout;
    assert!(table.contains("started XYZ"), "{table}");
    let utc = home.run(&["runs", "show", "last", "--json"]).exits(0).json();
    let accepted: jiff::Timestamp = utc["timings"]["accepted_at"].as_str().expect("a time").parse().expect("a time");
    let there = accepted + jiff::SignedDuration::from_mins(330);
    let mut show = home.command(&["runs", "show", "last"]);
    let shown = home.finish(show.env("TZ", "XYZ-5:30")).exits(0).stdout;
    let wanted = format!("started   {} XYZ\n", there.strftime("%Y-%m-%d %H:%M:%S"));
    assert!(shown.contains(&wanted), "{wanted} in {shown}");
}

#[test]
fn errors_say_what_to_do_next() {
    let home = Home::new();
    let mut all = String::new();
    for arguments in [
        &["run", "eco", "hi"][..],
        &["runs", "show", "r_00000000000000000000000000000000"],
        &["runs", "show", "not a run"],
        &["runs", "show", "r_01a1"],
        &["runs", "show", "last"],
        &["run", "echo", "hi", "--embedded"],
        &["--config", "absent.yaml", "validate"],
        &["call", "spawn_rum"],
        &["call", "spawn_run", "agent=echo", "promt=hi"],
        &["prune", "--older-than", "soon"],
        &["serve", "--listen", "nowhere"],
        &["batch", "absent.json"],
        &["restore", "absent"],
        &["init"],
        &["completions", "csh"],
    ] {
        let ran = home.run(arguments);
        let said = normal(&format!("{}{}", ran.stdout, ran.stderr));
        all.push_str(&format!("$ drawloom {}\n{said}exit {}\n\n", arguments.join(" "), ran.code));
        assert_ne!(ran.code, 0);
        if ran.stderr.contains("\nhint: ") {
            let coloured = home.run(&[arguments, &["--color", "always"]].concat());
            assert!(coloured.stderr.contains("\u{1b}[31merror:"), "{coloured:?}");
        }
    }
    insta::assert_snapshot!("errors", all);
}

#[test]
fn no_color_and_pipes_have_no_colours() {
    let home = Home::new();
    home.run(&["run", "echo", "hi"]).exits(0);
    let mut plain = home.command(&["runs", "list"]);
    assert!(!home.finish(plain.env("NO_COLOR", "1")).stdout.contains('\u{1b}'));
    assert!(!home.run(&["runs", "list"]).stdout.contains('\u{1b}'));
    assert!(home.run(&["runs", "list", "--color", "always"]).stdout.contains('\u{1b}'));
    assert!(!home.run(&["runs", "list", "--color", "always", "--json"]).stdout.contains('\u{1b}'));
}

#[test]
fn completions_name_every_command_in_each_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).exits(0).stdout;
        for command in ["init", "serve", "batch", "models", "doctor", "backup", "restore", "prune", "older-than"] {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
}
