//! Tools that answer with a question and go on when it is called again with the answer (2026-07-28).

use std::sync::LazyLock;

use drawloom_server::mcp::{
    Ask, Outcome,
    rmcp::{
        ErrorData,
        model::{CallToolRequestParams, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, Tool},
    },
};
use serde_json::{Value, json};

use crate::{
    fixtures::of,
    tools::{nothing, text, tool},
};

/// Seals what the client carries for us from round to round.
static STATE: LazyLock<RequestStateCodec> = LazyLock::new(|| {
    RequestStateCodec::try_new(*b"a key of the fixtures, and of nothing else").expect("it is long enough")
});

pub(crate) fn list() -> Vec<Tool> {
    let plain = |name, description| tool(name, description, nothing());
    vec![
        plain("test_input_required_result_elicitation", "Asks for a name."),
        plain("test_input_required_result_sampling", "Asks the client's model."),
        plain("test_input_required_result_list_roots", "Asks for roots."),
        plain("test_input_required_result_request_state", "Asks, and checks its own state."),
        plain("test_input_required_result_multiple_inputs", "Asks three things at once."),
        plain("test_input_required_result_multi_round", "Asks twice."),
        plain("test_input_required_result_tampered_state", "Asks, and notices when its state was changed."),
        plain("test_input_required_result_capabilities", "Asks only what the client can answer."),
        plain("test_streaming_elicitation", "Asks for a name."),
    ]
}

/// A question for a text.
pub(crate) fn elicit(message: &str, field: &str) -> Value {
    elicit_a(message, field, "string")
}

fn elicit_a(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

fn sample(prompt: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// Questions, and what is to come back with the answers.
pub(crate) fn ask_for<const N: usize>(questions: [(&str, Value); N], state: Option<&str>) -> InputRequiredResult {
    let requests: InputRequests = questions.into_iter().map(|(key, question)| (key.to_owned(), of(question))).collect();
    InputRequiredResult::new(Some(requests), state.map(|state| STATE.seal(state.as_bytes())))
}

/// A field of an accepted answer, if there is an answer.
pub(crate) fn answer(answers: &Option<InputResponses>, key: &str, field: &str) -> Result<Option<String>, ErrorData> {
    let Some(answer) = answers.as_ref().and_then(|answers| answers.get(key)) else { return Ok(None) };
    let value = answer.get("content").and_then(|content| content.get(field));
    match value {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Ok(Some(other.to_string())),
        None => Err(ErrorData::invalid_params(format!("the answer {key:?} has no {field}"), None)),
    }
}

fn has(answers: &Option<InputResponses>, key: &str) -> bool {
    answers.as_ref().is_some_and(|answers| answers.contains_key(key))
}

/// What was sealed in an earlier round.
fn opened(params: &CallToolRequestParams) -> Result<String, ErrorData> {
    let sealed = params.request_state.as_deref().unwrap_or_default();
    let opened = STATE.open(sealed).map_err(|_| ErrorData::invalid_params("requestState is not ours", None))?;
    String::from_utf8(opened).map_err(|_| ErrorData::invalid_params("requestState is not ours", None))
}

/// Answers a call, if the tool is one of these.
pub(crate) fn call(ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
    let answers = &params.input_responses;
    let outcome = match &*params.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => answer(answers, "user_name", "name")
            .map(|name| match name {
                Some(name) => Outcome::Done(text(format!("Hello, {name}!"))),
                None => Outcome::Input(ask_for([("user_name", elicit("What is your name?", "name"))], None)),
            }),
        "test_input_required_result_sampling" => Ok(match has(answers, "capital_question") {
            true => Outcome::Done(text(format!("The model said: {}", json!(answers)["capital_question"]))),
            false => Outcome::Input(ask_for([("capital_question", sample("What is the capital of France?"))], None)),
        }),
        "test_input_required_result_list_roots" => Ok(match has(answers, "client_roots") {
            true => Outcome::Done(text(format!("The roots are: {}", json!(answers)["client_roots"]["roots"]))),
            false => Outcome::Input(ask_for([("client_roots", roots())], None)),
        }),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match has(answers, "confirm") || params.request_state.is_some() {
                true => opened(params).map(|_| Outcome::Done(text("state-ok"))),
                false => {
                    let question = elicit_a("Please confirm", "ok", "boolean");
                    Ok(Outcome::Input(ask_for([("confirm", question)], Some("asked"))))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let all = ["user_name", "greeting", "client_roots"].iter().all(|key| has(answers, key));
            match all {
                true => opened(params).map(|_| Outcome::Done(text("All three answers are here."))),
                false => Ok(Outcome::Input(ask_for(
                    [
                        ("user_name", elicit("What is your name?", "name")),
                        ("greeting", sample("Generate a greeting")),
                        ("client_roots", roots()),
                    ],
                    Some("asked"),
                ))),
            }
        }
        "test_input_required_result_multi_round" => rounds(params),
        "test_input_required_result_capabilities" => Ok(Outcome::Input(within_capabilities(ask))),
        _ => return None,
    };
    Some(outcome)
}

fn rounds(params: &CallToolRequestParams) -> Result<Outcome, ErrorData> {
    let answers = &params.input_responses;
    if has(answers, "step2") {
        let name = opened(params)?;
        let color = answer(answers, "step2", "color")?.unwrap_or_default();
        return Ok(Outcome::Done(text(format!("{name} likes {color}."))));
    }
    if let Some(name) = answer(answers, "step1", "name")? {
        opened(params)?;
        let question = elicit("Step 2: What is your favorite color?", "color");
        return Ok(Outcome::Input(ask_for([("step2", question)], Some(&name))));
    }
    Ok(Outcome::Input(ask_for([("step1", elicit("Step 1: What is your name?", "name"))], Some("begun"))))
}

fn within_capabilities(ask: &Ask) -> InputRequiredResult {
    let known = ask.context.client_capabilities().unwrap_or_default();
    let known = serde_json::to_value(known).expect("capabilities are JSON");
    if known.get("sampling").is_some() {
        ask_for([("greeting", sample("Generate a greeting"))], None)
    } else {
        ask_for([("user_name", elicit("What is your name?", "name"))], None)
    }
}
