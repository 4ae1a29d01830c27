//! Recipes that a person can pick in their client: each says to a model how to use the tools for a common job.

use drawloom_contract::journal::RunFilter;
use rmcp::{
    ErrorData,
    model::{
        CompleteRequestParams, CompletionInfo, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt,
        PromptArgument, PromptMessage, Reference, Role,
    },
};
use serde_json::Value;

use crate::mcp::{handler::unreadable, table::Ask};

struct Recipe {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    arguments: &'static [(&'static str, &'static str, Need)],
    /// `{name}` stands for an argument.
    text: &'static str,
}

#[derive(PartialEq)]
enum Need {
    Required,
    /// With what it is when nobody says.
    Optional(&'static str),
}

const AGENT: (&str, &str, Need) = ("agent", "The agent that does the work; list_agents names them.", Need::Required);

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "fan_out",
        title: "Fan a job out",
        summary: "Split a job into independent parts, hand them to agents at once, and put the answers together.",
        arguments: &[
            AGENT,
            ("job", "What is to be done.", Need::Required),
            ("parts", "Into how many parts at most.", Need::Optional("10")),
        ],
        text: "Split this job into independent parts, at most {parts}:\n\n{job}\n\nThen hand all parts out with one call of \
               spawn_runs (agent {agent}): each prompt must stand on its own, because the agents do not see this conversation. \
               Do not do the parts yourself, and do not open the files that they will read. If the answer says that the batch \
               goes on, wait with get_batch and wait_ms. A result that comes as an outline is long: read only what you need \
               of it with read_artifact. In the end put the answers together in the order of the parts, and say which \
               parts failed and why.",
    },
    Recipe {
        name: "review_in_slices",
        title: "Review code in slices",
        summary: "Let one agent review each part of a code base at the same time, then merge the findings.",
        arguments: &[
            AGENT,
            ("paths", "The directories to review, one a line or separated by commas.", Need::Required),
            ("focus", "What to look for.", Need::Optional("defects that lose data, break security or crash")),
        ],
        text: "Review these parts of the code, one agent for each, with one call of spawn_runs (agent {agent}):\n\n\
               {paths}\n\nTell each agent its path, to read the files there itself with its own tools, to look for {focus}, and \
               to answer with findings only: file and line, what is wrong, how sure it is, what to do. Do not open the files \
               yourself. When all are back, merge the findings: worst first, doubles once, each with its file and line, and \
               name the parts that could not be reviewed.",
    },
    Recipe {
        name: "second_opinion",
        title: "Ask for second opinions",
        summary: "Ask several agents the same question apart from each other, and compare what they say.",
        arguments: &[
            ("agents", "The agents to ask, separated by commas.", Need::Required),
            ("question", "What to ask.", Need::Required),
        ],
        text: "Ask each of these agents the same question, with one call of spawn_runs: {agents}\n\nThe question:\n\n\
               {question}\n\nThen say where they agree, where they differ and why that may be, and what you would do.",
    },
    Recipe {
        name: "pick_up",
        title: "Pick up what is going on",
        summary: "Find runs that are unfinished or that ended lately, and bring their results here.",
        arguments: &[],
        text: "Call list_runs and tell me what is queued, running or waiting, and what ended lately: agent, status, how long \
               it took. Wait for unfinished runs with get_run and wait_ms if there are few. For those that failed, say why.",
    },
];

/// All of them.
pub(super) fn list() -> Vec<Prompt> {
    RECIPES
        .iter()
        .map(|recipe| {
            let arguments: Vec<PromptArgument> = recipe
                .arguments
                .iter()
                .map(|(name, words, need)| {
                    PromptArgument::new(*name).with_description(*words).with_required(*need == Need::Required)
                })
                .collect();
            let arguments = (!arguments.is_empty()).then_some(arguments);
            Prompt::new(recipe.name, Some(recipe.summary), arguments).with_title(recipe.title)
        })
        .collect()
}

/// One of them, filled in.
pub(super) fn get(_: &Ask, params: &GetPromptRequestParams) -> Option<Result<GetPromptResponse, ErrorData>> {
    let recipe = RECIPES.iter().find(|recipe| recipe.name == params.name)?;
    Some(fill(recipe, params).map(|text| {
        let message = PromptMessage::new_text(Role::User, text);
        GetPromptResult::new(vec![message]).with_description(recipe.summary).into()
    }))
}

fn fill(recipe: &Recipe, params: &GetPromptRequestParams) -> Result<String, ErrorData> {
    let given = params.arguments.as_ref();
    if let Some(unknown) = given
        .into_iter()
        .flat_map(|given| given.keys())
        .find(|key| recipe.arguments.iter().all(|(name, _, _)| name != key))
    {
        return Err(ErrorData::invalid_params(format!("{} has no argument {unknown:?}", recipe.name), None));
    }
    let mut values = Vec::new();
    for (name, _, need) in recipe.arguments {
        let value = given.and_then(|given| given.get(*name));
        if value.is_some_and(|value| !value.is_string()) {
            return Err(ErrorData::invalid_params(format!("the argument {name} must be a text"), None));
        }
        let value = value.and_then(Value::as_str).filter(|text| !text.is_empty());
        let value = match (value, need) {
            (Some(value), _) => value,
            (None, Need::Optional(otherwise)) => otherwise,
            (None, Need::Required) => {
                return Err(ErrorData::invalid_params(format!("{} needs the argument {name}", recipe.name), None));
            }
        };
        values.push((format!("{{{name}}}"), value));
    }
    // One pass, so that what an argument holds is never taken for a place.
    let mut text = String::with_capacity(recipe.text.len());
    let mut rest = recipe.text;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(place, _)| rest.starts_with(place.as_str())) {
            Some((place, value)) => {
                text.push_str(value);
                rest = &rest[place.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// Agents for arguments that want one, and runs for resources.
pub(super) async fn complete(ask: &Ask, params: &CompleteRequestParams) -> Option<Result<CompletionInfo, ErrorData>> {
    let begun = params.argument.value.as_str();
    let names: Vec<String> = match &params.r#ref {
        Reference::Prompt(prompt) if RECIPES.iter().any(|recipe| recipe.name == prompt.name) => {
            if !matches!(params.argument.name.as_str(), "agent" | "agents") {
                return Some(Ok(CompletionInfo::default()));
            }
            let definitions = ask.app.definitions.list(&ask.view.caller.tenant);
            definitions.iter().map(|definition| definition.name.to_string()).collect()
        }
        Reference::Resource(resource) if resource.uri.starts_with("drawloom://runs/") => {
            let filter = RunFilter { limit: 100, ..RunFilter::default() };
            let views = match ask.app.runs.list(&ask.view.caller, filter).await {
                Ok(views) => views,
                Err(failure) => return Some(Err(unreadable(failure))),
            };
            views.iter().map(|view| view.run.to_string()).collect()
        }
        _ => return None,
    };
    let fitting = names.into_iter().filter(|name| name.starts_with(begun)).take(CompletionInfo::MAX_VALUES).collect();
    CompletionInfo::new(fitting).ok().map(Ok)
}
