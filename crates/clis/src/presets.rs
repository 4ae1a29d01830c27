//! One file per CLI.

mod aider;
mod claude_code;
mod codex;
mod opencode;
mod template;

use crate::{config::PresetName, preset::Preset};

pub(crate) use template::Template;

pub(crate) fn of(name: PresetName) -> &'static dyn Preset {
    match name {
        PresetName::ClaudeCode => &claude_code::ClaudeCode,
        PresetName::Codex => &codex::Codex,
        PresetName::Opencode => &opencode::Opencode,
        PresetName::Aider => &aider::Aider,
    }
}

#[cfg(test)]
mod tests;
