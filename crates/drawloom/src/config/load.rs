//! Config files become one config: parsed, expanded, merged, checked, with every mistake pointed at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde_json::Value;

use drawloom_substrate::{Problem, files};
use drawloom_wire::validate::{self, Step, Validator};

use super::{
    Config, declared,
    expand::{self, Lookup},
    removed::{self, Removed},
    tree::{Node, Position, Tree},
    units, variables,
    yaml::{self, Fault},
};
use crate::{
    dotenv::DotEnv,
    import::{self, Sourced},
};

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
    /// What the `.env` files give for variables that the config names.
    pub(crate) dotenv: DotEnv,
    places: Places,
    /// What was left out because of its form; then the config is only good to find more mistakes.
    removed: Removed,
    /// The texts with `${NAME}` in them, as they were written, by their position.
    expanded: BTreeMap<Position, String>,
}

/// Where everything stands.
#[derive(Debug)]
struct Places {
    names: Vec<String>,
    root: Node,
}

impl Loaded {
    /// Mistakes that the config's form does not show, with their positions. Those that only follow from mistakes of form are
    /// left out.
    pub(crate) fn mistakes(&self, problems: &[Problem]) -> Vec<Mistake> {
        let placed = problems.iter().filter_map(|problem| self.removed.place(problem));
        let mut mistakes: Vec<Mistake> = placed.map(|problem| self.places.of(&problem)).collect();
        sort(&mut mistakes);
        mistakes
    }

    /// A variable that the environment or a `.env` beside the config sets to something.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.dotenv.variable(name)
    }

    /// The merged files, with the position of every value.
    pub(crate) fn root(&self) -> &Node {
        &self.places.root
    }

    /// The name of a file, by its number in positions.
    pub(crate) fn file_name(&self, file: usize) -> &str {
        &self.places.names[file]
    }

    /// The text at a position as it was written, when `${NAME}` was filled in.
    pub(crate) fn as_written(&self, at: Position) -> Option<&str> {
        self.expanded.get(&at).map(String::as_str)
    }

    /// The variables whose values `${NAME}` put into the value at `path`.
    pub(crate) fn filled_in(&self, path: &[String]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let node = path.iter().try_fold(&self.places.root, |node, step| node.child(step));
        node.inspect(|node| self.collect_filled_in(node, &mut names));
        names
    }

    fn collect_filled_in(&self, node: &Node, names: &mut BTreeSet<String>) {
        names.extend(self.as_written(node.at).into_iter().flat_map(expand::names));
        match &node.tree {
            Tree::List(items) => items.iter().for_each(|item| self.collect_filled_in(item, names)),
            Tree::Map(entries) => entries.values().for_each(|entry| self.collect_filled_in(&entry.node, names)),
            Tree::Text(_) | Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
        }
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
        let position = match problem.is_key {
            true => self.root.position_of_key(&problem.at),
            false => self.root.position_of_value(&problem.at),
        };
        self.mistake(position, path_text(steps), without_number(&problem.message), problem.hint.clone())
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
        let message = message.replacen("must be an object", "must be a mapping", 1);
        let hint = self.hint(&problem, &steps).or(problem.hint);
        self.mistake(position, path, message, hint)
    }

    /// What to write, where the config knows more than the validator.
    fn hint(&self, problem: &validate::Problem, steps: &[String]) -> Option<String> {
        let key = steps.iter().rev().find(|step| step.parse::<usize>().is_err())?;
        match (problem.code, &self.root.nearest(steps).tree) {
            ("missing_key", _) => Some(format!("add `{key}: …`")),
            ("unknown_key", _) if matches!(key.as_str(), "api_key" | "apikey" | "key" | "token" | "password") => Some(
                "a config holds no secrets: set an environment variable and name it, such as `api_key_env: NAME`"
                    .into(),
            ),
            ("wrong_type", Tree::Text(text)) => units::hint(key, text),
            ("wrong_type", Tree::Null) => Some(format!("give `{key}` a value, or remove it")),
            _ => None,
        }
    }
}

