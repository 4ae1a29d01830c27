//! The page `docs/reference/models.md`: every known model with tools on offer, and what a request says of thinking, sampling and caching.

use std::{fmt::Write as _, fs, path::Path, sync::Arc};

use drawloom_contract::{
    choice::{Effort, Sampling},
    ids::{RunId, RunKey, Tenant},
    message::Message,
    model::TurnRequest,
    tool::ToolCard,
};
use serde_json::{Value, json};

use crate::{
    Driver, Options, anthropic::Anthropic, deepseek::Deepseek, known::Row, openai::Openai, remote::Api,
    responses::Responses,
};

const HEAD: &str = "\
# Known models

A test makes this page (`UPDATE_DOCS=1 cargo test -p drawloom-models table`). A model is found by the beginning of its name; prices and
contexts of others are set in the [config](../models.md). The columns show what a request with tools and `effort: high` contains.

";

pub(crate) fn request(model: &str) -> TurnRequest {
    let card = ToolCard {
        name: "Read".into(),
        description: "Read a file.".into(),
        input_schema: json!({ "type": "object" }).into(),
    };
    let sampling: Sampling = serde_json::from_value(json!({ "temperature": 0.5, "top_p": 0.5 })).expect("a sampling");
    TurnRequest {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([7; 16]) },
        root: RunId::from_bytes([7; 16]),
        agent: "reader".parse().expect("a name"),
        model: model.into(),
        turn: 1,
        attempt: 1,
        system: "You read files.".into(),
        messages: vec![Arc::new(Message::user("Read a."))],
        tools: Arc::new([card]),
        max_tokens: 16_384,
        effort: Some(Effort::High),
        sampling: Arc::new(sampling),
    }
}

/// What a body says of thinking; nothing when it says nothing.
fn thinking(body: &Value) -> Option<String> {
    let effort = |value: &Value| value.as_str().map(|effort| format!("effort {effort}"));
    match body["thinking"]["type"].as_str() {
        Some("enabled") if body["thinking"]["budget_tokens"].is_u64() => {
            return Some(format!("{} tokens", body["thinking"]["budget_tokens"]));
        }
        Some("disabled") => return Some("off".into()),
        _ => {}
    }
    let efforts = [&body["output_config"]["effort"], &body["reasoning"]["effort"], &body["reasoning_effort"]];
    efforts.into_iter().find_map(effort)
}

fn sampling(body: &Value) -> String {
    let sent = ["temperature", "top_p"].into_iter().filter(|key| !body[*key].is_null());
    sent.collect::<Vec<_>>().join(", ")
}

fn caching(body: &Value) -> &'static str {
    match (body.to_string().contains("cache_control"), body["prompt_cache_key"].is_string()) {
        (true, _) => "marks",
        (_, true) => "key of the tree",
        _ => "by itself",
    }
}

fn section(page: &mut String, title: &str, api: &'static dyn Api, rows: &[Row]) {
    let options = Options::default();
    _ = writeln!(page, "## {title}\n");
    page.push_str("| model | context | in / out per 1M | thinks with tools | thinking | sampling | caching | checked |\n|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let known = api.known(row.prefix, &options);
        let card = known.card(api.driver(), row.prefix);
        let body = api.encode(&request(row.prefix), &known, &options).body;
        let said = thinking(&body);
        let is_off = matches!(said.as_deref(), None | Some("off" | "effort none"));
        // What the run's warning goes by.
        assert_eq!(card.thinks_with_tools, !is_off, "{title} {}: {said:?}", row.prefix);
        let thinks = match (card.thinks, card.thinks_with_tools) {
            (_, true) => "yes",
            (true, false) => "no: the run has a warning",
            (false, false) => "does not think",
        };
        let price = row.price.map_or("unknown".to_owned(), |[input, output, ..]| format!("${input} / ${output}"));
        _ = writeln!(
            page,
            "| `{}` | {} | {price} | {thinks} | {} | {} | {} | {}, {} |",
            row.prefix,
            row.context,
            said.unwrap_or_default(),
            sampling(&body),
            caching(&body),
            row.checked.0,
            row.checked.1,
        );
    }
    page.push('\n');
}

#[test]
fn the_page_of_known_models_is_as_the_drivers_send() {
    let mut page = HEAD.to_owned();
    section(&mut page, "Anthropic", &Anthropic, Row::of(Driver::Anthropic));
    section(&mut page, "OpenAI, Responses", &Responses, Row::of(Driver::Openai));
    section(&mut page, "OpenAI, Chat Completions", &Openai, Row::of(Driver::Openai));
    section(&mut page, "DeepSeek", &Deepseek, Row::of(Driver::Deepseek));
    let page = format!("{}\n", page.trim_end());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/models.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &page).expect("the page");
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), page, "run it with UPDATE_DOCS=1");
}
