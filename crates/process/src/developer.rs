//! What a developer's tool may read of this machine: what builds need, and no credentials.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    landlock::{SETTINGS, SYSTEM},
    listed::ListedPath,
};

/// Paths in a home that hold credentials, private messages or the history of a user. A `*` at the end stands for any rest of a
/// name. A tool that needs one of them, such as its own login, is given it by name.
pub const CREDENTIALS: &[&str] = &[
    // Keys and passwords.
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".kde/share/apps/kwallet",
    ".pki",
    ".vault-token",
    ".netrc",
    ".authinfo*",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/op",
    ".config/Bitwarden*",
    ".config/1Password*",
    ".config/keybase",
    ".config/age",
    ".config/sops",
    // Clouds, clusters, registries and databases.
    ".aws",
    ".azure",
    ".boto",
    ".s3cfg",
    ".oci",
    ".config/gcloud",
    ".config/doctl",
    ".config/rclone",
    ".config/heroku",
    ".config/fly",
    ".fly",
    ".terraform.d",
    ".terraformrc",
    ".kube",
    ".docker",
    ".config/containers",
    ".npmrc",
    ".yarnrc*",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials*",
    ".m2/settings*",
    ".gradle/gradle.properties",
    ".nuget",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".huggingface",
    ".cache/huggingface/token",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    // Logins of coding agents.
    ".anthropic",
    ".claude*",
    ".codex",
    ".aider*",
    ".gemini",
    ".cursor",
    ".copilot",
    ".config/github-copilot",
    ".config/opencode",
    ".local/share/opencode",
    ".local/state/opencode",
    ".cache/opencode",
    ".config/goose",
    ".config/drawloom",
    ".local/share/drawloom",
    ".local/state/drawloom",
    // Browsers, mail and chat.
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome*",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge*",
    ".config/vivaldi",
    ".config/opera*",
    ".config/Slack",
    ".config/discord",
    ".config/Signal",
    ".var",
    "snap",
    // Histories.
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".histfile",
    ".local/share/fish",
    ".node_repl_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".lesshst",
    ".viminfo",
    ".wget-hsts",
    ".xauth*",
    ".Xauthority",
    ".ICEauthority",
];

/// Directories of the machine that a tool sees nothing of: other users, other programs, the kernel.
const WITHHELD: &[&str] = &["boot", "dev", "home", "lost+found", "proc", "root", "run", "sys", "tmp", "var"];

/// What a developer's tool of the user with this home may read besides the system's own directories: further directories of the
/// machine, and of the home everything but [`CREDENTIALS`] and `hidden`. What is added there later is not part of it. A path
/// that is also listed as writable stays writable.
pub fn developer_paths(home: &Path, hidden: &[PathBuf]) -> Vec<ListedPath> {
    let hidden = Hidden::new(home, hidden);
    let mut shown = BTreeSet::new();
    for name in names(Path::new("/")) {
        let path = Path::new("/").join(&name);
        let is_system = SYSTEM.iter().any(|system| Path::new(system).starts_with(&path)) || path == Path::new(SETTINGS);
        let is_withheld = WITHHELD.iter().any(|withheld| *withheld == name);
        if !is_system && !is_withheld && !path.is_symlink() {
            hidden.show(&path, &mut shown);
        }
    }
    hidden.show_entries(home, &mut shown);
    shown.into_iter().map(ListedPath::resolve).collect()
}

/// What must not be seen.
struct Hidden {
    paths: BTreeSet<PathBuf>,
    /// Directories with names in them that end in `*`, and the beginnings of those names.
    beginnings: Vec<(PathBuf, &'static str)>,
}

impl Hidden {
    fn new(home: &Path, hidden: &[PathBuf]) -> Self {
        let mut homes = vec![home.to_owned()];
        homes.extend(home.canonicalize());
        let (mut paths, mut beginnings) = (BTreeSet::from_iter(hidden.iter().cloned()), Vec::new());
        for credential in CREDENTIALS {
            for path in homes.iter().map(|home| home.join(credential)) {
                match credential.strip_suffix('*') {
                    Some(rest) => {
                        let name = rest.rsplit('/').next().unwrap_or(rest);
                        beginnings.extend(path.parent().map(|parent| (parent.to_owned(), name)));
                    }
                    None => {
                        paths.insert(path);
                    }
                }
            }
        }
        // What a link leads to is hidden too.
        let real: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        paths.extend(real);
        Self { paths, beginnings }
    }

    /// Whether this very path is hidden, or lies in what is.
    fn hides(&self, path: &Path) -> bool {
        let begins = |(directory, name): &(PathBuf, &str)| {
            let rest = path.strip_prefix(directory).ok().and_then(|rest| rest.iter().next());
            rest.is_some_and(|rest| rest.as_encoded_bytes().starts_with(name.as_bytes()))
        };
        path.ancestors().any(|path| self.paths.contains(path)) || self.beginnings.iter().any(begins)
    }

    /// Whether something hidden is in this directory.
    fn is_below(&self, directory: &Path) -> bool {
        // A sorted set has what is inside one after the other.
        let mut inside = self.paths.range(directory.to_owned()..).take_while(|path| path.starts_with(directory));
        inside.any(|path| path.exists())
            || self.beginnings.iter().any(|(parent, _)| parent.starts_with(directory) && parent.is_dir())
    }

    /// Adds `path`, or the parts of it that are not hidden. A link to a directory with hidden parts is left out: what is not
    /// hidden there is found where it really is, and links can go round in circles. So are sockets.
    fn show(&self, path: &Path, shown: &mut BTreeSet<PathBuf>) {
        let (Ok(real), Ok(metadata)) = (path.canonicalize(), path.metadata()) else { return };
        let is_hidden = self.hides(path) || self.hides(&real) || real.to_str().is_none() || path.to_str().is_none();
        if is_hidden || !(metadata.is_dir() || metadata.is_file()) {
            return;
        }
        match metadata.is_dir() && (self.is_below(path) || self.is_below(&real)) {
            true if path.is_symlink() => {}
            true => self.show_entries(path, shown),
            false => _ = shown.insert(path.to_owned()),
        }
    }

    fn show_entries(&self, directory: &Path, shown: &mut BTreeSet<PathBuf>) {
        for name in names(directory) {
            self.show(&directory.join(name), shown);
        }
    }
}

fn names(directory: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}
