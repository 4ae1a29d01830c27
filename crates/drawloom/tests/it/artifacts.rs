//! What agents write for their callers: with commands, over REST and over MCP.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::{
    mcp::client::{Client, Era},
    support::{Home, Ran},
};

/// `lead` writes a page and has `helper` read it and write its own.
const CONFIG: &str = r##"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1 }
          calls:
            - tool: Artifact
              input: { op: write, name: page/index.html, text: "<script>alert(1)</script>\nsecond line\nthird line\n" }
        - when: { agent: lead, turn: 2 }
          calls: [{ tool: Agent, input: { name: helper, prompt: go } }]
        - { when: { agent: lead }, text: "{{last}}" }
        - when: { agent: helper, turn: 1 }
          calls: [{ tool: Artifact, input: { op: grep, name: page/index.html, pattern: "^second" } }]
        - when: { agent: helper, turn: 2 }
          calls: [{ tool: Artifact, input: { op: write, name: notes.md, text: "found: {{last}}" } }]
        - { when: { agent: helper }, text: "wrote notes.md" }
        - when: { agent: spy, turn: 1 }
          calls: [{ tool: Artifact, input: { op: read, name: notes.md } }]
        - text: "{{last}}"
defaults: { provider: script, model: test }
agents:
  lead: { tools: [Artifact, Agent], agents: [helper], hosts: [] }
  helper: { tools: [Artifact], agents: [], hosts: [] }
  spy: { tools: [Artifact], agents: [], hosts: [] }
"##;

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

fn spawn(home: &Home, agent: &str) -> Value {
    home.run(&["call", "spawn_run", &format!("agent={agent}"), "prompt=go"]).exits(0).json()
}

/// The head and the body of what a browser would get.
fn fetch(url: &str, path: &str) -> (String, String) {
    let address = url.strip_prefix("http://").expect("an address");
    let mut socket = TcpStream::connect(address).expect("a server");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html,*/*\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn what_a_tree_wrote_is_listed_read_searched_and_downloaded_also_without_a_server() {
    let home = home();
    let server = home.serve();
    let lead = spawn(&home, "lead");
    assert!(lead["final_text"].as_str().is_some_and(|text| text.contains("wrote notes.md")), "{lead}");
    let run = lead["run_id"].as_str().expect("an id").to_owned();
    let looks_right = |home: &Home| {
        let listed = home.run(&["artifacts", "ls", &run, "--json"]).exits(0).json();
        assert_eq!((&listed[0]["name"], &listed[0]["agent"]), (&json!("notes.md"), &json!("helper")));
        assert_eq!((&listed[1]["name"], &listed[1]["agent"]), (&json!("page/index.html"), &json!("lead")));
        assert_eq!((&listed[1]["media_type"], &listed[1]["lines"]), (&json!("text/html"), &json!(3)));
        let table = home.run(&["artifacts", "ls", &run, "--prefix", "page/"]).exits(0).stdout;
        assert!(table.contains("page/index.html") && !table.contains("notes.md"), "{table}");
        let shown =
            home.run(&["artifacts", "show", &run, "page/index.html", "--from-line", "2", "--lines", "1"]).exits(0);
        assert_eq!(shown.stdout, "second line\n");
        let found = home.run(&["artifacts", "show", &run, "page/index.html", "--grep", "line$"]).exits(0);
        assert_eq!(found.stdout, "2: second line\n3: third line\n");
        let got = home.run(&["artifacts", "get", &run, "notes.md"]).exits(0);
        assert!(got.stdout.contains("2: second line"), "{got:?}");
    };
    looks_right(&home);
    // The child's id names the same tree.
    let child = home.run(&["call", "list_runs", "agent=helper"]).exits(0).json()["runs"][0]["run_id"].clone();
    let listed = home.run(&["artifacts", "ls", child.as_str().expect("an id"), "--json"]).exits(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    // The tree itself, and no other, may read it.
    let spy = spawn(&home, "spy");
    assert!(spy["final_text"].as_str().is_some_and(|text| text.contains("unknown artifact")), "{spy}");
    drop(server);
    looks_right(&home);
}

#[test]
fn a_download_is_a_file_in_which_no_browser_runs_anything() {
    let home = home();
    let server = home.serve();
    let run = spawn(&home, "lead")["run_id"].as_str().expect("an id").to_owned();
    let (head, body) = fetch(&server.url, &format!("/v1/runs/{run}/artifacts/page/index.html"));
    assert_eq!(body, "<script>alert(1)</script>\nsecond line\nthird line\n");
    for line in [
        "http/1.1 200",
        "content-type: text/html; charset=utf-8",
        "content-disposition: attachment; filename=\"index.html\"",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; sandbox",
    ] {
        assert!(head.contains(line), "{line} is missing in {head}");
    }
    let (head, _) = fetch(&server.url, &format!("/v1/runs/{run}/artifacts/page/%2e%2e/index.html"));
    assert!(head.starts_with("http/1.1 404"), "{head}");
    let (head, body) = fetch(&server.url, &format!("/v1/runs/{run}/artifacts/other"));
    assert!(head.starts_with("http/1.1 404") && body.contains("no_artifact"), "{head} {body}");
}

#[test]
fn a_download_never_replaces_a_file_by_accident() {
    let home = home();
    let run = spawn(&home, "lead")["run_id"].as_str().expect("an id").to_owned();
    let get = |more: &[&str]| -> Ran {
        let words = ["artifacts", "get", &run, "page/index.html", "--to", "page.html"];
        home.run(&[&words, more].concat())
    };
    get(&[]).exits(0);
    let kept = std::fs::read_to_string(home.path().join("page.html")).expect("a file");
    assert!(kept.starts_with("<script>") && kept.ends_with("third line\n"), "{kept}");
    home.write("page.html", "mine");
    let refused = get(&[]).exits(1);
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(home.path().join("page.html")).expect("a file"), "mine");
    get(&["--force"]).exits(0);
    assert_eq!(std::fs::read_to_string(home.path().join("page.html")).expect("a file"), kept);
}

#[test]
fn mcp_hosts_read_artifacts_in_parts_and_get_the_others_on_request() {
    let home = home();
    let server = home.serve();
    let client = Client::new(&server.url, Era::Stateless);
    let lead = client.call("spawn_run", json!({ "agent": "lead", "prompt": "go" }));
    let run = lead["structuredContent"]["run_id"].clone();
    let part = client.call("read_artifact", json!({ "run_id": run, "name": "page/index.html", "from_line": 3 }));
    assert_eq!(part["structuredContent"]["text"], "third line\n", "{part}");
    let names = |client: &Client| -> Vec<Value> {
        let tools = client.ask("tools/list", json!({}))["result"]["tools"].take();
        tools.as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect()
    };
    let core = names(&client);
    assert!(core.contains(&json!("read_artifact")) && !core.contains(&json!("list_artifacts")), "{core:?}");
    let client = client.at("/mcp?toolsets=artifacts");
    assert_eq!(names(&client), [json!("list_artifacts"), json!("get_artifact")]);
    let listed = client.call("list_artifacts", json!({ "run_id": run }));
    assert_eq!(listed["structuredContent"]["artifacts"][0]["name"], "notes.md", "{listed}");
}
