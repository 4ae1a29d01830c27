//! What an import changes in a config file: compares what was mapped with what is there, and edits the text.

use std::path::{Path, PathBuf};

use drawloom_contract::ids::Digest;
use drawloom_substrate::files;
use serde_json::{Value, json};

use super::{
    Action, Kind, Mapped, Note, Report, Target, Tree, clashes, map, models,
    skills::Skill,
    splice::{Editor, Marker, New},
    write::{self, Copied},
};
use crate::{
    commands::init::{self, NewVolume},
    config::{self, Loaded, Mistake, yaml},
    environment,
    exit::CommandError,
};

/// How many digits of a digest stand in a comment.
const DIGITS: usize = 16;

/// What is asked.
pub(crate) struct Request {
    pub(crate) from: PathBuf,
    /// The config file; it need not exist.
    pub(crate) into: PathBuf,
    /// All files of the config, `into` among them.
    pub(crate) files: Vec<PathBuf>,
    /// Where skills are copied to.
    pub(crate) skills: PathBuf,
    /// What a new config gets: no volume where it would contain the data directory.
    pub(crate) new_volume: NewVolume,
    /// Whether entries that were edited, or do not come from an import, are replaced.
    pub(crate) force: bool,
}

/// What would be written.
pub(crate) struct Plan {
    pub(crate) report: Report,
    /// The text of the config file as it is; nothing when there is none.
    pub(crate) before: Option<String>,
    /// The text of the config file as it would be.
    pub(crate) after: String,
    pub(crate) copies: Vec<(Skill, Copied)>,
    pub(crate) request: Request,
    /// Whether programs or addresses are added that a user should look at first.
    pub(crate) adds_servers: bool,
}

impl Plan {
    /// Whether nothing would be written.
    pub(crate) fn is_nothing(&self) -> bool {
        self.before.as_deref() == Some(&*self.after) && self.copies.is_empty()
    }
}

/// Reads, maps and compares; writes nothing.
pub(crate) fn plan(request: Request) -> Result<Plan, CommandError> {
    let before =
        match files::read_file(&request.into, yaml::FILE_LIMIT) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|_| {
                CommandError::usage("bad_config", format!("{} is not UTF-8 text", request.into.display()))
            })?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let message = format!("cannot read {}: {error}", request.into.display());
                return Err(CommandError::usage("bad_config", message));
            }
        };
    let (mark, text) = match &before {
        Some(text) => text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }),
        None => ("", ""),
    };
    let base = if before.is_some() { text.to_owned() } else { init::base(request.new_volume) };
    let loaded = load(&request, &format!("{mark}{base}")).map_err(|mistakes| {
        config::refuse(mistakes).with_hint(format!("correct {} first; nothing was read", request.into.display()))
    })?;
    let tree = Tree::read(&request.from);
    let mut target = Target::of(&loaded.config);
    target.may_add_tiers = true;
    let mut also = Vec::new();
    let base = with_providers(&base, &loaded, &mut target, &mut also)?;
    let mut mapped = map(&tree, &target, &environment::exact_variable);
    place_servers(&mut mapped, &tree.project(), &request.into);
    for skill in &mapped.skills {
        let item = mapped.items.iter_mut().find(|item| item.kind == Kind::Skill && item.name == skill.name);
        let Some(item) = item else { continue };
        item.notes.extend(write::left_out(&skill.folder).iter().map(|(path, why)| Note::dropped("files", path, *why)));
    }
    let root = yaml::parse(0, base.as_bytes()).map(|(node, _)| node.to_value()).unwrap_or_default();
    let mut writing = Writing {
        editor: Editor::new(&base).map_err(|error| CommandError::usage("bad_config", error))?,
        root: &root,
        force: request.force,
    };
    clashes::settle(&mut mapped, &writing.editor);
    let edited = writing.all(&mapped, &target, &request, &loaded, &mut also);
    let (states, copies) = edited.map_err(|error| {
        CommandError::usage("bad_config", format!("{}: {error}", request.into.display()))
            .with_hint("write that part of the file in the usual block style, with one key per line")
    })?;
    let after = format!("{mark}{}", writing.editor.finish());
    if after.len() as u64 > yaml::FILE_LIMIT {
        let message = format!(
            "{} would have {} bytes, and a config file may have {}; nothing was changed",
            request.into.display(),
            after.len(),
            yaml::FILE_LIMIT
        );
        return Err(CommandError::usage("too_large", message)
            .with_hint("import a part with --from, or read the folder at every start with `sources`"));
    }
    for (kind, name, action, reason) in states {
        let found = mapped
            .items
            .iter_mut()
            .find(|item| item.kind == kind && item.name == name && item.action != Action::Dropped);
        if let Some(item) = found {
            (item.action, item.reason) = (action, reason);
        }
    }
    let adds_servers = mapped
        .items
        .iter()
        .any(|item| item.kind == Kind::McpServer && matches!(item.action, Action::Add | Action::Update));
    let report = report(&request, mapped, also);
    Ok(Plan { report, before, after, copies, request, adds_servers })
}

