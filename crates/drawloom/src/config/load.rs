//! Config files become one config: parsed, expanded, merged, checked, with every mistake pointed at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde_json::Value;

use drawloom_substrate::Problem;
use drawloom_wire::validate::{self, Step, Validator};

use super::{
    Config,
    expand::{self, Lookup},
    tree::{Node, Position, Tree},
    yaml::{self, Fault},
};
use crate::import::{self, Sourced};

/// A mistake in the config, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, line and column, when it has a position.
    pub position: Option<(String, usize, usize)>,
    /// Keys and indices, as people write them; empty for a file as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line, column)) = &self.position {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A config without mistakes of form, and the places of everything in it.
#[derive(Debug)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// Its files, in order.
    pub files: Vec<PathBuf>,
    /// Names that any of the files lists under `env`, and those of variables that MCP servers of sources name.
    pub env_names: BTreeSet<String>,
    /// What `sources` brought beside what is in the config.
    pub(crate) sourced: Sourced,
    places: Places,
}

/// Where everything stands.
#[derive(Debug)]
struct Places {
    names: Vec<String>,
    root: Node,
}

impl Loaded {
    /// A mistake that the config's form does not show, with its position.
    pub fn mistake(&self, problem: &Problem) -> Mistake {
        self.places.of(problem)
    }

    /// The position of what is at `path`, as `file:line:col`.
    pub fn position(&self, path: &[String]) -> String {
        let position = self.places.root.position_of_value(path);
        format!("{}:{}:{}", self.places.names[position.file], position.line, position.column)
    }
}

impl Places {
    fn of(&self, problem: &Problem) -> Mistake {
        let steps = problem.at.iter().map(String::as_str);
        let position = self.root.position_of_value(&problem.at);
        self.mistake(position, path_text(steps), problem.message.clone(), problem.hint.clone())
    }

    fn mistake(&self, position: Position, path: String, message: String, hint: Option<String>) -> Mistake {
        Mistake {
            position: Some((self.names[position.file].clone(), position.line, position.column)),
            path,
            message,
            hint,
        }
    }

    fn fault(&self, fault: Fault) -> Mistake {
        let path = path_text(fault.path.iter().map(String::as_str));
        self.mistake(fault.at, path, fault.message, fault.hint)
    }

    fn problem(&self, problem: validate::Problem) -> Mistake {
        let steps: Vec<String> = problem.steps.iter().map(step_text).collect();
        let position = match problem.code {
            "unknown_key" | "not_built" | "both_spellings" => self.root.position_of_key(&steps),
            _ => self.root.position_of_value(&steps),
        };
        let path = problem.path();
        // The validator's messages begin with the path, which stands before them here.
        let message = match problem.message.strip_prefix(&path) {
            Some(rest) if !path.is_empty() => rest.trim_start().to_owned(),
            _ => problem.message.replacen("the request", "the config", 1),
        };
        self.mistake(position, path, message, problem.hint)
    }
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Key(key) => key.clone(),
        Step::Index(index) => index.to_string(),
    }
}

/// `agents.lead.tools[1]`: numbers are places in lists, which no section of the config has as a key.
fn path_text<'a>(steps: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for step in steps {
        if step.parse::<usize>().is_ok() {
            text.push_str(&format!("[{step}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(step);
        }
    }
    text
}

/// The config's schema, made ready once.
fn validator() -> &'static Validator {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| Validator::new(&schema()).expect("our types use only keywords that the validator knows"))
}

/// Reads `paths` and lays each over those before it.
pub(super) fn load(paths: &[PathBuf], lookup: Lookup<'_>) -> Result<Loaded, Vec<Mistake>> {
    let mut texts = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match File::open(path).and_then(read_from) {
            Ok(bytes) => texts.push((path.clone(), bytes)),
            Err(error) => unreadable.push(Mistake {
                position: None,
                path: path.display().to_string(),
                message: format!("cannot be read: {error}"),
                hint: Some("give an existing file with --config".into()),
            }),
        }
    }
    if unreadable.is_empty() { join(texts, lookup) } else { Err(unreadable) }
}

