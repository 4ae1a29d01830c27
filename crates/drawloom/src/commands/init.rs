//! `drawloom init`: a first config that works at once.

mod text;

use std::{
    fs::OpenOptions,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use drawloom_models::{LOCAL_ADDRESSES, LocalServer};
use serde_json::json;

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::Session,
    config,
    dotenv::DotEnv,
    environment,
    exit::{CommandError, Exit},
    output::{Format, Style, count},
    project::Project,
    trust,
};

use text::{Local, Source};

/// Agents that read files need more tokens of context than this.
const LITTLE_CONTEXT: u64 = 16_384;

/// The file that is written unless another one is named.
const FILE: &str = "drawloom.yaml";

/// The folder for agents beside a config whose own folder they must not have.
const WORKSPACE: &str = "workspace";

/// Write a first config
#[derive(Debug, Args)]
pub struct Init {
    /// File to write [default: ./drawloom.yaml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Accept the defaults without asking
    #[arg(long, short)]
    yes: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Look for local model servers at these addresses when no API key is set; none with an empty value [default: the usual ports of
    /// Ollama, LM Studio, llama.cpp and vLLM on 127.0.0.1]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', env = environment::LOCAL_SERVERS, hide_env_values = true)]
    local: Option<Vec<String>>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Init {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let file = self.file.clone().unwrap_or_else(|| FILE.into());
        let asks = !self.yes && session.output.format() == Format::Human && io::stdin().is_terminal();
        if file.symlink_metadata().is_ok() && !self.force {
            let replace = asks && ask(session, &format!("{} exists. Replace it?", file.display()), DefaultAnswer::No)?;
            if !replace {
                let message = format!("{} exists", file.display());
                return Err(CommandError { exit: Exit::NeedsInput, ..CommandError::usage("exists", message) }
                    .with_hint("pass --force to replace it, or name another file"));
            }
        }
        let known = text::MAKERS.iter();
        let dotenv = DotEnv::beside(std::slice::from_ref(&file));
        let found: Vec<&text::Maker> = known.filter(|maker| has_key(&dotenv, maker.key_env)).collect();
        let mut used = Vec::new();
        for maker in found {
            let question = format!("{} is set. Use {}?", maker.key_env, maker.title);
            if !asks || ask(session, &question, DefaultAnswer::Yes)? {
                used.push(maker);
            }
        }
        let source = match used.is_empty() {
            false => Source::Makers(used),
            true => self.look_for_local(session, asks).await?.map_or(Source::Script, Source::Local),
        };
        let mut text = text::config(&source);
        if let Some(data) = exposed(&file, session)? {
            let folder = file.with_file_name(WORKSPACE);
            std::fs::create_dir_all(&folder).map_err(|error| {
                CommandError::usage("cannot_write", format!("cannot make {}: {error}", folder.display()))
            })?;
            text = text.replace("here: { path: .,", &format!("here: {{ path: ./{WORKSPACE},"));
            session.output.note(format!(
                "the volume of the agents is {}, because this folder contains the data directory {}",
                folder.display(),
                data.display()
            ));
        }
        write(&file, &text)?;
        let schema = file.with_file_name(text::SCHEMA);
        let mut files = vec![file.clone()];
        match write_schema(&schema) {
            Ok(()) => files.push(schema),
            Err(error) => session.output.note(format!(
                "cannot write {}: {error}; editors will not know the keys of the config",
                schema.display()
            )),
        }
        if let Err(error) = trust::agree(&file) {
            session.output.note(format!("the config is not trusted yet: {error}; `drawloom trust` tries again"));
        }
        self.report(session, &files, &source);
        Ok(Exit::Done)
    }

    /// A server on this machine with a model that an agent can use.
    async fn look_for_local(&self, session: &Session, asks: bool) -> Result<Option<Local>, CommandError> {
        let usual = || LOCAL_ADDRESSES.map(str::to_owned).to_vec();
        let mut addresses = self.local.clone().unwrap_or_else(usual);
        addresses.retain(|address| !address.is_empty());
        for server in drawloom_models::find_local(&addresses, Arc::new(SystemClock)).await {
            let LocalServer { title, provider, base_url, model } = server;
            let Some(model) = model else {
                session.output.note(format!(
                    "{title} answers at {base_url}, but none of its models takes tools and has a plain name"
                ));
                continue;
            };
            let question = format!("{title} answers at {base_url}. Use its model {}?", model.id);
            if !asks || ask(session, &question, DefaultAnswer::Yes)? {
                return Ok(Some(Local { title, provider, base_url, model }));
            }
        }
        Ok(None)
    }

    /// Says what was written: the config, then what belongs to it.
    fn report(&self, session: &Session, files: &[PathBuf], source: &Source) {
        let output = &session.output;
        let file = &files[0];
        let names: Vec<&str> = source.providers();
        if output.format() == Format::Json {
            return output.json(&json!({
                "file": file, "files": files, "providers": names,
                "agents": text::AGENTS,
            }));
        }
        output.line(format!("{} {}", output.styled(Style::Good, "✓ wrote"), file.display()));
        for other in &files[1..] {
            output.line(format!("{} {}, for editors", output.styled(Style::Good, "✓ wrote"), other.display()));
        }
        match source {
            Source::Script => {
                let keys: Vec<&str> = text::MAKERS.iter().map(|maker| maker.key_env).collect();
                output.line(format!("  no key is set ({}): a script plays the model for now", keys.join(", ")));
            }
            Source::Makers(_) => {
                output.line(format!("  using the keys of {}; the config contains only their names", names.join(", ")))
            }
            Source::Local(local) => {
                let Local { title, base_url, model, .. } = local;
                output
                    .line(format!("  no key is set, but {title} answers at {base_url}: using its model {}", model.id));
                if let Some(context) = model.context_tokens.filter(|context| *context < LITTLE_CONTEXT) {
                    output.note(format!(
                        "{title} gives {} a context of {} tokens, which is little for an agent; docs/models.md says how to raise it",
                        model.id,
                        count(context)
                    ));
                }
            }
        }
        let at = if file == Path::new(FILE) { String::new() } else { format!(" --config {}", file.display()) };
        output.line("\nNext:");
        for (command, what) in [
            (format!("drawloom run lead 'Review this folder'{at}"), "run the lead and its two reviewers"),
            (format!("drawloom runs show last{at}"), "what it did and what it cost"),
            (format!("drawloom doctor --keys{at}"), "check everything, keys included"),
        ] {
            output.line(format!("  {}  {}", output.styled(Style::Bold, &format!("{command:<44}")), what));
        }
    }
}

/// The makers of models that `init` knows: the provider's name, and models for high, middle and low.
pub(crate) fn makers() -> Vec<(&'static str, [&'static str; 3])> {
    text::MAKERS.iter().map(|maker| (maker.provider, maker.models)).collect()
}