/// Programs run in the project that they came from, also when the config is elsewhere.
fn place_servers(mapped: &mut Mapped, project: &Path, config: &Path) {
    let folder = config.parent().unwrap_or(Path::new(""));
    let absolute = |path: &Path| std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_owned());
    let real = |path: &Path| absolute(path).canonicalize().unwrap_or_else(|_| absolute(path));
    if real(project) == real(folder) {
        return;
    }
    let place = real(project);
    for server in &mut mapped.servers {
        let has = |key: &str| server.fields.iter().any(|(name, _)| *name == key);
        if has("command") && !has("cwd") {
            server.fields.push(("cwd", json!(place.to_string_lossy())));
        }
    }
}

fn report(request: &Request, mapped: Mapped, also: Vec<String>) -> Report {
    Report {
        from: request.from.display().to_string(),
        into: request.into.display().to_string(),
        written: false,
        items: mapped.items,
        proposals: mapped.proposals,
        also,
        next: String::new(),
    }
}

/// Loads the config with another text for the file that is edited.
pub(super) fn load(request: &Request, text: &str) -> Result<Loaded, Vec<Mistake>> {
    let mut texts = Vec::new();
    for file in &request.files {
        match *file == request.into {
            true => texts.push((file.clone(), text.as_bytes().to_vec())),
            false => match files::read_file(file, yaml::FILE_LIMIT) {
                Ok(bytes) => texts.push((file.clone(), bytes)),
                Err(error) => {
                    return Err(vec![Mistake {
                        position: None,
                        path: file.display().to_string(),
                        message: format!("cannot be read: {error}"),
                        hint: None,
                    }]);
                }
            },
        }
    }
    config::join_with_dotenv(texts, &environment::exact_variable)
}

/// A config without any provider gets those whose keys are set, or a script, so that its agents run.
fn with_providers(
    base: &str,
    loaded: &Loaded,
    target: &mut Target,
    also: &mut Vec<String>,
) -> Result<String, CommandError> {
    if !loaded.config.providers.is_empty() {
        return Ok(base.to_owned());
    }
    let parsed = yaml::parse(0, init::base(NewVolume::None).as_bytes());
    let usual = parsed.map(|(node, _)| node.to_value()).unwrap_or_default();
    let mut editor = Editor::new(base).map_err(|error| CommandError::usage("bad_config", error))?;
    for section in ["providers", "models", "defaults", "tiers"] {
        let Some(values) = usual.get(section).and_then(Value::as_object) else { continue };
        let new: Vec<New<'_>> =
            values.iter().map(|(key, value)| New { marker: None, key, value: value.clone() }).collect();
        editor.add(&[section], &new).map_err(|error| CommandError::usage("bad_config", error))?;
        also.push(format!("{section}: the config has no provider yet"));
    }
    let text = editor.finish();
    let with =
        config::join(vec![(PathBuf::from("drawloom.yaml"), text.as_bytes().to_vec())], &environment::exact_variable);
    if let Ok(with) = with {
        let next = Target::of(&with.config);
        (target.drivers, target.aliases, target.tiers) = (next.drivers, next.aliases, next.tiers);
        (target.has_defaults, target.defaults) = (next.has_defaults, next.defaults);
    }
    Ok(text)
}

/// What becomes of each thing, and the skills that are copied.
type Edited = (Vec<State>, Vec<(Skill, Copied)>);

type State = (Kind, String, Action, Option<String>);

struct Writing<'a> {
    editor: Editor<'a>,
    /// The values of the file, not expanded.
    root: &'a Value,
    force: bool,
}