/// A message without the number of the operating system's error, which says the same as the words before it.
fn without_number(message: &str) -> String {
    let Some((before, after)) = message.split_once(" (os error ") else { return message.to_owned() };
    let after = after.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
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

/// What became of config files.
pub(super) struct Examined {
    /// The config, without the parts that have mistakes of form; nothing when too little of it can be read.
    pub(super) loaded: Option<Loaded>,
    pub(super) mistakes: Vec<Mistake>,
}

/// Reads `paths`, and the `.env` beside each, and lays each over those before it.
pub(super) fn load(paths: &[PathBuf], lookup: Lookup<'_>) -> Examined {
    load_with(paths, lookup, DotEnv::beside)
}

/// The same without any `.env`.
pub(super) fn load_without_dotenv(paths: &[PathBuf], lookup: Lookup<'_>) -> Examined {
    load_with(paths, lookup, |_| DotEnv::default())
}

fn load_with(paths: &[PathBuf], lookup: Lookup<'_>, dotenv: impl FnOnce(&[PathBuf]) -> DotEnv) -> Examined {
    let mut texts = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match files::read_argument(path, yaml::FILE_LIMIT) {
            Ok(bytes) => texts.push((path.clone(), bytes)),
            Err(error) => unreadable.push(Mistake {
                position: None,
                path: path.display().to_string(),
                message: format!("cannot be read: {error}"),
                hint: Some("give an existing file with --config".into()),
            }),
        }
    }
    match unreadable.is_empty() {
        true => examine(texts, lookup, dotenv(paths)),
        false => Examined { loaded: None, mistakes: unreadable },
    }
}

/// Joins texts that were read, or came with the program. No `.env` is read.
pub fn join(texts: Vec<(PathBuf, Vec<u8>)>, lookup: Lookup<'_>) -> Result<Loaded, Vec<Mistake>> {
    whole(examine(texts, lookup, DotEnv::default()))
}

/// Joins texts of config files, with the `.env` beside each.
pub(crate) fn join_with_dotenv(texts: Vec<(PathBuf, Vec<u8>)>, lookup: Lookup<'_>) -> Result<Loaded, Vec<Mistake>> {
    let paths: Vec<PathBuf> = texts.iter().map(|(path, _)| path.clone()).collect();
    whole(examine(texts, lookup, DotEnv::beside(&paths)))
}

fn whole(examined: Examined) -> Result<Loaded, Vec<Mistake>> {
    match (examined.loaded, examined.mistakes.is_empty()) {
        (Some(loaded), true) => Ok(loaded),
        _ => Err(examined.mistakes),
    }
}

