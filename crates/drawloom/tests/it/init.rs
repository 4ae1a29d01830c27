//! `init`: a first config that works at once.

use std::fs;

use drawloom_testkit::providers::{Make, Provider, ServedModel, Settings, parrot};

use crate::support::{Home, Ran};

const KEYS: [(&str, &str); 3] =
    [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"), ("deepseek", "DEEPSEEK_API_KEY")];
const VALUE: &str = "a-key-that-nobody-may-see";

/// A home without a config.
fn empty() -> Home {
    let home = Home::new();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    home
}

/// Runs a command with the keys whose bit is set, and its data outside of the home, which is a volume.
fn with_keys(home: &Home, bits: u8, arguments: &[&str]) -> Ran {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut command = home.command(arguments);
    command.env("DRAWLOOM_DATA_DIR", data.path());
    for (bit, (_, variable)) in KEYS.iter().enumerate() {
        if bits & (1 << bit) != 0 {
            command.env(variable, VALUE);
        }
    }
    home.finish(&mut command)
}

/// Whether this build has the driver.
fn is_built(home: &Home, driver: &str) -> bool {
    home.run(&["config", "schema"]).exits(0).stdout.contains(&format!("\"const\": \"{driver}\""))
}

#[test]
fn what_it_writes_is_valid_for_every_combination_of_keys_and_shows_none() {
    for bits in 0..8 {
        let home = empty();
        let made = with_keys(&home, bits, &["init"]).exits(0);
        let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
        for shown in [&made.stdout, &made.stderr, &text] {
            assert!(!shown.contains(VALUE), "{shown}");
        }
        let checked = with_keys(&home, bits, &["validate"]).exits(0);
        assert!(checked.stdout.contains("no mistakes"), "{bits}: {checked:?}");
        for (bit, (provider, variable)) in KEYS.iter().enumerate() {
            let line = format!("{provider}: {{ driver: {provider}, api_key_env: {variable} }}\n");
            let wanted = bits & (1 << bit) != 0 && is_built(&home, provider);
            assert_eq!(text.contains(&format!("\n  {line}")), wanted, "{bits} {provider}: {text}");
        }
        let agents = with_keys(&home, bits, &["agents", "list", "--json"]).exits(0).json();
        let names: Vec<&str> =
            agents["agents"].as_array().expect("agents").iter().filter_map(|a| a["name"].as_str()).collect();
        assert_eq!(names, ["clarity", "correctness", "lead"], "{bits}");
    }
}

#[test]
fn without_a_key_a_run_works_right_away() {
    let home = empty();
    let made = home.run(&["init", "--yes"]).exits(0);
    assert!(made.stdout.contains("drawloom run lead"), "{made:?}");
    let written: Vec<&str> = made.stdout.lines().filter_map(|line| line.strip_prefix("✓ wrote ")).collect();
    assert!(matches!(written[..], ["drawloom.yaml", schema] if schema.starts_with(".drawloom/")), "{made:?}");
    let ran = with_keys(&home, 0, &["run", "lead", "hello"]).exits(0);
    assert!(ran.stdout.contains("hello"), "{ran:?}");
    for reviewer in ["correctness", "clarity"] {
        assert!(ran.stderr.contains(reviewer), "no run of {reviewer}: {ran:?}");
    }
    let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let schema = text.strip_prefix("# yaml-language-server: $schema=").and_then(|rest| rest.lines().next());
    let schema = fs::read_to_string(home.path().join(schema.expect("a line for editors"))).expect("the schema");
    assert_eq!(schema, home.run(&["config", "schema"]).exits(0).stdout);
    // Somebody else on this machine may have the usual port.
    let config = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("drawloom.yaml", &format!("listen: 127.0.0.1:0\n{config}"));
    with_keys(&home, 0, &["doctor"]).exits(0);
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_somebody_says_so() {
    let home = Home::new();
    let before = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let refused = home.run(&["init"]).exits(3);
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config"), before);
    let json = home.run(&["init", "--force", "--json"]).exits(0).json();
    assert_eq!(json["providers"], serde_json::json!(["script"]));
    assert_ne!(fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config"), before);
    home.run(&["init", "elsewhere.yaml"]).exits(0);
    home.run(&["validate", "elsewhere.yaml"]).exits(0);
    home.run(&["init", "no/such/folder.yaml"]).exits(1);
}

/// In a folder that contains the data directory, such as a home directory, agents get a folder of their own.
#[test]
fn what_it_writes_runs_where_the_data_is_inside_the_folder() {
    let home = empty();
    let made = home.run(&["init"]).exits(0);
    assert!(made.stderr.contains("contains the data directory"), "{made:?}");
    assert!(home.path().join("workspace").is_dir());
    home.run(&["run", "lead", "hello"]).exits(0);
}

async fn server(make: Make, models: Vec<ServedModel>) -> Provider {
    Provider::start(Settings::of(make, models), parrot).await.expect("a free port")
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_it_finds_a_local_server_and_a_model_that_takes_tools() {
    let without = || ServedModel::new("gemma3:1b", 8_192).without_tools();
    for (make, provider) in
        [(Make::Ollama, "ollama"), (Make::LmStudio, "lmstudio"), (Make::LlamaCpp, "llamacpp"), (Make::Vllm, "vllm")]
    {
        let fit = ServedModel::new("qwen3:8b", 32_768);
        let models = if make == Make::Ollama { vec![without(), fit] } else { vec![fit] };
        let server = server(make, models).await;
        // A port without a server comes first, so the found one is not the first that is asked.
        let local = format!("127.0.0.1:1,{}", server.address());
        let home = empty();
        let made = with_keys(&home, 0, &["init", "--local", &local]).exits(0);
        assert!(made.stdout.contains("using its model qwen3:8b"), "{made:?}");
        let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
        let line = format!("{provider}: {{ driver: openai, base_url: \"http://{}/v1\" }}", server.address());
        assert!(text.contains(&line), "{text}");
        assert!(with_keys(&home, 0, &["validate"]).exits(0).stdout.contains("no mistakes"), "{text}");
        let ran = with_keys(&home, 0, &["run", "lead", "call Glob {\"pattern\":\"*.yaml\"}"]).exits(0);
        assert!(ran.stdout.contains("drawloom.yaml"), "{ran:?}");
        let json = with_keys(&home, 0, &["init", "--force", "--json", "--local", &local]).exits(0).json();
        assert_eq!(json["providers"], serde_json::json!([provider]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_server_is_not_used_when_a_key_is_set_or_no_model_takes_tools() {
    let only = server(Make::Ollama, vec![ServedModel::new("gemma3:1b", 8_192).without_tools()]).await;
    let local = only.address().to_string();
    let home = empty();
    let made = with_keys(&home, 0, &["init", "--local", &local]).exits(0);
    assert!(made.stdout.contains("a script plays the model"), "{made:?}");
    assert!(made.stderr.contains("none of its models takes tools"), "{made:?}");
    let fit = server(Make::Vllm, vec![ServedModel::new("qwen3:8b", 4_096)]).await;
    let local = fit.address().to_string();
    let made = with_keys(&home, 1, &["init", "--force", "--local", &local]).exits(0);
    assert!(made.stdout.contains("using the keys of anthropic"), "{made:?}");
    assert_eq!(fit.connections(), 0);
    let made = with_keys(&home, 0, &["init", "--force", "--local", &local]).exits(0);
    assert!(made.stderr.contains("a context of 4,096 tokens"), "{made:?}");
}
