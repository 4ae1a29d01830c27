//! The recipes of `docs/models.md`: each block runs an agent with a tool to its end, against a server with the ways of the real one.

use drawloom_testkit::providers::{Make, Provider, ServedModel, Settings, parrot};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    docs::workspace,
    support::{Home, Ran},
};

/// A server, where its recipe has it, and the variable of its key.
struct Recipe {
    title: &'static str,
    /// Its name in the block.
    provider: &'static str,
    make: Make,
    address: &'static str,
    /// The model that the server has.
    model: &'static str,
    key_env: Option<&'static str>,
}

static RECIPES: [Recipe; 6] = [
    Recipe {
        title: "OpenRouter",
        provider: "openrouter",
        make: Make::OpenRouter,
        address: "https://openrouter.ai",
        model: "qwen/qwen3-coder",
        key_env: Some("OPENROUTER_API_KEY"),
    },
    Recipe {
        title: "Azure OpenAI",
        provider: "azure",
        make: Make::Azure,
        address: "https://RESOURCE.openai.azure.com",
        model: "DEPLOYMENT",
        key_env: Some("AZURE_OPENAI_API_KEY"),
    },
    Recipe {
        title: "Ollama",
        provider: "ollama",
        make: Make::Ollama,
        address: "http://127.0.0.1:11434",
        model: "qwen3:8b",
        key_env: None,
    },
    Recipe {
        title: "llama.cpp",
        provider: "llamacpp",
        make: Make::LlamaCpp,
        address: "http://127.0.0.1:8080",
        model: "model.gguf",
        key_env: None,
    },
    Recipe {
        title: "vLLM",
        provider: "vllm",
        make: Make::Vllm,
        address: "http://127.0.0.1:8000",
        model: "Qwen/Qwen3-8B",
        key_env: None,
    },
    Recipe {
        title: "LM Studio",
        provider: "lmstudio",
        make: Make::LmStudio,
        address: "http://127.0.0.1:1234",
        model: "qwen/qwen3-8b",
        key_env: None,
    },
];

const KEY: &str = "a-key-of-the-recipes";

/// What an agent is asked, so that the server's model calls a tool.
const PROMPT: &str = "call Read {\"path\":\"note.txt\"}";