fn examine(texts: Vec<(PathBuf, Vec<u8>)>, lookup: Lookup<'_>, mut dotenv: DotEnv) -> Examined {
    let start = Position { file: 0, line: 1, column: 1 };
    let mut places = Places {
        names: texts.iter().map(|(path, _)| path.display().to_string()).collect(),
        root: Node { at: start, tree: Tree::Map(BTreeMap::new()) },
    };
    let either = |name: &str| lookup(name).or_else(|| dotenv.file_value(name));
    let mut mistakes = Vec::new();
    let mut env_names = BTreeSet::new();
    let mut expanded = BTreeMap::new();
    let mut unreadable = false;
    for (index, (path, bytes)) in texts.iter().enumerate() {
        match yaml::parse(index, bytes) {
            Ok((mut node, faults)) => {
                mistakes.extend(faults.into_iter().map(|fault| places.fault(fault)));
                env_names.extend(expand::listed(&node));
                mistakes.extend(variables::check(&node).into_iter().map(|fault| places.fault(fault)));
                expand::written(&node, &mut expanded);
                mistakes.extend(expand::expand(&mut node, &either).into_iter().map(|fault| places.fault(fault)));
                anchor_paths(&mut node, path.parent().unwrap_or(Path::new("")));
                match index {
                    0 => places.root = node,
                    _ => places.root.merge(node),
                }
            }
            Err(fault) => {
                unreadable = true;
                mistakes.push(places.fault(fault));
            }
        }
    }
    let mut value = places.root.to_value();
    let mut removed = Some(Removed::default());
    if let Err(problems) = validator().check_whole(&mut value) {
        removed = removed::remove(validator(), &mut value, &problems);
        for mistake in problems.into_iter().map(|problem| places.problem(problem)) {
            // What was said of the same value before, such as that it is a key, says more.
            if !mistakes.iter().any(|known| known.position == mistake.position && known.path == mistake.path) {
                mistakes.push(mistake);
            }
        }
    }
    let mut loaded = None;
    if let Some(mut removed) = removed.filter(|_| !unreadable) {
        match serde_json::from_value::<Config>(value) {
            Ok(mut config) => {
                let sourced = import::apply(&mut config, &either).unwrap_or_else(|problems| {
                    mistakes.extend(problems.iter().map(|problem| places.of(problem)));
                    // What the sources would bring is not known.
                    removed.leave_open(&["agents", "skills", "mcp_servers", "prompts"]);
                    Sourced::default()
                });
                env_names.extend(sourced.variables.iter().cloned());
                let files: Vec<PathBuf> = texts.into_iter().map(|(path, _)| path).collect();
                let first = files.first().and_then(|first| std::path::absolute(first).ok());
                let folder = first.as_deref().and_then(Path::parent);
                // Else a program's relative names would mean files of whatever folder a command is in.
                for server in
                    config.mcp_servers.values_mut().filter(|server| !server.command.is_empty() && server.url.is_none())
                {
                    server.cwd = server.cwd.take().or_else(|| folder.map(Path::to_owned));
                }
                dotenv.keep(&named_variables(&places.root, &config, &env_names));
                loaded = Some(Loaded { config, files, env_names, sourced, dotenv, places, removed, expanded });
            }
            Err(error) => mistakes.push(Mistake {
                position: None,
                path: places.names.join(", "),
                message: error.to_string(),
                hint: None,
            }),
        }
    }
    sort(&mut mistakes);
    Examined { loaded, mistakes }
}

/// Every variable that the config names: only these are taken from a `.env`.
fn named_variables(root: &Node, config: &Config, env_names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut names = env_names.clone();
    // Not the default: a token that only a file gives must be asked for.
    let writes_token = root.get("auth").is_some_and(|auth| auth.node.get("token_env").is_some());
    names.extend(writes_token.then(|| config.auth.token_env.clone()));
    names.extend(config.principals.values().map(|principal| principal.token_env.clone()));
    names.extend(config.providers.values().filter_map(|provider| provider.api_key_env.clone()));
    names.extend(config.redaction.values_env.iter().cloned());
    names.extend(config.tools.bash.env.iter().cloned());
    names.extend(config.mcp_servers.values().flat_map(|server| server.variables().map(str::to_owned)));
    names
}

/// By position, each once.
pub(super) fn sort(mistakes: &mut Vec<Mistake>) {
    mistakes.sort_by(|left, right| left.position.cmp(&right.position));
    mistakes.dedup();
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
    declared::made().0
}

/// The keys of the config that are powers, made from its types: what `powers.json` must be.
pub fn made_powers() -> Value {
    serde_json::to_value(declared::made().1.powers).expect("powers are plain data")
}

/// A JSON or YAML file as a value, without any rule about what is in it; `-` reads stdin.
pub(super) fn read_value(path: &Path) -> Result<Value, Mistake> {
    let name = path.display().to_string();
    let bytes = match name == "-" {
        true => files::read_limited(std::io::stdin().lock(), yaml::FILE_LIMIT),
        false => files::read_argument(path, yaml::FILE_LIMIT),
    };
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

/// The value of a text without mistakes.
pub(super) fn parse_value(text: &[u8]) -> Option<Value> {
    let (node, faults) = yaml::parse(0, text).ok()?;
    faults.is_empty().then(|| node.to_value())
}
