//! Finds what a folder of Claude Code holds: agents, skills, commands, MCP servers, settings and plugins, in every layout.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

use super::{Item, Kind, read_limited, settings::json};
use crate::skills::{Folders, leads_above};

/// How deep folders are searched.
pub(crate) const MOST_DEPTH: usize = 8;

/// Most files of one kind, and most folders that are looked at for them.
pub(crate) const MOST_FILES: usize = 4_000;

/// How many files are looked at to find out whether a folder holds agents.
const MOST_LOOKED_AT: usize = 50;

/// The largest JSON file that is read, in bytes.
pub(crate) const JSON_LIMIT: u64 = 1024 * 1024;

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// Its path relative to the folder that was read, for people.
    pub(crate) shown: String,
    /// The folders between the kind's own folder and the file.
    pub(crate) groups: Vec<String>,
    /// The plugin that it belongs to.
    pub(crate) plugin: Option<String>,
    /// The folder of the plugin, or of Claude Code's own files.
    pub(crate) root: PathBuf,
}

/// A place with MCP servers: a file, or a part of one.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    pub(crate) entry: Entry,
    pub(crate) value: Value,
}

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) from: PathBuf,
    pub(crate) agents: Vec<Entry>,
    pub(crate) skills: Vec<Entry>,
    pub(crate) commands: Vec<Entry>,
    pub(crate) servers: Vec<Servers>,
    pub(crate) settings: Vec<(Entry, Value)>,
    /// Hooks of plugins, by file.
    pub(crate) hooks: Vec<(Entry, Value)>,
    /// What is not read, with the reason.
    pub(crate) left: Vec<Item>,
}

/// A folder of files of Claude Code's own, or of a plugin.
struct Root {
    folder: PathBuf,
    plugin: Option<String>,
    manifest: Value,
}

impl Tree {
    /// Reads a folder: `.claude`, a project that has one, a plugin, or a collection of plugins.
    pub(crate) fn read(from: &Path) -> Self {
        let mut tree = Self { from: from.to_owned(), ..Self::default() };
        let inner = from.join(".claude");
        let is_project = inner.is_dir();
        let own = if is_project { inner } else { from.to_owned() };
        let mut roots = Vec::new();
        let mut seen = BTreeSet::new();
        tree.plugins(from, &mut roots, &mut seen);
        if is_project {
            tree.plugins(&own, &mut roots, &mut seen);
        }
        if !roots.iter().any(|root: &Root| same(&root.folder, &own)) {
            roots.insert(0, Root { folder: own.clone(), plugin: None, manifest: Value::Null });
        }
        for root in &roots {
            tree.components(root);
        }
        // Beside `.claude` are the files of the project.
        let is_claude = own.file_name().is_some_and(|name| name == ".claude");
        let beside = match (is_project, is_claude) {
            (true, _) => Some(from.to_owned()),
            (false, true) => from.parent().map(Path::to_owned),
            (false, false) => None,
        };
        if let Some(beside) = beside {
            let root = Root { folder: beside, plugin: None, manifest: Value::Null };
            tree.server_files(&root, &[".mcp.json"]);
            tree.memory_files(&root);
        }
        if tree.is_empty() && !is_project && looks_like_agents(from) {
            let root = Root { folder: from.to_owned(), plugin: None, manifest: Value::Null };
            tree.markdown(&root, from, Vec::new(), Kind::Agent);
        }
        tree.settle();
        tree
    }

    /// Reads a folder that is used where it is. What links and the places of plugins lead to outside it is left out, because agents
    /// may be able to change that; only the servers' file beside it is read.
    pub(crate) fn read_in_place(from: &Path) -> Self {
        let mut tree = Self::read(from);
        let Ok(base) = from.canonicalize() else { return tree };
        let beside = base.parent().map(|parent| parent.join(".mcp.json"));
        let is_inside = |entry: &Entry| {
            let real = entry.path.canonicalize().unwrap_or_default();
            real.starts_with(&base) || beside.as_ref() == Some(&real)
        };
        let mut left = Vec::new();
        let mut keeps = |kind: Kind, entry: &Entry| {
            let inside = is_inside(entry);
            if !inside {
                let name = entry.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let reason =
                    "it lies outside the folder, where agents may change it; copy it, or name its folder as a source";
                left.push(Item::dropped(kind, name, entry.shown.clone(), reason));
            }
            inside
        };
        tree.agents.retain(|entry| keeps(Kind::Agent, entry));
        tree.skills.retain(|entry| keeps(Kind::Skill, entry));
        tree.commands.retain(|entry| keeps(Kind::Prompt, entry));
        tree.servers.retain(|servers| keeps(Kind::McpServer, &servers.entry));
        tree.left.append(&mut left);
        tree
    }