/// The first block under a heading of the page.
fn block(heading: &str) -> String {
    let page = std::fs::read_to_string(workspace().join("docs/models.md")).expect("the page");
    let section = page.split_once(&format!("\n{heading}\n")).expect("the heading").1;
    let rest = section.split_once("```yaml\n").expect("a block").1;
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A recipe that is in use: its server, and a project with its config as it is printed, but for the address.
struct Started {
    recipe: &'static Recipe,
    provider: Provider,
    home: Home,
    /// The data is elsewhere, because the volume is the home.
    data: TempDir,
}

impl Started {
    async fn new(recipe: &'static Recipe, model: ServedModel) -> Self {
        Self::with(recipe, Settings::of(recipe.make, [model])).await
    }

    async fn with(recipe: &'static Recipe, settings: Settings) -> Self {
        let settings = if recipe.key_env.is_some() { settings.key(KEY) } else { settings };
        let provider = Provider::start(settings, parrot).await.expect("a free port");
        let models = block(&format!("### {}", recipe.title));
        assert!(models.contains(recipe.address), "{models}");
        let models = models.replace(recipe.address, &provider.base_url());
        let home = Home::new();
        home.write("drawloom.yaml", &format!("listen: 127.0.0.1:0\n{models}{}", block("## Recipes")));
        home.write("note.txt", "remember the milk");
        let data = tempfile::tempdir().expect("a temporary directory");
        let started = Self { recipe, provider, home, data };
        started.run(&["trust", "--yes"]).exits(0);
        started
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.home.command(arguments);
        command.env("DRAWLOOM_DATA_DIR", self.data.path());
        self.recipe.key_env.map(|name| command.env(name, KEY));
        self.home.finish(&mut command)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_recipe_runs_an_agent_with_a_tool() {
    for recipe in &RECIPES {
        let started = Started::new(recipe, ServedModel::new(recipe.model, 20_000)).await;
        let title = recipe.title;
        let validated = started.run(&["validate"]).exits(0);
        assert!(validated.stdout.contains("no mistakes"), "{title}: {validated:?}");
        let ran = started.run(&["run", "helper", PROMPT, "--json"]).exits(0).json();
        let text = ran["final_text"].as_str().unwrap_or_default();
        assert!(text.contains("remember the milk"), "{title}: {ran}");
        assert!(ran["assumed_cost"].is_null(), "{title}: {ran}");
        let is_azure = recipe.make == Make::Azure;
        let limit = started.provider.asked()[0].body["max_tokens"].as_u64();
        assert_eq!(limit, Some(if is_azure { 16_384 } else { 8_192 }), "{title}");
        let listed = started.run(&["models", "list", "--remote", recipe.provider, "--json"]).exits(0).json();
        let models = listed["remote"].as_array().expect("models");
        let contexts: Vec<&Value> = models.iter().map(|model| &model["context_tokens"]).collect();
        match is_azure {
            true => assert_eq!(contexts, [&Value::Null, &Value::Null], "{listed}"),
            false => assert_eq!(contexts, [20_000], "{title}: {listed}"),
        }
        let doctor = started.run(&["doctor", "--keys"]);
        assert!(doctor.stdout.contains(&format!("{}: accepted", recipe.provider)), "{title}: {doctor:?}");
    }
}

/// Without the true context a turn would ask for more than fits, and vLLM rejects that.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_context_limits_what_a_turn_asks_for() {
    let recipe = &RECIPES[4];
    let started = Started::new(recipe, ServedModel::new(recipe.model, 4_096)).await;
    started.run(&["run", "helper", "hello"]).exits(0);
    let limit = started.provider.asked()[0].body["max_tokens"].as_u64().expect("a limit");
    assert!((512..=2_048).contains(&limit), "{limit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_tools_is_told_before_its_first_turn_that_its_model_takes_none() {
    let says_so = |recipe: &&Recipe| matches!(recipe.make, Make::OpenRouter | Make::Ollama | Make::LlamaCpp);
    for recipe in RECIPES.iter().filter(says_so) {
        let started = Started::new(recipe, ServedModel::new(recipe.model, 20_000).without_tools()).await;
        let ran = started.run(&["run", "helper", PROMPT]).exits(1);
        let address = started.provider.address().to_string();
        for part in ["model_without_tools", recipe.provider, &address, "models list --remote"] {
            assert!(ran.stderr.contains(part), "{}: no {part} in {ran:?}", recipe.title);
        }
        assert!(started.provider.asked().is_empty(), "{}", recipe.title);
        let doctor = started.run(&["doctor", "--keys"]);
        assert!(doctor.stdout.contains("agent helper has tools"), "{}: {doctor:?}", recipe.title);
        let listed = started.run(&["models", "list", "--remote", recipe.provider]).exits(0);
        assert!(listed.stdout.contains("  no"), "{}: {listed:?}", recipe.title);
    }
}

#[test]
fn a_config_that_says_a_model_takes_no_tools_is_warned_about() {
    let home = Home::new();
    let models =
        block("### Ollama").replace("/v1\" }", "/v1\", options: { capabilities: { supports_tools: false } } }");
    home.write("drawloom.yaml", &format!("{models}{}", block("## Recipes")));
    let data = tempfile::tempdir().expect("a temporary directory");
    let validated = home.finish(home.command(&["validate", "--json"]).env("DRAWLOOM_DATA_DIR", data.path()));
    let validated = validated.exits(0).json();
    let warning = validated["findings"][0]["message"].as_str().unwrap_or_default();
    assert_eq!(warning, "agent helper has tools, but its model ollama/qwen3:8b takes none", "{validated}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_server_without_usage_are_estimated_and_said_to_be() {
    let recipe = &RECIPES[5];
    let settings = Settings::of(recipe.make, [ServedModel::new(recipe.model, 20_000)]).without_usage();
    let started = Started::with(recipe, settings).await;
    let ran = started.run(&["run", "helper", PROMPT]).exits(0);
    assert!(ran.stderr.contains(" ~") && ran.stderr.contains("~ estimated"), "{ran:?}");
    let shown = started.run(&["runs", "show", "last", "--json"]).exits(0).json();
    let tokens = |key: &str| shown["usage"][key].as_u64().unwrap_or_default();
    // Two turns of a few hundred tokens; the limit of each, 8,192, was not reserved for anything.
    assert!((100..5_000).contains(&tokens("input_tokens")), "{shown}");
    assert!((2..200).contains(&tokens("output_tokens")), "{shown}");
    let tail = started.run(&["runs", "tail", "last", "--json"]).exits(0);
    assert_eq!(tail.stdout.matches("\"usage_assumed\"").count(), 1, "{tail:?}");
}
