//! Names of files that make tools run something. They are compared as file systems do that ignore case.

use crate::names::plain_name;

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Any change of it counts.
    Always(&'static str),
    /// A `package.json`: what is in it decides.
    PackageScripts,
}

const AGENT: &str = "settings of a coding agent, which can start programs, hooks and MCP servers";
const DRAWLOOM: &str = "a config of Drawloom, which can start programs";
const VARIABLES: &str = "variables that programs and shells load by themselves";
const DIRENV: &str = "shells run it when they enter the folder";
const EDITOR: &str = "an editor runs tasks and programs that it names";
const GIT: &str = "settings of git, which can run filters, fetch modules and change files at checkout";
const HOOK: &str = "git runs hooks of this name, and tools install them";
const WORKFLOW: &str = "a server runs it after a push, often with secrets";
const PACKAGES: &str = "settings of a package manager, which can run programs and change where packages come from";
const BUILD: &str = "builds and editors run it before anything of the project is started";
const PYTHON: &str = "Python runs it when it starts";
const NATIVE: &str = "machine code, which interpreters load in place of a source of the same name";
const SHELL: &str = "an interpreter, debugger or shell runs it when it starts here";
const OTHER: &str = "a repository of another version control system, with hooks of its own";

/// Names of files and folders. A folder counts with all that is in it.
const NAMES: &[(&str, &str)] = &[
    // Coding agents.
    (".claude", AGENT),
    (".claude.json", AGENT),
    (".claude-plugin", AGENT),
    (".mcp.json", AGENT),
    ("mcp.json", AGENT),
    (".codex", AGENT),
    ("opencode.json", AGENT),
    ("opencode.jsonc", AGENT),
    (".opencode", AGENT),
    (".cursor", AGENT),
    (".gemini", AGENT),
    (".qwen", AGENT),
    (".continue", AGENT),
    (".windsurf", AGENT),
    (".roo", AGENT),
    (".cline", AGENT),
    (".kiro", AGENT),
    (".amazonq", AGENT),
    (".goose", AGENT),
    (".crush.json", AGENT),
    ("crush.json", AGENT),
    (".copilot", AGENT),
    (".amp", AGENT),
    (".augment", AGENT),
    ("drawloom.yaml", DRAWLOOM),
    ("drawloom.yml", DRAWLOOM),
    (".drawloom", DRAWLOOM),
    // Shells.
    (".envrc", DIRENV),
    (".direnv", DIRENV),
    (".autoenv", DIRENV),
    (".autoenv.zsh", DIRENV),
    (".shadowenv.d", DIRENV),
    ("mise.toml", DIRENV),
    (".mise.toml", DIRENV),
    ("mise.local.toml", DIRENV),
    (".mise.local.toml", DIRENV),
    ("mise", DIRENV),
    (".mise", DIRENV),
    (".rtx.toml", DIRENV),
    (".tool-versions", DIRENV),
    (".gdbinit", SHELL),
    (".lldbinit", SHELL),
    (".pdbrc", SHELL),
    (".pdbrc.py", SHELL),
    (".irbrc", SHELL),
    (".pryrc", SHELL),
    (".rdbgrc", SHELL),
    (".byebugrc", SHELL),
    (".rprofile", SHELL),
    (".perldb", SHELL),
    (".psqlrc", SHELL),
    (".sqliterc", SHELL),
    (".bashrc", SHELL),
    (".bash_profile", SHELL),
    (".profile", SHELL),
    (".zshrc", SHELL),
    (".zshenv", SHELL),
    (".tmux.conf", SHELL),
    (".screenrc", SHELL),
    (".inputrc", SHELL),
    (".ghci", SHELL),
    (".ocamlinit", SHELL),
    (".iex.exs", SHELL),
    (".renviron", SHELL),
    // Editors.
    (".vscode", EDITOR),
    (".vscode-server", EDITOR),
    (".idea", EDITOR),
    (".fleet", EDITOR),
    (".zed", EDITOR),
    (".vs", EDITOR),
    (".devcontainer", EDITOR),
    (".devcontainer.json", EDITOR),
    ("devcontainer.json", EDITOR),
    (".gitpod.yml", EDITOR),
    (".nvim.lua", EDITOR),
    (".nvimrc", EDITOR),
    (".exrc", EDITOR),
    (".vimrc", EDITOR),
    (".lvimrc", EDITOR),
    (".gvimrc", EDITOR),
    (".dir-locals.el", EDITOR),
    (".dir-locals-2.el", EDITOR),
    (".helix", EDITOR),
    (".vim", EDITOR),
    (".theia", EDITOR),
    (".idx", EDITOR),
    (".codesandbox", EDITOR),
    // Git and other version control systems.
    (".gitattributes", GIT),
    (".gitmodules", GIT),
    (".gitconfig", GIT),
    (".lfsconfig", GIT),
    (".hg", OTHER),
    (".hgrc", OTHER),
    (".jj", OTHER),
    (".svn", OTHER),
    (".bzr", OTHER),
    (".sl", OTHER),
    (".pijul", OTHER),
    // Hooks.
    (".husky", HOOK),
    (".huskyrc", HOOK),
    (".githooks", HOOK),
    ("githooks", HOOK),
    (".git-hooks", HOOK),
    ("git-hooks", HOOK),
    (".git_hooks", HOOK),
    ("git_hooks", HOOK),
    (".hooks", HOOK),
    (".pre-commit-config.yaml", HOOK),
    (".pre-commit-config.yml", HOOK),
    (".pre-commit-hooks.yaml", HOOK),
    ("prek.toml", HOOK),
    (".lefthook", HOOK),
    (".lefthook.yml", HOOK),
    (".lefthook.yaml", HOOK),
    ("lefthook.yml", HOOK),
    ("lefthook.yaml", HOOK),
    ("lefthook-local.yml", HOOK),
    (".overcommit.yml", HOOK),
    (".captainhook.json", HOOK),
    ("captainhook.json", HOOK),
    (".simple-git-hooks.json", HOOK),
    // Workflows.
    (".github", WORKFLOW),
    (".gitlab", WORKFLOW),
    (".gitlab-ci.yml", WORKFLOW),
    (".gitlab-ci.yaml", WORKFLOW),
    (".gitea", WORKFLOW),
    (".forgejo", WORKFLOW),
    (".circleci", WORKFLOW),
    (".buildkite", WORKFLOW),
    (".woodpecker", WORKFLOW),
    (".woodpecker.yml", WORKFLOW),
    (".woodpecker.yaml", WORKFLOW),
    (".travis.yml", WORKFLOW),
    (".drone.yml", WORKFLOW),
    (".cirrus.yml", WORKFLOW),
    (".appveyor.yml", WORKFLOW),
    ("appveyor.yml", WORKFLOW),
    ("azure-pipelines.yml", WORKFLOW),
    (".azure-pipelines", WORKFLOW),
    ("bitbucket-pipelines.yml", WORKFLOW),
    ("jenkinsfile", WORKFLOW),
    ("cloudbuild.yaml", WORKFLOW),
    ("buildspec.yml", WORKFLOW),
    (".teamcity", WORKFLOW),
    (".semaphore", WORKFLOW),
    (".build.yml", WORKFLOW),
    (".builds", WORKFLOW),
    ("netlify.toml", WORKFLOW),
    ("vercel.json", WORKFLOW),
    // Package managers.
    (".npmrc", PACKAGES),
    (".yarn", PACKAGES),
    (".yarnrc", PACKAGES),
    (".yarnrc.yml", PACKAGES),
    (".pnp.cjs", PACKAGES),
    (".pnp.loader.mjs", PACKAGES),
    (".pnpmfile.cjs", PACKAGES),
    (".pnpmfile.mjs", PACKAGES),
    ("pnpmfile.js", PACKAGES),
    ("pnpm-workspace.yaml", PACKAGES),
    ("bunfig.toml", PACKAGES),
    (".bundle", PACKAGES),
    (".gemrc", PACKAGES),
    ("pip.conf", PACKAGES),
    (".pypirc", PACKAGES),
    (".condarc", PACKAGES),
    ("uv.toml", PACKAGES),
    // Builds that start when a project is opened.
    (".cargo", BUILD),
    ("build.rs", BUILD),
    ("rust-toolchain", BUILD),
    ("rust-toolchain.toml", BUILD),
    (".mvn", BUILD),
    ("gradle-wrapper.jar", BUILD),
    ("gradle-wrapper.properties", BUILD),
    (".bazelrc", BUILD),
    (".bazeliskrc", BUILD),
    (".buckconfig", BUILD),
    (".watchmanconfig", BUILD),
    (".bsp", BUILD),
    ("hie.yaml", BUILD),
    (".hie-bios", BUILD),
    ("directory.build.props", BUILD),
    ("directory.build.targets", BUILD),
    ("build.sbt", BUILD),
    ("settings.gradle", BUILD),
    ("settings.gradle.kts", BUILD),
    ("build.gradle", BUILD),
    ("build.gradle.kts", BUILD),
    // Python.
    ("sitecustomize.py", PYTHON),
    ("usercustomize.py", PYTHON),
    ("pyvenv.cfg", PYTHON),
    ("sitecustomize", PYTHON),
    ("usercustomize", PYTHON),
    (".venv", PYTHON),
    ("venv", PYTHON),
];

