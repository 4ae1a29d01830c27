//! A folder of Claude Code with hundreds of agents, skills, commands and plugins, in the shapes that people write them.
//!
//! The same number always gives the same folder. Every field that a file has is known to the caller, so that a test can ask
//! whether each one is reported.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// What was written.
#[derive(Debug, Default)]
pub struct ClaudeFolder {
    /// Agents that must come over: the file, relative, and the keys of its frontmatter.
    pub agents: BTreeMap<String, Vec<String>>,
    /// Commands that must come over, likewise.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Skills that must come over, by the path of their `SKILL.md`.
    pub skills: BTreeMap<String, Vec<String>>,
    /// Files that cannot come over and must be named.
    pub broken: Vec<String>,
}

const DESCRIPTIONS: &[&str] = &[
    "description: Reviews code",
    "description: \"Quoted: with a colon\"",
    "description: Use this agent when: the user asks. Examples: <example>user: \"Hi\"\\nassistant: \"Yes: now\"</example>",
    "description: |\n  A block of text.\n\n  With a blank line: and a colon.",
    "description: >-\n  Folded\n  text",
    "description: 'It''s single'",
    "description: Ünïcödé — 織機 🧵",
    "description: # nothing",
    "description:\n  - a list\n  - of lines",
    "description: * starts like an alias",
    "description: @mention and `ticks` % & !",
    "description: {not: closed",
    "description:\t tabs\tin it",
];

const TOOLS: &[&str] = &[
    "tools: Read, Grep, Glob",
    "tools: [Read, Write, Edit, MultiEdit]",
    "tools:\n  - Read\n  - Bash(git:*)\n  - Bash(npm run test:*)",
    "tools: Read,Write,Bash,WebFetch,WebSearch,TodoWrite,Task",
    "tools: Task(helper-1, helper-2), Read",
    "tools: \"*\"",
    "tools: mcp__github__get_issue, mcp__github__*, mcp__unknown__x, mcp__*",
    "tools:",
    "tools: []",
    "tools: LS, NotebookEdit, NotebookRead, ExitPlanMode, KillShell, BashOutput, Agent, Skill",
    "tools: read, GREP, Frobnicate",
    "tools: Read Grep Glob",
    "tools: {Read: true, Bash: false}",
    "tools: 7",
    "allowed-tools: Read, Grep",
    "disallowedTools: Write, Edit, Bash(rm:*)",
    "tools: WebFetch(domain:docs.example.com), Read(./src/**)",
    "",
];

const MODELS: &[&str] = &[
    "model: opus",
    "model: sonnet",
    "model: haiku",
    "model: inherit",
    "model: claude-opus-4-5-20251101",
    "model: gpt-5",
    "model: sonnet[1m]",
    "model:",
    "model: {a: b}",
    "model: \"Opus\"",
    "model: opusplan",
    "",
];

const EXTRAS: &[&str] = &[
    "color: red",
    "permissionMode: acceptEdits",
    "maxTurns: 20",
    "maxTurns: many",
    "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: ./check.sh}]",
    "memory: project",
    "background: true",
    "isolation: worktree",
    "effort: max",
    "temperature: 0.3",
    "top_p: 4",
    "skills: code-review-0, missing",
    "skills:\n  - code-review-1",
    "mcpServers:\n  - github\n  - own:\n      command: ./own-server\n      env: {KEY: ${KEY}}",
    "mcpServers: github",
    "version: 1.2.3",
    "tags: [a, b]",
    "metadata:\n  author: somebody\n  deep: {er: [1, 2]}",
    "x-custom: yes",
    "größe: klein",
    "initialPrompt: Go",
    "",
];

const BODIES: &[&str] = &[
    "You are an agent.\n\n## Steps\n\n1. Read.\n2. Say.\n",
    "Use ${HOME} and $${LITERAL} and `${x:-y}` in shell.\n\n```yaml\nkey: value # not a comment\n- list\n```\n",
    "\n\n   indented first line\n\ttabbed line\n\n\n",
    "One line without an end",
    "---\nA rule above and below\n---\n",
    "Ünïcödé body — 織機 🧵 \u{200b}zero width\u{2028}separator\n",
    "Trailing blanks   \n\n    code block\n\n# heading: with colon\n",
    "\u{1b}[31mcoloured\u{1b}[0m and a bell \u{7}\n",
    "<example>\nContext: \"quoted\"\n</example>\n% & * ! | > ' \" ` @ {} []\n",
    "",
];

