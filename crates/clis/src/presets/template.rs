//! Any command, from the config: its standard output is the answer, its exit code says whether it worked.

use std::{collections::BTreeMap, path::Path};

use drawloom_process::Line;

use crate::{
    error::Error,
    input::Mode,
    preset::{Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Setting, combined},
    reply::Reply,
    state::State,
};

pub(crate) struct Template {
    pub(crate) command: Vec<String>,
}

impl Preset for Template {
    fn title(&self) -> &str {
        self.program().rsplit('/').next().unwrap_or_default()
    }

    fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    fn variables(&self) -> &'static [&'static str] {
        &[]
    }

    fn state(&self, _: &Path, _: &BTreeMap<String, String>) -> State {
        State::default()
    }

    fn mode(&self, setting: Setting) -> Option<ModeArgs> {
        match setting.mode {
            // The sandbox holds it; a command without one is trusted only with arguments from the config.
            Mode::ReadOnly if setting.confined => Some(ModeArgs::default()),
            Mode::Edit => Some(ModeArgs::default()),
            Mode::ReadOnly | Mode::SkipPermissions => None,
        }
    }

    fn resumes(&self) -> bool {
        false
    }

    fn metering(&self) -> Metering {
        Metering::Nothing
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error> {
        let has = |placeholder: &str| self.command.iter().any(|argument| argument.contains(placeholder));
        let path = |name: &str| request.files.join(name).to_string_lossy().into_owned();
        let prompt =
            if has("{system_file}") || has("{system}") { request.prompt.to_owned() } else { combined(request) };
        let directory = request.directory.to_string_lossy();
        let argument = ["{prompt}", "{combined}"].into_iter().any(has);
        let system = ["{system_file}", "{system}"].into_iter().any(has);
        // Without a place for the system prompt it comes before the prompt.
        let own_prompt = if system { request.prompt.to_owned() } else { combined(request) };
        let values = [
            ("{prompt}", own_prompt),
            ("{system}", request.system.to_owned()),
            ("{combined}", combined(request)),
            ("{prompt_file}", path("prompt.md")),
            ("{system_file}", path("system.md")),
            ("{directory}", directory.into_owned()),
            ("{model}", request.model.unwrap_or_default().to_owned()),
        ];
        let mut args: Vec<String> = self.command.iter().skip(1).map(|argument| filled(argument, &values)).collect();
        args.extend(request.extra.iter().cloned());
        let mut invocation = Invocation { args, ..Invocation::default() };
        if has("{system_file}") {
            invocation.files.push(("system.md", request.system.to_owned()));
        }
        match has("{prompt_file}") {
            true => invocation.files.push(("prompt.md", prompt)),
            false if argument => {}
            false => invocation.input = Some(prompt),
        }
        Ok(invocation)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Output)
    }
}

/// The argument with its placeholders replaced, each once: what a value contains is not looked at again.
fn filled(argument: &str, values: &[(&str, String)]) -> String {
    let (mut filled, mut rest) = (String::new(), argument);
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
            Some((placeholder, value)) => {
                filled.push_str(value);
                rest = &rest[placeholder.len()..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled + rest
}

struct Output;

impl Reader for Output {
    fn line(&mut self, _: &Line) {}

    fn session(&self) -> Option<&str> {
        None
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>) -> Reply {
        let problem = (!ended.is_success()).then(|| ended.problem());
        Reply { text: ended.output.trim_end().to_owned(), problem, ..Reply::default() }
    }
}