    /// Whether the folder holds nothing to import.
    fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.skills.is_empty() && self.commands.is_empty() && self.servers.is_empty()
    }

    /// The folder that Claude Code runs in: the one with `.claude` in it, or the folder that was read.
    pub(crate) fn project(&self) -> PathBuf {
        match self.from.file_name().is_some_and(|name| name == ".claude") {
            true => self.from.parent().map(Path::to_owned).unwrap_or_default(),
            false => self.from.clone(),
        }
    }

    /// The files that decide what the folder means, each with its path for people, sorted.
    pub(crate) fn files(&self) -> Vec<(String, PathBuf)> {
        let all = self.agents.iter().chain(&self.commands).map(|entry| entry.path.clone());
        let skills = self.skills.iter().map(|entry| entry.path.join(drawloom_substrate::SKILL_FILE));
        let json = self.settings.iter().chain(&self.hooks).map(|(entry, _)| entry.path.clone());
        let servers = self.servers.iter().map(|servers| servers.entry.path.clone());
        let mut files: Vec<PathBuf> = all.chain(skills).chain(json).chain(servers).collect();
        files.sort();
        files.dedup();
        files.into_iter().map(|path| (self.shown(&path), path)).collect()
    }

    fn shown(&self, path: &Path) -> String {
        let from = &self.from;
        let beside = from.parent().unwrap_or(from);
        let short = path.strip_prefix(from).or_else(|_| path.strip_prefix(beside)).unwrap_or(path);
        short.to_string_lossy().into_owned()
    }

    fn entry(&self, path: PathBuf, groups: Vec<String>, root: &Root) -> Entry {
        let shown = self.shown(&path);
        Entry { path, shown, groups, plugin: root.plugin.clone(), root: root.folder.clone() }
    }

    fn leave(&mut self, path: &Path, reason: impl Into<String>) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let shown = self.shown(path);
        self.left.push(Item::dropped(Kind::File, name, shown, reason));
    }

    /// Finds the plugins of a folder: itself, those that its marketplace lists, and those below `plugins`.
    fn plugins(&mut self, folder: &Path, roots: &mut Vec<Root>, seen: &mut BTreeSet<PathBuf>) {
        let manifest = folder.join(".claude-plugin/plugin.json");
        if manifest.is_file() {
            self.plugin(folder, roots, seen);
        }
        let market = folder.join(".claude-plugin/marketplace.json");
        if market.is_file() {
            match read_json(&market) {
                Ok(value) => self.marketplace(folder, &market, &value, roots, seen),
                Err(reason) => self.leave(&market, reason),
            }
        }
        let plugins = folder.join("plugins");
        match read_json(&plugins.join("installed_plugins.json")) {
            Ok(value) => self.installed(&plugins, &value, roots, seen),
            Err(_) => self.below_plugins(&plugins, 0, roots, seen),
        }
    }

    /// The plugins that a user installed: beside them are whole catalogues, which are not meant.
    fn installed(&mut self, plugins: &Path, value: &Value, roots: &mut Vec<Root>, seen: &mut BTreeSet<PathBuf>) {
        for (name, installed) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
            let every = installed.as_array().map_or_else(|| std::slice::from_ref(installed), Vec::as_slice);
            for place in every.iter().filter_map(|one| one.get("installPath").and_then(Value::as_str)) {
                match Path::new(place).is_dir() {
                    true => {
                        let before = roots.len();
                        self.plugin(Path::new(place), roots, seen);
                        // The folder is called after the version.
                        let own = name.split('@').next().and_then(super::names::slug);
                        if let Some(root) = roots.get_mut(before).filter(|root| root.manifest.get("name").is_none()) {
                            root.plugin = own.or(root.plugin.take());
                        }
                    }
                    false => {
                        let shown = self.shown(&plugins.join("installed_plugins.json"));
                        let reason = format!("{place} is not a directory");
                        self.left.push(Item::dropped(Kind::Plugin, name, shown, reason));
                    }
                }
            }
        }
    }

    fn plugin(&mut self, folder: &Path, roots: &mut Vec<Root>, seen: &mut BTreeSet<PathBuf>) {
        if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_owned())) {
            return;
        }
        let file = folder.join(".claude-plugin/plugin.json");
        let manifest = match file.is_file().then(|| read_json(&file)) {
            Some(Ok(value)) => value,
            Some(Err(reason)) => {
                self.leave(&file, format!("{reason}; the plugin's folders are read all the same"));
                Value::Null
            }
            None => Value::Null,
        };
        let named = manifest.get("name").and_then(Value::as_str).and_then(super::names::slug);
        let folder_name = folder.file_name().and_then(|name| super::names::slug(&name.to_string_lossy()));
        let name = named.or(folder_name).unwrap_or_else(|| "plugin".into());
        roots.push(Root { folder: folder.to_owned(), plugin: Some(name), manifest });
    }

    fn marketplace(
        &mut self,
        folder: &Path,
        file: &Path,
        value: &Value,
        roots: &mut Vec<Root>,
        seen: &mut BTreeSet<PathBuf>,
    ) {
        let base = value.pointer("/metadata/pluginRoot").and_then(Value::as_str).unwrap_or_default();
        for plugin in value.get("plugins").and_then(Value::as_array).into_iter().flatten() {
            let name = plugin.get("name").and_then(Value::as_str).unwrap_or("plugin").to_owned();
            let source = plugin.get("source").and_then(Value::as_str);
            let place = source.map(|source| Path::new(base).join(source)).filter(|path| is_inside(path));
            let shown = self.shown(file);
            match place.map(|path| folder.join(path)).filter(|path| path.is_dir()) {
                Some(path) => {
                    let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
                    self.plugin(&path, roots, seen);
                }
                None => self.left.push(Item::dropped(
                    Kind::Plugin,
                    name,
                    shown,
                    "the plugin is not in this folder; import its own folder with --from",
                )),
            }
        }
    }

    /// Folders with a plugin's manifest below `plugins`, however deep; without one, folders that look like a plugin.
    fn below_plugins(&mut self, folder: &Path, depth: usize, roots: &mut Vec<Root>, seen: &mut BTreeSet<PathBuf>) {
        if depth > 4 {
            return;
        }
        for path in sorted(folder).into_iter().filter(|path| path.is_dir()) {
            if path.is_symlink() && !stays_in(&self.from, &path) {
                self.leave(&path, "a link that leads out of the folder; import its own folder with --from");
                continue;
            }
            let has = |name: &str| path.join(name).exists();
            if has(".claude-plugin/plugin.json")
                || ["agents", "skills", "commands", ".mcp.json"].iter().any(|name| has(name))
            {
                self.plugin(&path, roots, seen);
            } else {
                self.below_plugins(&path, depth + 1, roots, seen);
            }
        }
    }

    /// Reads the folders and files of one root.
    fn components(&mut self, root: &Root) {
        for (folder, groups) in folders(root, "agents") {
            self.markdown(root, &folder, groups, Kind::Agent);
        }
        for (folder, groups) in folders(root, "commands") {
            self.markdown(root, &folder, groups, Kind::Prompt);
        }
        for (folder, _) in folders(root, "skills") {
            self.skill_folders(root, &folder);
        }
        self.server_files(root, &[".mcp.json", "mcp.json"]);
        match root.manifest.get("mcpServers") {
            Some(Value::String(path)) if is_inside(Path::new(path)) => self.server_files(root, &[path.as_str()]),
            Some(value @ Value::Object(_)) => {
                let entry = self.entry(root.folder.join(".claude-plugin/plugin.json"), Vec::new(), root);
                self.servers.push(Servers { entry, value: value.clone() });
            }
            _ => {}
        }
        for name in ["settings.json", "settings.local.json"] {
            self.json_file(root, name, Kind::Setting);
        }
        self.json_file(root, "hooks/hooks.json", Kind::Hook);
        if let Some(path) = root.manifest.get("hooks").and_then(Value::as_str).filter(|path| is_inside(Path::new(path)))
        {
            self.json_file(root, path.trim_start_matches("./"), Kind::Hook);
        }
        self.memory_files(root);
        for (name, reason) in [
            ("output-styles", "an output style changes Claude Code's own answers; agents have a `system_prompt`"),
            (
                "rules",
                "rules are instructions for Claude Code itself; put what an agent needs into its `system_prompt`",
            ),
            ("workflows", "workflows of Claude Code have no counterpart"),
            ("statusline.sh", "a status line is a part of Claude Code's own screen"),
        ] {
            let path = root.folder.join(name);
            if path.exists() {
                self.leave(&path, reason);
            }
        }
    }

    fn memory_files(&mut self, root: &Root) {
        for name in ["CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"] {
            let path = root.folder.join(name);
            if path.is_file() && !self.left.iter().any(|item| item.source == self.shown(&path)) {
                let reason = "instructions for the whole project: put what an agent needs into its `system_prompt`, or make a skill of it";
                self.leave(&path, reason);
            }
        }
    }

    fn json_file(&mut self, root: &Root, name: &str, kind: Kind) {
        let path = root.folder.join(name);
        if !path.is_file() {
            return;
        }
        match read_json(&path) {
            Ok(value) => {
                let entry = self.entry(path, Vec::new(), root);
                match kind {
                    Kind::Hook => self.hooks.push((entry, value)),
                    _ => self.settings.push((entry, value)),
                }
            }
            Err(reason) => self.leave(&path, reason),
        }
    }

    fn server_files(&mut self, root: &Root, names: &[&str]) {
        for name in names {
            let path = root.folder.join(name.trim_start_matches("./"));
            if !path.is_file() || self.servers.iter().any(|known| same(&known.entry.path, &path)) {
                continue;
            }
            match read_json(&path) {
                Ok(value) => {
                    let entry = self.entry(path, Vec::new(), root);
                    self.servers.push(Servers { entry, value });
                }
                Err(reason) => self.leave(&path, reason),
            }
        }
    }

    /// The Markdown files below a folder.
    fn markdown(&mut self, root: &Root, folder: &Path, groups: Vec<String>, kind: Kind) {
        if leads_above(folder) {
            return self.leave(folder, "a link to a folder above");
        }
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        if folder.is_file() {
            found.push((folder.to_owned(), groups));
        } else {
            self.walk(folder, &groups, 0, &mut seen, &mut found);
        }
        for (path, groups) in found {
            let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            match extension.as_deref() {
                _ if is_hidden => self.leave(&path, "a hidden file"),
                Some("md" | "markdown" | "mdx") => {
                    let entry = self.entry(path, groups, root);
                    match kind {
                        Kind::Agent => self.agents.push(entry),
                        _ => self.commands.push(entry),
                    }
                }
                _ => {
                    self.leave(&path, format!("not a Markdown file; Claude Code does not read it as {}", article(kind)))
                }
            }
        }
    }

    fn walk(
        &mut self,
        folder: &Path,
        groups: &[String],
        depth: usize,
        seen: &mut BTreeSet<(u64, u64)>,
        found: &mut Vec<(PathBuf, Vec<String>)>,
    ) {
        // A link may lead to a folder above.
        let is_new = fs::metadata(folder).is_ok_and(|folder| seen.insert((folder.dev(), folder.ino())));
        if !is_new {
            return;
        }
        if let Err(error) = fs::read_dir(folder) {
            return self.leave(folder, format!("cannot be read: {error}"));
        }
        for path in sorted(folder) {
            if found.len() >= MOST_FILES || seen.len() >= MOST_FILES {
                return self.leave(folder, format!("more than {MOST_FILES} files or folders; the rest is not read"));
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                if leads_above(&path) {
                    self.leave(&path, "a link to a folder above");
                } else if depth == MOST_DEPTH {
                    self.leave(&path, format!("more than {MOST_DEPTH} folders deep"));
                } else if path.join(drawloom_substrate::SKILL_FILE).is_file() {
                    self.leave(&path, "a skill in a folder of other files; move it to `skills`");
                } else {
                    let groups: Vec<String> = groups.iter().cloned().chain([name]).collect();
                    self.walk(&path, &groups, depth + 1, seen, found);
                }
            } else {
                found.push((path, groups.to_vec()));
            }
        }
    }

    fn skill_folders(&mut self, root: &Root, folder: &Path) {
        if leads_above(folder) {
            return self.leave(folder, "a link to a folder above");
        }
        let Folders { mut found, left, .. } = crate::skills::folders(folder);
        for (path, reason) in &left {
            self.leave(path, reason.as_str());
        }
        if found.len() > drawloom_substrate::SKILL_LIMIT {
            found.truncate(drawloom_substrate::SKILL_LIMIT);
            self.leave(folder, format!("more than {} skills; the rest is not read", drawloom_substrate::SKILL_LIMIT));
        }
        for path in sorted(folder) {
            let is_known = left.iter().any(|(known, _)| *known == path);
            if !is_known && !found.iter().any(|skill| skill.starts_with(&path)) {
                self.leave(&path, format!("not a folder with a {}, or hidden", drawloom_substrate::SKILL_FILE));
            }
        }
        for path in found {
            let groups = path.parent().and_then(|parent| parent.strip_prefix(folder).ok());
            let groups = groups.into_iter().flat_map(Path::components);
            let groups = groups.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            let entry = self.entry(path, groups, root);
            self.skills.push(entry);
        }
    }

    /// Files of Claude Code's own come before those of plugins, and each file once.
    fn settle(&mut self) {
        for list in [&mut self.agents, &mut self.skills, &mut self.commands] {
            let mut seen = BTreeSet::new();
            list.retain(|entry| seen.insert(entry.path.canonicalize().unwrap_or_else(|_| entry.path.clone())));
            list.sort_by(|left, right| {
                (left.plugin.is_some(), left.groups.len(), &left.shown).cmp(&(
                    right.plugin.is_some(),
                    right.groups.len(),
                    &right.shown,
                ))
            });
        }
    }
}