/// Writes `count` agents and what belongs to them below `folder`, which is a project: `.claude` is in it.
pub fn write(folder: &Path, count: usize) -> io::Result<ClaudeFolder> {
    let mut made = ClaudeFolder::default();
    let mut tree = Writer { folder, made: &mut made };
    for index in 0..count {
        tree.agent(index)?;
    }
    for index in 0..count / 5 {
        tree.skill(index)?;
        tree.command(index)?;
    }
    tree.broken()?;
    tree.rest()?;
    Ok(made)
}

struct Writer<'a> {
    folder: &'a Path,
    made: &'a mut ClaudeFolder,
}

/// Keys at the first column of a frontmatter.
fn keys(head: &str) -> Vec<String> {
    let keys = head.lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key);
    let is_key = |key: &&str| !key.is_empty() && key.chars().all(|sign| sign.is_alphanumeric() || "-_".contains(sign));
    let mut keys: Vec<String> = keys.filter(is_key).map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn pick<'a>(list: &[&'a str], index: usize, step: usize) -> &'a str {
    list[(index / step + index) % list.len()]
}

impl Writer<'_> {
    fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let path: PathBuf = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(self.folder))?;
        fs::write(path, bytes)
    }

    fn agent(&mut self, index: usize) -> io::Result<()> {
        let name = match index % 9 {
            0 => String::new(),
            1 => format!("name: Agent Number {index}"),
            2 => format!("name: \"team:agent-{index}\""),
            3 => "name: reviewer".to_owned(),
            4 => format!("name: größe-{index}"),
            _ => format!("name: agent-{index}"),
        };
        let parts = [
            name.as_str(),
            pick(DESCRIPTIONS, index, 2),
            pick(TOOLS, index, 3),
            pick(MODELS, index, 5),
            pick(EXTRAS, index, 7),
            pick(EXTRAS, index + 11, 13),
        ];
        let mut seen: Vec<String> = Vec::new();
        let mut head = String::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let key = part.split(':').next().unwrap_or_default().to_owned();
            if !seen.contains(&key) {
                head.push_str(&format!("{part}\n"));
                seen.push(key);
            }
        }
        if head.is_empty() {
            head.push_str("description: d\n");
        }
        let text = format!("---\n{head}---\n{}", pick(BODIES, index, 4));
        let text = match index % 11 {
            1 => text.replace('\n', "\r\n"),
            2 => format!("\u{feff}{text}"),
            3 => format!("\n{text}"),
            4 => text.replace("---\n", "---  \n"),
            _ => text,
        };
        let folder = match index % 6 {
            0..=2 => ".claude/agents".to_owned(),
            3 => format!(".claude/agents/group-{}", index % 4),
            4 => format!(".claude/agents/a b/deep/er/{}", index % 3),
            _ => format!("plugins/plugin-{}/agents", index % 5),
        };
        let path = format!("{folder}/file-{index}.md");
        self.put(&path, text)?;
        self.made.agents.insert(path, keys(&head));
        Ok(())
    }

    fn skill(&mut self, index: usize) -> io::Result<()> {
        let head = match index % 4 {
            0 => format!("name: code-review-{index}\ndescription: How to review: well\n"),
            1 => format!(
                "name: code-review-{index}\ndescription: |\n  Many\n  lines\nlicense: MIT\nallowed-tools: Read Grep\n"
            ),
            2 => "description: no name\nmetadata: {a: 1}\nmodel: opus\ncontext: fork\n".to_owned(),
            _ => format!("name: Skill Of Words {index}\nunknown-field: x\n"),
        };
        let folder = match index % 3 {
            0 => format!(".claude/skills/skill-{index}"),
            1 => format!(".claude/skills/group/skill-{index}"),
            _ => format!("plugins/plugin-{}/skills/skill-{index}", index % 5),
        };
        self.put(&format!("{folder}/SKILL.md"), format!("---\n{head}---\n# Skill {index}\n\nDo it.\n"))?;
        self.put(&format!("{folder}/scripts/run.sh"), "#!/bin/sh\necho run\n")?;
        self.put(&format!("{folder}/reference.md"), "More.\n")?;
        self.made.skills.insert(format!("{folder}/SKILL.md"), keys(&head));
        Ok(())
    }

    fn command(&mut self, index: usize) -> io::Result<()> {
        let head = match index % 3 {
            0 => String::new(),
            1 => "description: A command: short\nargument-hint: [file] [line]\n".to_owned(),
            _ => {
                "description: x\nallowed-tools: Bash(git add:*), Bash(git commit:*)\nmodel: haiku\nodd: y\n".to_owned()
            }
        };
        let folder = match index % 3 {
            0 => ".claude/commands".to_owned(),
            1 => ".claude/commands/front end".to_owned(),
            _ => format!("plugins/plugin-{}/commands", index % 5),
        };
        let path = format!("{folder}/command-{index}.md");
        let front = if head.is_empty() { String::new() } else { format!("---\n{head}---\n") };
        self.put(&path, format!("{front}Do $ARGUMENTS or $1 with ${{VAR}}.\n!`git status`\n@file.md\n"))?;
        self.made.commands.insert(path, keys(&head));
        Ok(())
    }

    /// Files that are no agents, commands or skills, whatever they look like.
    fn broken(&mut self) -> io::Result<()> {
        let large = "x".repeat(300 * 1024);
        let files: [(&str, &[u8]); 11] = [
            (".claude/agents/empty.md", b""),
            (".claude/agents/blank.md", b" \n\n\t"),
            (".claude/agents/README.md", b"# About these agents\n\nText.\n"),
            (".claude/agents/open.md", b"---\nname: open\n\nno end\n"),
            (".claude/agents/large.md", large.as_bytes()),
            (".claude/agents/notes.txt", b"text"),
            (".claude/agents/config.json", b"{}"),
            (".claude/commands/empty.md", b""),
            (".claude/skills/raw/SKILL.md", b"---\nname: raw\n---\n\xff\xfe\xfd"),
            (".claude/skills/loose.md", b"# Not in a folder"),
            (".claude/settings.local.json", b"{ not json"),
        ];
        for (path, bytes) in files {
            self.put(path, bytes)?;
            self.made.broken.push(path.to_owned());
        }
        std::os::unix::fs::symlink("nowhere.md", self.folder.join(".claude/agents/dangling.md"))?;
        self.made.broken.push(".claude/agents/dangling.md".into());
        std::os::unix::fs::symlink("..", self.folder.join(".claude/agents/loop"))
    }

    /// Servers, settings, plugins' manifests and files that are only reported.
    fn rest(&mut self) -> io::Result<()> {
        self.put(
            ".mcp.json",
            "{\n  // servers\n  \"mcpServers\": {\n    \"github\": {\"command\": \"false\", \"args\": [\"-y\", \"gh\"], \"env\": {\"TOKEN\": \"${GH_TOKEN}\", \"MODE\": \"x\"}},\n    \
             \"my server\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:9/mcp\", \"headers\": {\"Authorization\": \"Bearer ${T}\"}},\n    \
             \"sse\": {\"type\": \"sse\", \"url\": \"http://127.0.0.1:9/sse\"},\n    \"broken\": 7,\n  }\n}\n",
        )?;
        self.put(
            ".claude/settings.json",
            "{\"permissions\": {\"allow\": [\"Bash(git:*)\", \"Read(~/x)\"], \"deny\": [\"WebFetch\"], \"defaultMode\": \"plan\"},\n \
             \"hooks\": {\"PostToolUse\": [{\"matcher\": \"Edit|Write\", \"hooks\": [{\"type\": \"command\", \"command\": \"fmt\"}]}]},\n \
             \"env\": {\"A\": \"b\"}, \"model\": \"opus\", \"statusLine\": {}}",
        )?;
        self.put("CLAUDE.md", "Be kind.\n")?;
        self.put(".claude/output-styles/loud.md", "LOUD\n")?;
        for plugin in 0..5 {
            let manifest = match plugin {
                0 => "{\"name\": \"plugin-0\", \"version\": \"1.0.0\"}".to_owned(),
                1 => "{ broken".to_owned(),
                2 => format!("{{\"name\": \"plugin {plugin}\", \"hooks\": \"./hooks/own.json\"}}"),
                _ => continue,
            };
            self.put(&format!("plugins/plugin-{plugin}/.claude-plugin/plugin.json"), manifest)?;
        }
        self.put(
            "plugins/plugin-2/hooks/own.json",
            "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]}]}}",
        )?;
        self.put("plugins/plugin-3/.mcp.json", "{\"files\": {\"command\": \"${CLAUDE_PLUGIN_ROOT}/serve\"}}")?;
        self.put(
            ".claude-plugin/marketplace.json",
            "{\"name\": \"m\", \"plugins\": [{\"name\": \"plugin-0\", \"source\": \"./plugins/plugin-0\"}, {\"name\": \"far\", \"source\": {\"source\": \"github\"}}]}",
        )
    }
}