impl Writing<'_> {
    fn all(
        &mut self,
        mapped: &Mapped,
        target: &Target,
        request: &Request,
        loaded: &Loaded,
        also: &mut Vec<String>,
    ) -> Result<Edited, String> {
        let mut states = Vec::new();
        let servers: Vec<_> =
            mapped.servers.iter().map(|server| (&server.name, &server.source, server.value())).collect();
        states.extend(self.section("mcp_servers", Kind::McpServer, &servers)?);
        self.variables(mapped, also)?;
        let mut tiers = Vec::new();
        for tier in &mapped.tiers {
            if let Some(value) = models::candidates(tier, target) {
                also.push(format!("tiers.{tier}: {}", super::emit::flow(&value)));
                tiers.push(New { marker: None, key: tier, value });
            }
        }
        self.editor.add(&["tiers"], &tiers)?;
        let agents: Vec<_> =
            mapped.agents.iter().map(|agent| (&agent.name, &agent.source, escaped(&agent.value()))).collect();
        states.extend(self.section("agents", Kind::Agent, &agents)?);
        let prompts: Vec<_> =
            mapped.prompts.iter().map(|prompt| (&prompt.name, &prompt.source, escaped(&prompt.value()))).collect();
        states.extend(self.section("prompts", Kind::Prompt, &prompts)?);
        let mut copies = Vec::new();
        for skill in &mapped.skills {
            let copied = write::compare(skill, &request.skills, self.force);
            let (action, reason) = match &copied {
                Copied::New(_) => (Action::Add, None),
                Copied::Changed(_) => (Action::Update, None),
                Copied::Same => (Action::Unchanged, None),
                Copied::Edited => (Action::Kept, Some("it was edited since; --force replaces it".to_owned())),
                Copied::Foreign => (Action::Kept, Some("a folder of this name exists; --force replaces it".to_owned())),
                Copied::Refused(reason) => (Action::Dropped, Some(reason.clone())),
            };
            states.push((Kind::Skill, skill.name.clone(), action, reason));
            if matches!(copied, Copied::New(_) | Copied::Changed(_)) {
                copies.push((skill.clone(), copied));
            }
        }
        if !mapped.skills.is_empty() {
            self.skill_directory(request, loaded, also)?;
        }
        Ok((states, copies))
    }

    /// Adds and updates the entries of a section.
    fn section(
        &mut self,
        section: &str,
        kind: Kind,
        entries: &[(&String, &String, Value)],
    ) -> Result<Vec<State>, String> {
        let mut states = Vec::new();
        let mut new = Vec::new();
        for (name, source, value) in entries {
            let marker = Marker { source: (*source).clone(), digest: digest(value) };
            let path = [section, name.as_str()];
            let state = match self.root.get(section).and_then(|section| section.get(name.as_str())) {
                None => {
                    new.push(New { marker: Some(marker), key: name, value: value.clone() });
                    (Action::Add, None)
                }
                Some(same) if same == value => (Action::Unchanged, None),
                Some(_) if self.editor.is_anchored(&path) => {
                    let reason = "the config has an anchor (`&name`) in it, and an edit would change what its aliases mean; \
                                  edit it by hand";
                    (Action::Kept, Some(reason.to_owned()))
                }
                Some(before) => {
                    let earlier = self.editor.marker(&path);
                    let is_ours = earlier.as_ref().is_some_and(|marker| marker.digest == digest(before));
                    if is_ours || self.force {
                        self.editor.update(&path, before, value, &marker)?;
                        (Action::Update, None)
                    } else {
                        let reason = match earlier {
                            Some(_) => "it was edited since it was imported; --force replaces it",
                            None => "the config has one that was not imported; --force replaces it",
                        };
                        (Action::Kept, Some(reason.to_owned()))
                    }
                }
            };
            states.push((kind, (*name).clone(), state.0, state.1));
        }
        self.editor.add(&[section], &new)?;
        Ok(states)
    }

    /// Lists the variables that servers name with `${NAME}`.
    fn variables(&mut self, mapped: &Mapped, also: &mut Vec<String>) -> Result<(), String> {
        let listed: Vec<&str> =
            self.root.get("env").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut names: Vec<Value> = Vec::new();
        for name in mapped.servers.iter().flat_map(|server| &server.variables) {
            if !listed.contains(&name.as_str()) && !names.contains(&json!(name)) {
                names.push(json!(name));
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        also.push(format!("env: {}", super::emit::flow(&json!(names))));
        match self.root.get("env") {
            Some(_) => self.editor.append(&["env"], &names),
            None => self.editor.add(&[], &[New { marker: None, key: "env", value: json!(names) }]),
        }
    }

    /// Lists the directory that skills are copied to.
    fn skill_directory(&mut self, request: &Request, loaded: &Loaded, also: &mut Vec<String>) -> Result<(), String> {
        let folder = request.into.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let wanted = absolute(&request.skills);
        if loaded.config.skills.directories.iter().any(|known| absolute(known) == wanted) {
            return Ok(());
        }
        let shown = wanted.strip_prefix(absolute(folder)).unwrap_or(&wanted);
        let shown = json!(shown.to_string_lossy());
        also.push(format!("skills.directories: {}", super::emit::flow(&shown)));
        match self.root.get("skills").and_then(|skills| skills.get("directories")) {
            Some(_) => self.editor.append(&["skills", "directories"], &[shown]),
            None => self.editor.add(&["skills"], &[New { marker: None, key: "directories", value: json!([shown]) }]),
        }
    }
}

/// `${` in texts, so that the config does not take it for a variable.
fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.iter().map(escaped).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), escaped(value))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// The digest of a value, whatever the order of its keys.
fn digest(value: &Value) -> String {
    let mut digits = Digest::of(canonical(value).as_bytes()).to_string();
    digits.truncate(DIGITS);
    digits
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut parts: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value))).collect();
            parts.sort();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
