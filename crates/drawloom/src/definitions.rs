//! Checks the sources of definitions that are made at runtime, with the validator that config files pass.

use drawloom_contract::definition::DefinitionKind;
use drawloom_substrate::{
    AgentConfig, SkillSource, VolumeConfig,
    channels::ChannelConfig,
    definitions::{SourceCheck, SourceProblem},
};
use drawloom_wire::validate::Validator;
use serde_json::Value;

use crate::resolve::refused::bad_agent_host;

/// The validators of all kinds.
pub(crate) struct SourceValidator {
    agent: Validator,
    channel: Validator,
    skill: Validator,
    volume: Validator,
}

impl Default for SourceValidator {
    fn default() -> Self {
        Self {
            agent: Validator::of::<AgentConfig>(),
            channel: Validator::of::<ChannelConfig>(),
            skill: Validator::of::<SkillSource>(),
            volume: Validator::of::<VolumeConfig>(),
        }
    }
}

impl SourceCheck for SourceValidator {
    fn check(&self, kind: DefinitionKind, source: &mut Value) -> Vec<SourceProblem> {
        let validator = match kind {
            DefinitionKind::Agent => &self.agent,
            DefinitionKind::Channel => &self.channel,
            DefinitionKind::Skill => &self.skill,
            DefinitionKind::Volume => &self.volume,
        };
        let problems = validator.check(source).err().unwrap_or_default().into_iter().map(|problem| SourceProblem {
            path: problem.path(),
            message: problem.message.replacen("the request", "the source", 1),
            hint: problem.hint,
        });
        let mut problems: Vec<SourceProblem> = problems.collect();
        if kind == DefinitionKind::Agent {
            let hosts = source.get("hosts").and_then(Value::as_array).into_iter().flatten();
            for (index, host) in hosts.enumerate() {
                if let Some((message, hint)) = host.as_str().and_then(bad_agent_host) {
                    problems.push(SourceProblem::new(format!("hosts[{index}]"), message).with_hint(hint));
                }
            }
        }
        problems
    }
}
