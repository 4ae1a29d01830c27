//! Our git directory of a goal. It has no refs and no hooks: only settings, and the way to the user's objects.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    attributes::NEUTRAL,
    checkouts::Checkouts,
    error::Error,
    places::{Places, blocking, make_directory, write_file},
    prepare::Facts,
    state::Record,
};

/// Settings of the user that decide how files look in a checkout.
const TAKEN_OVER: &[&str] = &[
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
];

/// The longest list of ignored files that is taken over, in bytes.
const LONGEST_EXCLUDES: u64 = 1024 * 1024;

/// The user's list of ignored files, in the home directory.
const OWN_IGNORE: &str = ".config/git/ignore";

/// What coding CLIs leave where they work: not a part of the work.
const OWN_EXCLUDES: &[u8] = b".aider*\n";

impl Checkouts {
    /// Makes our git directory. What an earlier try left is replaced. Answers whether the user's repository is a partial clone.
    pub(crate) async fn make_git_directory(
        &self,
        places: &Places,
        facts: &Facts,
        record: &Record,
    ) -> Result<bool, Error> {
        let directory = facts.work_tree.as_ref().map_or(&facts.common, |(top, _)| top);
        let asked = ["config", "--null", "--list", "--includes"];
        let settings = self.git_in(&record.goal, directory).with_user_settings().args(asked).ok().await?.parts()?;
        let settings: Vec<(String, String)> = settings
            .iter()
            .map(|setting| String::from_utf8_lossy(setting).into_owned())
            .map(|setting| {
                setting.split_once('\n').map_or((setting.clone(), "true".into()), |(k, v)| (k.into(), v.into()))
            })
            .collect();
        let is_partial =
            settings.iter().any(|(name, _)| name.ends_with(".promisor") || name == "extensions.partialclone");
        let mut config = format(&facts.object_format);
        config.push_str("[core]\n\tbare = true\n");
        for (name, value) in settings.iter().filter(|(name, _)| TAKEN_OVER.contains(&name.as_str())) {
            let plain = value.chars().all(|c| c.is_ascii_alphanumeric());
            if let (Some((_, key)), true) = (name.split_once('.'), plain) {
                config.push_str(&format!("\t{key} = {value}\n"));
            }
        }
        let home = self.parts.environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.clone());
        let global =
            settings.iter().rev().find(|(name, _)| name == "core.excludesfile").map(|(_, value)| value.clone());
        let global = match (global, &home) {
            (Some(path), Some(home)) => Some(PathBuf::from(path.replacen("~/", &format!("{home}/"), 1))),
            (Some(path), None) => Some(PathBuf::from(path)),
            (None, Some(home)) => Some(Path::new(home).join(OWN_IGNORE)),
            (None, None) => None,
        };
        // The config of a repository may name any file, and workers can read what is taken over.
        let is_own = |path: &Path| home.as_ref().is_some_and(|home| path == Path::new(home).join(OWN_IGNORE));
        let global = global.filter(|path| is_own(path) || self.may_read(path));
        let (common, objects) = (facts.common.clone(), facts.objects.clone());
        let places = places.clone();
        blocking(move || {
            let git = places.git();
            places.remove(&git)?;
            write_repository(&git, &config, &objects, &common.join("shallow"))?;
            let mut excludes = OWN_EXCLUDES.to_vec();
            for path in [Some(common.join("info/exclude")), global].into_iter().flatten() {
                let small = fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LONGEST_EXCLUDES);
                if let (true, Ok(content)) = (small, fs::read(&path)) {
                    excludes.extend(content);
                    excludes.push(b'\n');
                }
            }
            write_file(&git.join("info/exclude"), &excludes)?;
            places.remove(&places.plain_git())?;
            write_plain(&places, &objects)?;
            Ok(is_partial)
        })
        .await
    }
}

/// Makes the git directory in which attributes change no byte, from the usual one.
pub(crate) fn write_plain(places: &Places, objects: &Path) -> Result<(), Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let ours = places.git();
    let plain =
        places.goal().join(format!("git-plain-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let config = fs::read_to_string(ours.join("config")).map_err(Error::file("read", ours.join("config")))?;
    make_directory(&plain.join("info"))?;
    fs::copy(ours.join("info/exclude"), plain.join("info/exclude")).map_err(Error::file("copy", &ours))?;
    let attributes = plain.join("info/attributes");
    fs::write(&attributes, format!("* {NEUTRAL}\n")).map_err(Error::file("write", attributes))?;
    write_repository(&plain, &config, objects, &ours.join("shallow"))?;
    match fs::rename(&plain, places.plain_git()) {
        Ok(()) => Ok(()),
        // Another call made it at the same time.
        Err(_) if places.plain_git().join("HEAD").exists() => places.remove(&plain),
        Err(error) => Err(Error::file("make", places.plain_git())(error)),
    }
}

/// The part of a config that names the format.
pub(crate) fn format(object_format: &str) -> String {
    match object_format {
        "sha1" => "[core]\n\trepositoryformatversion = 0\n".into(),
        other => format!("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = {other}\n"),
    }
}

/// Writes a git directory without objects of its own.
pub(crate) fn write_repository(git: &Path, config: &str, objects: &Path, shallow: &Path) -> Result<(), Error> {
    for part in ["objects/info", "objects/pack", "refs/heads", "info"] {
        make_directory(&git.join(part))?;
    }
    let alternates = format!("{}\n", objects.display());
    fs::write(git.join("objects/info/alternates"), alternates).map_err(Error::file("write", git))?;
    fs::write(git.join("config"), config).map_err(Error::file("write", git))?;
    match fs::copy(shallow, git.join("shallow")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("read", shallow)(error)),
        Ok(_) | Err(_) => {}
    }
    // Last: without it git does not take the directory for a repository.
    fs::write(git.join("HEAD"), "ref: refs/heads/none\n").map_err(Error::file("write", git))
}