/// Beginnings of names of files and folders.
const BEGINNINGS: &[(&str, &str)] = &[
    (".aider", AGENT),
    (".env", VARIABLES),
    (".lintstagedrc", HOOK),
    ("lint-staged.config.", HOOK),
    (".huskyrc.", HOOK),
    ("husky.config.", HOOK),
];

/// Ends of names of files.
const ENDS: &[(&str, &str)] = &[
    (".code-workspace", EDITOR),
    (".sublime-project", EDITOR),
    (".pth", PYTHON),
    (".so", NATIVE),
    (".pyd", NATIVE),
    (".dylib", NATIVE),
    (".dll", NATIVE),
    (".node", NATIVE),
    (".exe", NATIVE),
    (".jar", NATIVE),
    (".csproj", BUILD),
    (".fsproj", BUILD),
    (".vbproj", BUILD),
];

/// Names that git gives to hooks. In whatever folder they lie, `core.hooksPath` or a tool may lead there.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
];

/// Templates of variables that no program loads.
const TEMPLATES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Why a changed path counts.
pub(super) fn why(path: &[u8]) -> Option<Rule> {
    let parts: Vec<String> =
        path.split(|byte| *byte == b'/').map(|part| String::from_utf8_lossy(&plain_name(part)).into_owned()).collect();
    let (last, folders) = parts.split_last()?;
    let named = |part: &str| {
        let exact = NAMES.iter().find(|(name, _)| *name == part);
        exact.or_else(|| BEGINNINGS.iter().find(|(beginning, _)| part.starts_with(beginning))).map(|(_, why)| *why)
    };
    if TEMPLATES.contains(&last.as_str()) && !folders.iter().any(|part| named(part).is_some()) {
        return None;
    }
    if let Some(why) = parts.iter().find_map(|part| named(part)) {
        return Some(Rule::Always(why));
    }
    if let Some((_, why)) = ENDS.iter().find(|(end, _)| last.ends_with(end)) {
        return Some(Rule::Always(why));
    }
    // Libraries with a version, such as `libx.so.1`.
    if last.contains(".so.") {
        return Some(Rule::Always(NATIVE));
    }
    let is_in_hooks = folders.last().is_some_and(|folder| folder.ends_with("hooks"));
    if HOOKS.contains(&last.as_str()) && (last != "update" || is_in_hooks) {
        return Some(Rule::Always(HOOK));
    }
    matches!(last.as_str(), "package.json" | "composer.json").then_some(Rule::PackageScripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_make_tools_run_something_are_known_at_any_depth_and_in_any_case() {
        for path in [
            "drawloom.yaml",
            "sub/Drawloom.yaml",
            ".claude/settings.json",
            ".mcp.json",
            ".envrc",
            ".env",
            ".env.local",
            ".VSCode/tasks.json",
            "a.code-workspace",
            ".gitattributes",
            "deep/er/.gitmodules",
            ".github/workflows/ci.yml",
            ".husky/pre-commit",
            "tools/hooks/post-checkout",
            "hooks/update",
            ".cargo/config.toml",
            "crates/x/build.rs",
            "lib/site-packages/x.pth",
            "pkg/_fast.cpython-311-x86_64-linux-gnu.so",
            ".aider.conf.yml",
            ".codex/config.toml",
            "opencode.json",
            ".npmrc",
            ".yarn/releases/yarn.cjs",
            ".idea/workspace.xml",
            ".claude/.env.example",
            "sitecustomize/__init__.py",
            "lib/libx.so.1",
            "App/App.csproj",
            "sub/settings.gradle.kts",
        ] {
            assert!(matches!(why(path.as_bytes()), Some(Rule::Always(_))), "{path}");
        }
        for path in [
            "src/main.rs",
            "src/hooks/useThing.ts",
            "cmd/update",
            ".gitignore",
            ".gitkeep",
            ".env.example",
            "README.md",
            "Makefile",
            "claude/settings.json",
            "environment.ts",
            "vscode/x",
        ] {
            assert_eq!(why(path.as_bytes()), None, "{path}");
        }
        assert_eq!(why(b"web/package.json"), Some(Rule::PackageScripts));
    }
}