/// Whether a folder holds agents itself, or in folders of it: a Markdown file with a name in its frontmatter.
fn looks_like_agents(folder: &Path) -> bool {
    let below = sorted(folder).into_iter().flat_map(|path| if path.is_dir() { sorted(&path) } else { vec![path] });
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
    below.filter(is_markdown).take(MOST_LOOKED_AT).any(|path| {
        let text = read_limited(&path, super::FILE_LIMIT).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.is_ok_and(|text| drawloom_substrate::frontmatter(&text).0.is_some_and(|head| head.contains("name:")))
    })
}

fn article(kind: Kind) -> &'static str {
    if kind == Kind::Agent { "an agent" } else { "a command" }
}

/// The folders of a component: the usual one, and those that a plugin's manifest names.
fn folders(root: &Root, name: &str) -> Vec<(PathBuf, Vec<String>)> {
    let mut found = vec![root.folder.join(name)];
    let named: Vec<&str> = match root.manifest.get(name) {
        Some(Value::String(path)) => vec![path.as_str()],
        Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for path in named.into_iter().map(Path::new).filter(|path| is_inside(path)) {
        let path: PathBuf = root.folder.join(path).components().filter(|part| *part != Component::CurDir).collect();
        if !found.iter().any(|known| path.starts_with(known)) {
            found.push(path);
        }
    }
    found.into_iter().filter(|path| path.exists()).map(|path| (path, Vec::new())).collect()
}

/// Whether a path of a manifest stays inside its plugin.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::CurDir | Component::Normal(_)))
}

/// Whether a path leads to something below a folder.
fn stays_in(folder: &Path, path: &Path) -> bool {
    match (folder.canonicalize(), path.canonicalize()) {
        (Ok(folder), Ok(path)) => path != folder && path.starts_with(folder),
        _ => false,
    }
}

fn same(left: &Path, right: &Path) -> bool {
    match (left.canonicalize(), right.canonicalize()) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn read_json(path: &Path) -> Result<Value, String> {
    json(&read_limited(path, JSON_LIMIT)?)
}
