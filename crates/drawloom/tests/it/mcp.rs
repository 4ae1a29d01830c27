//! MCP as clients see it: the server is a process, the client a socket.

mod answers;
mod calls;
pub(crate) mod client;
mod firewall;
mod lean;
mod listing;
mod lost;
mod sessions;
mod tasks;
mod walls;

use serde_json::Value;

use crate::support::{Home, Server};

/// Agents that answer at once, after a while, never, at length.
const CONFIG: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: never }
          delay_ms: 600000
          text: never said
        - when: { agent: later }
          delay_ms: 2500
          text: \"later: {{prompt}}\"
        - when: { agent: reader, turn: 1 }
          calls: [{ tool: Read, input: { path: \"{{prompt}}\", bytes: true } }]
        - when: { agent: reader, contains: echo }
          delay_ms: 150
          text: \"{{last}}\"
        - when: { agent: reader }
          delay_ms: 150
          text: \"{{last.lines}} lines are in {{prompt}}\"
        - when: { agent: teller, turn: 1 }
          calls: [{ tool: Read, input: { path: \"{{prompt}}\", bytes: true } }]
        - when: { agent: teller }
          text: \"{{last}}{{last}}{{last}}{{last}}{{last}}{{last}}\"
        - when: { agent: writer, turn: 1 }
          calls: [{ tool: Artifact, input: { op: write, name: notes.md, text: \"{{prompt}}\" } }]
        - text: \"you said {{prompt}}\"
defaults: { provider: script, model: test }
concurrency: { max_concurrent_runs: 4 }
agents:
  echo: { description: Says it again., tools: [], agents: [], hosts: [] }
  later: { description: Says it after a while., tools: [], agents: [], hosts: [] }
  never: { description: Never says it., tools: [], agents: [], hosts: [] }
  reader: { description: Reads a file and counts its lines., tools: [Read], agents: [], hosts: [] }
  teller: { description: Reads a file and says what is in it., tools: [Read], agents: [], hosts: [] }
  writer: { description: Writes it down., tools: [Artifact], agents: [], hosts: [] }
volumes:
  notes: { path: notes, mode: ro, default: true }
";

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

fn server() -> (Home, Server) {
    let home = home();
    let server = home.serve();
    (home, server)
}

/// Looks at a run over REST, and waits for its end.
fn run(url: &str, id: &str) -> Value {
    let mut reply = client::Client::new(url, client::Era::Sessions)
        .at(&format!("/v1/runs/{id}?wait_ms=20000"))
        .send_as("GET", None);
    reply.next().expect("a run")
}

/// The runs that there are, oldest first.
fn runs(url: &str) -> Vec<Value> {
    let mut reply = client::Client::new(url, client::Era::Sessions).at("/v1/runs?limit=200").send_as("GET", None);
    let mut runs = reply.next().expect("a page")["runs"].as_array().expect("runs").clone();
    runs.reverse();
    runs
}