/// Joins texts that were read, or came with the program.
pub fn join(texts: Vec<(PathBuf, Vec<u8>)>, lookup: Lookup<'_>) -> Result<Loaded, Vec<Mistake>> {
    let start = Position { file: 0, line: 1, column: 1 };
    let mut places = Places {
        names: texts.iter().map(|(path, _)| path.display().to_string()).collect(),
        root: Node { at: start, tree: Tree::Map(BTreeMap::new()) },
    };
    let mut mistakes = Vec::new();
    let mut env_names = BTreeSet::new();
    for (index, (path, bytes)) in texts.iter().enumerate() {
        match yaml::parse(index, bytes) {
            Ok((mut node, faults)) => {
                mistakes.extend(faults.into_iter().map(|fault| places.fault(fault)));
                env_names.extend(expand::listed(&node));
                mistakes.extend(expand::expand(&mut node, lookup).into_iter().map(|fault| places.fault(fault)));
                anchor_paths(&mut node, path.parent().unwrap_or(Path::new("")));
                match index {
                    0 => places.root = node,
                    _ => places.root.merge(node),
                }
            }
            Err(fault) => mistakes.push(places.fault(fault)),
        }
    }
    let mut value = places.root.to_value();
    if let Err(problems) = validator().check(&mut value) {
        mistakes.extend(problems.into_iter().map(|problem| places.problem(problem)));
    }
    if mistakes.is_empty() {
        match serde_json::from_value::<Config>(value) {
            Ok(mut config) => {
                let sourced = import::apply(&mut config, lookup)
                    .map_err(|problems| problems.iter().map(|problem| places.of(problem)).collect::<Vec<_>>())?;
                env_names.extend(sourced.variables.iter().cloned());
                let files: Vec<PathBuf> = texts.into_iter().map(|(path, _)| path).collect();
                let first = files.first().and_then(|first| std::path::absolute(first).ok());
                let folder = first.as_deref().and_then(Path::parent);
                // Else a program's relative names would mean files of whatever folder a command is in.
                for server in config.mcp_servers.values_mut().filter(|server| !server.command.is_empty()) {
                    server.cwd = server.cwd.take().or_else(|| folder.map(Path::to_owned));
                }
                return Ok(Loaded { config, files, env_names, sourced, places });
            }
            Err(error) => mistakes.push(Mistake {
                position: None,
                path: places.names.join(", "),
                message: error.to_string(),
                hint: None,
            }),
        }
    }
    mistakes.sort_by(|left, right| left.position.cmp(&right.position));
    mistakes.dedup();
    Err(mistakes)
}

/// Makes paths in the file relative to the file's directory, so that the current directory does not matter.
fn anchor_paths(root: &mut Node, directory: &Path) {
    for (section, key) in [("volumes", "path"), ("agents", "system_prompt_file"), ("mcp_servers", "cwd")] {
        let Tree::Map(sections) = &mut root.tree else { return };
        let Some(Tree::Map(entries)) = sections.get_mut(section).map(|entry| &mut entry.node.tree) else { continue };
        for entry in entries.values_mut() {
            let Tree::Map(fields) = &mut entry.node.tree else { continue };
            if let Some(entry) = fields.get_mut(key) {
                anchor(&mut entry.node, directory);
            }
        }
    }
    let Tree::Map(sections) = &mut root.tree else { return };
    if let Some(Tree::Map(skills)) = sections.get_mut("skills").map(|entry| &mut entry.node.tree)
        && let Some(Tree::List(directories)) = skills.get_mut("directories").map(|entry| &mut entry.node.tree)
    {
        for path in directories.iter_mut() {
            anchor(path, directory);
        }
    }
    if let Some(Tree::List(sources)) = sections.get_mut("sources").map(|entry| &mut entry.node.tree) {
        for source in sources.iter_mut() {
            let Tree::Map(fields) = &mut source.tree else { continue };
            if let Some(entry) = fields.get_mut("claude") {
                anchor(&mut entry.node, directory);
            }
        }
    }
}

/// Makes a path relative to the file's directory.
fn anchor(node: &mut Node, directory: &Path) {
    if let Tree::Text(path) = &mut node.tree
        && !path.is_empty()
    {
        *path = directory.join(&*path).to_string_lossy().into_owned();
    }
}

/// The JSON Schema of the config, as `made_schema` made it. Making it takes a server longer, and more memory, than the rest of its config.
pub fn schema() -> Value {
    serde_json::from_str(include_str!("schema.json")).expect("a test compares it with what is made")
}

/// The JSON Schema of the config, made from its types: what `schema.json` must be.
pub fn made_schema() -> Value {
    schemars::SchemaGenerator::default().into_root_schema_for::<Config>().to_value()
}

/// A JSON or YAML file as a value, without any rule about what is in it; `-` reads stdin.
pub(super) fn read_value(path: &Path) -> Result<Value, Mistake> {
    let name = path.display().to_string();
    let bytes = if name == "-" { read_from(std::io::stdin().lock()) } else { File::open(path).and_then(read_from) };
    let bytes = bytes.map_err(|error| Mistake {
        position: None,
        path: name.clone(),
        message: format!("cannot be read: {error}"),
        hint: None,
    })?;
    let start = Position { file: 0, line: 1, column: 1 };
    let places = Places { names: vec![name], root: Node { at: start, tree: Tree::Null } };
    let (node, faults) = yaml::parse(0, &bytes).map_err(|fault| places.fault(fault))?;
    match faults.into_iter().next() {
        Some(fault) => Err(places.fault(fault)),
        None => Ok(node.to_value()),
    }
}

/// Everything that `source` holds, up to the limit of a file.
fn read_from(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(yaml::FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > yaml::FILE_LIMIT {
        true => Err(std::io::Error::other(format!("it is longer than {} bytes", yaml::FILE_LIMIT))),
        false => Ok(bytes),
    }
}
