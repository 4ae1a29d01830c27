//! Ten turns with thoughts and tools of a model of each driver: what `run --thinking`, `runs show` and the result say of them, and what
//! they cost. The servers are as strict as the real ones.

use drawloom_testkit::{
    dialects::{TURNS, ten_turns},
    providers::{Provider, Settings, Shape},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{looks::normal, support::Home};

/// Agent, its provider as the config has it, and its model. The script has no server.
const AGENTS: [(&str, &str, Option<Shape>, &str); 5] = [
    ("claude", "driver: anthropic", Some(Shape::Anthropic), "claude-opus-5-5"),
    ("sol", "driver: openai, options: { api: responses }", Some(Shape::Responses), "gpt-6-sol"),
    ("chat", "driver: openai, options: { api: chat }", Some(Shape::Openai), "gpt-5.2"),
    ("deep", "driver: deepseek", Some(Shape::Deepseek), "deepseek-v4-pro"),
    ("scripted", "driver: script", None, "test"),
];

/// A home with an agent of each driver, and the servers of their models.
fn home(runtime: &Runtime) -> (Home, Vec<Provider>) {
    let home = Home::new();
    let (mut servers, mut providers, mut agents) = (Vec::new(), String::new(), String::new());
    for (agent, config, shape, model) in AGENTS {
        let more = match shape {
            Some(shape) => {
                let server = runtime.block_on(Provider::start(Settings::new(shape), ten_turns)).expect("a port");
                let address = format!(", base_url: \"{}\"", server.base_url());
                servers.push(server);
                address
            }
            None => format!(", options: {{ rules: {} }}", rules()),
        };
        providers += &format!("  {agent}: {{ {config}{more} }}\n");
        agents += &format!(
            "  {agent}: {{ provider: {agent}, model: {model}, effort: high, tools: [Read], agents: [], hosts: [] }}\n"
        );
    }
    let lines: String = (1..TURNS).map(|line| format!("line {line} of the note\n")).collect();
    home.write("notes/note.txt", &lines);
    home.write(
        "drawloom.yaml",
        &format!(
            "listen: 127.0.0.1:0\nproviders:\n{providers}agents:\n{agents}\
             pricing: {{ models: {{ scripted/test: {{ input: 3, output: 15 }} }} }}\n\
             volumes: {{ notes: {{ path: notes, mode: ro, default: true }} }}\n"
        ),
    );
    home.run(&["trust", "--yes"]).exits(0);
    (home, servers)
}

/// The same steps for the scripted model.
fn rules() -> Value {
    let step = |turn: usize| {
        json!({
            "when": { "turn": turn }, "thinking": format!("Line {turn:02} comes next, I think."),
            "calls": [{ "tool": "Read", "input": { "path": "note.txt", "offset": turn, "limit": 1 } }],
        })
    };
    let last = json!({ "thinking": "Line 10 comes next, I think.", "text": "All ten lines are read." });
    (1..TURNS).map(step).chain([last]).collect()
}

/// The same however long it took.
fn timeless(text: &str) -> String {
    normal(text).replace("N.N s", "N ms").replace(" (N ms in the queue)", "")
}

#[test]
fn ten_turns_with_thoughts_and_tools_look_alike_from_every_api() {
    let runtime = Runtime::new().expect("a runtime");
    let (home, servers) = home(&runtime);
    let _server = home.serve();
    for (agent, _, shape, _) in AGENTS {
        let ran = home.run(&["run", agent, "Read every line.", "--thinking"]).exits(0);
        let shown = home.run(&["runs", "show", "last"]).exits(0).stdout;
        let result = home.run(&["runs", "show", "last", "--json"]).exits(0).json();
        insta::assert_snapshot!(
            format!("{agent}_run"),
            timeless(&format!("{}--- stdout\n{}--- runs show\n{shown}", ran.stderr, ran.stdout))
        );
        assert_eq!(result["status"], "completed", "{agent}: {result}");
        assert!(result["warnings"].as_array().is_none_or(Vec::is_empty), "{agent}: {result}");
        if shape.is_some() {
            let expected = json!({
                "input_tokens": 1000, "output_tokens": 400, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 600, "reasoning_tokens": 70,
            });
            assert_eq!(result["usage"], expected, "{agent}");
        }
    }
    let rejected = servers.iter().flat_map(Provider::calls).filter(|call| call.status != 200).count();
    assert_eq!(rejected, 0);
}
