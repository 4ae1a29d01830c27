//! Prompts of the config, such as slash commands that were imported: a person picks one in an MCP host.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CompleteRequestParams, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        Resource, ResourceTemplate, Role, Tool,
    },
};
use serde_json::Value;

use crate::{
    app::App,
    config::PromptConfig,
    mcp::table::{Ask, Outcome, Pending, Table, Terms, View},
};

/// The argument that holds all that the person typed.
const ALL: &str = "arguments";

/// The prompts of a config.
pub struct Configured {
    prompts: BTreeMap<String, PromptConfig>,
}

impl Configured {
    pub fn new(prompts: BTreeMap<String, PromptConfig>) -> Self {
        Self { prompts }
    }
}

/// The text with its arguments filled in, in one pass: what an argument holds is never taken for a place.
fn fill(text: &str, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let mut filled = String::with_capacity(text.len() + arguments.len());
    let mut rest = text;
    let mut is_used = false;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digit = after.chars().next().and_then(|sign| sign.to_digit(10)).filter(|digit| *digit > 0);
        // `$10` and `$5.50` are amounts, not a word and more digits.
        let next = after.get(1..).unwrap_or_default();
        let is_number = next.trim_start_matches(['.', ',']).starts_with(|sign: char| sign.is_ascii_digit());
        if let Some(after) = after.strip_prefix("ARGUMENTS") {
            filled.push_str(arguments);
            (rest, is_used) = (after, true);
        } else if let Some(digit) = digit.filter(|_| !is_number) {
            filled.push_str(words.get(digit as usize - 1).copied().unwrap_or_default());
            (rest, is_used) = (&after[1..], true);
        } else {
            filled.push('$');
            rest = after;
        }
    }
    filled.push_str(rest);
    // Where the text has no place for them, they follow it, as in Claude Code.
    if !is_used && !arguments.is_empty() {
        filled.push_str(&format!("\n\nARGUMENTS: {arguments}"));
    }
    filled
}

#[async_trait]
impl Table for Configured {
    fn tools(&self, _: &View) -> Vec<Tool> {
        Vec::new()
    }

    fn find_tool(&self, _: &str) -> Option<Tool> {
        None
    }

    async fn call(&self, _: &Ask, _: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
        None
    }

    async fn find_task(
        &self,
        _: &Arc<App>,
        _: &View,
        _: &str,
        _: Terms,
    ) -> Option<Result<Box<dyn Pending>, ErrorData>> {
        None
    }

    async fn resources(&self, _: &Ask) -> Result<Vec<Resource>, ErrorData> {
        Ok(Vec::new())
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    async fn read_resource(
        &self,
        _: &Ask,
        _: &ReadResourceRequestParams,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        None
    }

    async fn find_resource(&self, _: &Ask, _: &str) -> Option<Result<(), ErrorData>> {
        None
    }

    async fn resource_changed(&self, _: &Ask, _: &str) -> Option<Result<(), ErrorData>> {
        None
    }

    fn prompts(&self) -> Vec<Prompt> {
        let prompts = self.prompts.iter().map(|(name, prompt)| {
            let hint = prompt.argument_hint.as_deref().unwrap_or("What the prompt is about.");
            let argument = PromptArgument::new(ALL).with_description(hint).with_required(false);
            Prompt::new(name, prompt.description.as_deref(), Some(vec![argument]))
        });
        prompts.collect()
    }

    async fn get_prompt(
        &self,
        _: &Ask,
        params: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>> {
        let prompt = self.prompts.get(&params.name)?;
        let given = params.arguments.as_ref();
        if let Some(unknown) = given.into_iter().flat_map(|given| given.keys()).find(|key| *key != ALL) {
            let message = format!("{} has no argument {unknown:?}; it takes {ALL:?}", params.name);
            return Some(Err(ErrorData::invalid_params(message, None)));
        }
        let arguments = match given.and_then(|given| given.get(ALL)) {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text.trim(),
            Some(_) => return Some(Err(ErrorData::invalid_params(format!("the argument {ALL} must be a text"), None))),
        };
        let message = PromptMessage::new_text(Role::User, fill(&prompt.text, arguments));
        let result = GetPromptResult::new(vec![message]);
        Some(Ok(match &prompt.description {
            Some(description) => result.with_description(description).into(),
            None => result.into(),
        }))
    }

    async fn complete(&self, _: &Ask, _: &CompleteRequestParams) -> Option<Result<CompletionInfo, ErrorData>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_take_their_places_once() {
        for (text, arguments, filled) in [
            ("Fix $ARGUMENTS now.", "a $1 b", "Fix a $1 b now."),
            ("Move $1 to $2; $3.", "here there", "Move here to there; ."),
            ("It costs $10, or $5.50, or $HOME.", "", "It costs $10, or $5.50, or $HOME."),
            ("No place.", "a b", "No place.\n\nARGUMENTS: a b"),
            ("No place.", "", "No place."),
            ("$", "x", "$\n\nARGUMENTS: x"),
        ] {
            assert_eq!(fill(text, arguments), filled, "{text}");
        }
    }
}