/// A config without agents, for those that are imported: with the keys that are set, or a script in place of a model.
pub(crate) fn base(volume: NewVolume) -> String {
    let used: Vec<&text::Maker> =
        text::MAKERS.iter().filter(|maker| has_key(&DotEnv::default(), maker.key_env)).collect();
    text::base(&used, volume)
}

/// Whether a new config gets a volume of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewVolume {
    ReadOnly,
    /// Such as where the folder contains the data directory.
    None,
}

/// The data directory, when the folder of the config contains it: a volume there would be refused at the first run.
pub(crate) fn exposed(file: &Path, session: &Session) -> Result<Option<PathBuf>, CommandError> {
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let data = Project::of(&session.globals, &[file.to_owned()])?.data.path().to_owned();
    let (Ok(folder), Ok(data)) = (folder.canonicalize(), std::path::absolute(data)) else { return Ok(None) };
    // The data directory may not exist yet, but a part of its path does.
    let real = data.ancestors().find_map(|part| Some(part.canonicalize().ok()?.join(data.strip_prefix(part).ok()?)));
    Ok(real.filter(|data| data.starts_with(&folder)))
}

/// Only whether it is set: the value is looked at nowhere.
fn has_key(dotenv: &DotEnv, name: &str) -> bool {
    dotenv.variable(name).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DefaultAnswer {
    Yes,
    No,
}

/// Asks the user at the terminal; an empty line means `usual`.
fn ask(session: &Session, question: &str, usual: DefaultAnswer) -> Result<bool, CommandError> {
    let choices = if usual == DefaultAnswer::Yes { "[Y/n]" } else { "[y/N]" };
    session.output.write(&format!("{question} {choices} "));
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if read.map_err(|error| CommandError::failed("no_answer", format!("no answer: {error}")))? == 0 {
        return Err(CommandError {
            exit: Exit::NeedsInput,
            ..CommandError::usage("no_answer", "no answer to the question")
        }
        .with_hint("pass --yes to skip the questions"));
    }
    Ok(match line.trim().to_lowercase().as_str() {
        "" => usual == DefaultAnswer::Yes,
        answer => matches!(answer, "y" | "yes"),
    })
}

/// Writes the schema of the config, for editors.
fn write_schema(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(&config::schema()).map_err(io::Error::other)?;
    text.push('\n');
    std::fs::write(path, text)
}

/// Writes the file whole or not at all.
fn write(file: &Path, text: &str) -> Result<(), CommandError> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)
        .and_then(|mut to| to.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, file));
    written.map_err(|error| {
        CommandError::failed("cannot_write", format!("{}: {error}", file.display()))
            .with_hint("name a file in a directory that can be written")
    })
}
