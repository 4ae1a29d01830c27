//! Every limit of the config and of commands is crossed.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
};

use drawloom::limits::{IMPORT, OWN, SKILLS};
use drawloom_contract::limits::{Amount, Limit};

use crate::support::Home;

fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// The code of a config with this text, whose mistake must contain `says`.
fn config(text: &str, says: &str) -> String {
    let home = Home::new();
    home.write("large.yaml", text);
    let json = home.run(&["validate", "large.yaml", "--json"]).exits(2).json();
    assert!(json.to_string().contains(says), "no mistake says {says:?}: {json}");
    json["error"]["code"].as_str().unwrap_or_default().to_owned()
}

fn cross(limit: &Limit) -> String {
    match limit.name {
        "config_file_bytes" => config(&format!("#{}", "x".repeat(most(limit))), "longer than 8388608 bytes"),
        "config_depth" => {
            config(&format!("a: {}{}", "[".repeat(most(limit) + 1), "]".repeat(most(limit) + 1)), "recursion limit")
        }
        "config_values" => config(&format!("a: [{}]", "1,".repeat(most(limit))), "more than 50000 values"),
        "config_text_bytes" => {
            // A text of 100 KB that is used many times.
            let uses = "*t,".repeat(most(limit) / 100_000);
            config(&format!("a: &t {}\nb: [{uses} *t]\n", "x".repeat(100_000)), "bytes of text")
        }
        "prompt_file_bytes" => {
            let home = Home::new();
            home.write("prompt.md", &"x".repeat(most(limit) + 1));
            home.write(
                "large.yaml",
                "providers: { s: { driver: script } }\ndefaults: { provider: s, model: m }\n\
                 agents: { a: { system_prompt_file: prompt.md } }\n",
            );
            let json = home.run(&["validate", "large.yaml", "--json"]).exits(2).json();
            assert!(json.to_string().contains("is longer than 262144 bytes"), "{json}");
            json["error"]["code"].as_str().unwrap_or_default().to_owned()
        }
        "prompt_bytes" => {
            let ran = Home::new().run_with_input(&["run", "reader", "--json"], &"x".repeat(most(limit) + 1));
            ran.exits(2).json()["error"]["code"].as_str().unwrap_or_default().to_owned()
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[test]
fn every_limit_is_crossed_and_told() {
    for limit in OWN {
        assert_eq!(cross(limit), limit.code, "{}", limit.name);
    }
    let report = format_args!("limits: {} limits of the config and of commands crossed\n", OWN.len());
    std::io::Write::write_fmt(&mut std::io::stderr(), report).expect("stderr");
}

/// What `validate` says of skills in `shelf`.
fn skills(prepare: impl Fn(&std::path::Path)) -> String {
    let home = Home::new();
    home.write("drawloom.yaml", "providers: { s: { driver: script } }\nskills: { directories: [shelf] }\nagents: {}\n");
    let shelf = home.path().join("shelf");
    fs::create_dir(&shelf).expect("a folder");
    prepare(&shelf);
    home.run(&["validate", "--json"]).exits(0).stdout
}

fn skill(folder: &std::path::Path, text: &str) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("SKILL.md"), text).expect("a file");
}

const SMALL: &str = "---\ndescription: d\n---\ntext\n";

fn cross_skills(limit: &Limit) -> &'static str {
    let most = most(limit);
    let (said, part, code) = match limit.name {
        "skills" => {
            let many =
                |shelf: &std::path::Path| (0..=most).for_each(|number| skill(&shelf.join(format!("s{number}")), SMALL));
            (skills(many), "more than 512 skills: 1 in", "left_out")
        }
        "skill_file_bytes" => (
            skills(|shelf| skill(&shelf.join("s"), &format!("{SMALL}{}", "x".repeat(most)))),
            "more than 262144",
            "left_out",
        ),
        "skill_name_characters" => (
            skills(|shelf| skill(&shelf.join("x".repeat(most + 1)), SMALL)),
            "cannot be the name of a skill",
            "left_out",
        ),
        "skill_description_characters" => {
            let text = format!("---\ndescription: {}\n---\ntext\n", "x".repeat(most + 1));
            (skills(|shelf| skill(&shelf.join("s"), &text)), "the description is cut after 1024 characters", "cut")
        }
        "skill_folders" => {
            let many = |shelf: &std::path::Path| {
                (0..=most).for_each(|number| fs::create_dir(shelf.join(number.to_string())).expect("a folder"));
            };
            (skills(many), "more than 20000 folders; the rest is not read", "left_out")
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    };
    assert!(said.contains(part), "{}: {said}", limit.name);
    code
}

/// What an import reports.
fn import(prepare: impl Fn(&std::path::Path)) -> String {
    let home = Home::new();
    let folder = home.path().join(".claude");
    fs::create_dir_all(folder.join("agents")).expect("a folder");
    fs::write(folder.join("agents/a.md"), "---\nname: a\n---\nA.\n").expect("a file");
    prepare(&folder);
    home.run(&["import", "claude-code", "--json"]).exits(0).stdout
}

fn cross_import(limit: &Limit) -> &'static str {
    let most = most(limit);
    let (said, part) = match limit.name {
        "import_file_bytes" => {
            let large = format!("---\nname: b\n---\n{}", "x".repeat(most));
            (import(|folder| fs::write(folder.join("agents/b.md"), &large).expect("a file")), "more than 262144")
        }
        "import_json_bytes" => {
            let large = format!("{{\"a\": \"{}\"}}", "x".repeat(most));
            (import(|folder| fs::write(folder.join("settings.json"), &large).expect("a file")), "more than 1048576")
        }
        "import_files" => {
            let many = |folder: &std::path::Path| {
                (0..most).for_each(|number| fs::write(folder.join(format!("agents/x{number}")), "").expect("a file"));
            };
            (import(many), "more than 4000 files or folders; the rest is not read")
        }
        "import_depth" => {
            let deep = |folder: &std::path::Path| {
                fs::create_dir_all(folder.join("agents").join("d/".repeat(most + 1))).expect("folders");
            };
            (import(deep), "more than 8 folders deep")
        }
        "import_skill_files" => {
            let many = |folder: &std::path::Path| {
                skill(&folder.join("skills/s"), SMALL);
                (0..most).for_each(|number| fs::write(folder.join(format!("skills/s/{number}")), "").expect("a file"));
            };
            (import(many), "it has more than 2000 files or 64 MiB")
        }
        "import_skill_bytes" => {
            let large = |folder: &std::path::Path| {
                skill(&folder.join("skills/s"), SMALL);
                let file = fs::File::create(folder.join("skills/s/large")).expect("a file");
                file.set_len(most as u64).expect("a length");
            };
            (import(large), "it has more than 2000 files or 64 MiB")
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    };
    assert!(said.contains(part), "{}: {said}", limit.name);
    "left_out"
}

#[test]
fn every_limit_of_skills_and_of_an_import_is_crossed_and_told() {
    for limit in SKILLS {
        assert_eq!(cross_skills(limit), limit.code, "{}", limit.name);
    }
    for limit in IMPORT {
        assert_eq!(cross_import(limit), limit.code, "{}", limit.name);
    }
    let report = format_args!("limits: {} limits of skills and of an import crossed\n", SKILLS.len() + IMPORT.len());
    std::io::Write::write_fmt(&mut std::io::stderr(), report).expect("stderr");
}

#[test]
fn a_server_with_few_files_answers_while_more_connections_come_than_it_can_hold() {
    let home = Home::new();
    // `serve` raises its limit to the hard one, which is lowered here.
    let command = home.command(&[]);
    let binary = command.get_program().to_owned();
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 128; exec \"$0\" serve --json --log warn"]).arg(binary).current_dir(home.path());
    for (name, value) in environment {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null());
    let mut server = home.serve_with(shell);
    let address = server.url.trim_start_matches("http://").to_owned();
    let ask = |request: &str| {
        let mut socket = TcpStream::connect(&address).expect("it listens");
        // A connection that is closed at once takes no request.
        drop(socket.write_all(request.as_bytes()));
        socket
    };
    let started = home.run(&["run", "echo", "slow", "--detach", "--url", &server.url, "--json"]).exits(0).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    // Streams that stay open: twice as many as there are files.
    let follow = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    let mut streams: Vec<TcpStream> = (0..256).map(|_| ask(&follow)).collect();
    let mut taken = 0;
    for stream in &mut streams {
        let mut head = [0; 12];
        if stream.read_exact(&mut head).is_ok() && head.ends_with(b"200") {
            taken += 1;
        }
    }
    assert!(taken >= 8, "{taken} streams");
    streams.clear();
    let ran = home.run(&["run", "echo", "still here", "--url", &server.url]);
    assert!(ran.exits(0).stdout.contains("still here"));
    let log = server.stop_and_read();
    assert!(log.contains("connection limit reached"), "{log}");
    assert!(!log.contains("Too many open files") && !log.contains("cannot accept"), "{log}");
}
