//! Volumes that are defined at runtime: directories inside a folder that the operator allows.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{ids::Tenant, tool::Mode};
use rustix::{
    fs::{Mode as Bits, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Volume, VolumeConfig, VolumeMode, VolumeTable, normalise};
use crate::problem::Problem;

/// A folder inside which volumes can be defined at runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeParent {
    /// The folder, relative to the config file; it must exist.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-power" = { "words": "lets callers define volumes in {}", "as": "path" }))]
    pub path: String,
    /// `rw` (read-write) or `ro` (read-only, the default): the most that volumes inside it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-power" = { "words": "lets agents change files in volumes that callers define there", "as": "flag", "when": "rw" }))]
    pub mode: Option<VolumeMode>,
    /// The tenant whose volumes can be inside it; `default` by default. Other tenants need folders of their own.
    #[serde(default = "Tenant::default_tenant")]
    #[schemars(extend("x-harmless" = "narrows who can define volumes there"))]
    pub tenant: Tenant,
}

/// Those folders, open.
#[derive(Debug, Default)]
pub(crate) struct Parents(Vec<Parent>);

#[derive(Debug)]
struct Parent {
    /// As the file system spells it.
    path: PathBuf,
    root: File,
    mode: Mode,
    tenant: Tenant,
}

impl Parents {
    pub(crate) fn open(config: &[VolumeParent]) -> (Self, Vec<Problem>) {
        let (mut parents, mut problems) = (Vec::new(), Vec::new());
        for (index, parent) in config.iter().enumerate() {
            let opened = Path::new(&parent.path).canonicalize().and_then(|path| {
                let root = File::open(&path)?;
                let is_directory = root.metadata()?.is_dir();
                let mode = mode_of(parent.mode);
                is_directory
                    .then_some(Parent { path, root, mode, tenant: parent.tenant.clone() })
                    .ok_or_else(|| std::io::ErrorKind::NotADirectory.into())
            });
            match opened {
                Ok(parent) => parents.push(parent),
                Err(error) => {
                    let at = ["definitions", "volumes_under", &index.to_string(), "path"].map(str::to_owned);
                    let message = format!("cannot open the directory {:?}: {error}", parent.path);
                    let hint = "create the directory; a relative path starts at the config file";
                    problems.push(Problem::new(at, message).with_hint(hint));
                }
            }
        }
        (Self(parents), problems)
    }

    fn of<'a>(&'a self, tenant: &Tenant) -> impl Iterator<Item = &'a Parent> + use<'a> {
        let tenant = tenant.clone();
        self.0.iter().filter(move |parent| parent.tenant == tenant)
    }

    /// A tenant's folders as text, for errors.
    fn names(&self, tenant: &Tenant) -> String {
        self.of(tenant).map(|parent| parent.path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The folder that a path is in, and the rest of the path.
    fn holding(&self, tenant: &Tenant, path: &str) -> Result<(&Parent, PathBuf), String> {
        let parents: Vec<&Parent> = self.of(tenant).collect();
        if parents.is_empty() {
            return Err(format!(
                "volumes cannot be defined at runtime: `definitions.volumes_under` in the config has no folder for tenant {tenant}"
            ));
        }
        let asked = Path::new(path);
        let plain = normalise(asked).ok_or_else(|| format!("{path:?} leaves its folder through \"..\""))?;
        if asked.is_absolute() {
            let inside = parents.iter().filter_map(|parent| Some((*parent, plain.strip_prefix(&parent.path).ok()?)));
            let innermost = inside.min_by_key(|(_, rest)| rest.components().count());
            let outside =
                || format!("{path:?} is outside the folders of `definitions.volumes_under`: {}", self.names(tenant));
            return innermost.map(|(parent, rest)| (parent, rest.to_owned())).ok_or_else(outside);
        }
        match &*parents {
            [only] => Ok((only, plain)),
            _ => Err(format!("{path:?} is relative; write a path inside one of {}", self.names(tenant))),
        }
    }

    /// Opens a directory inside one of the folders. No link is followed. The second value says what was narrowed.
    fn open_volume(&self, tenant: &Tenant, config: &VolumeConfig) -> Result<(Volume, Option<String>), String> {
        let path = &config.path;
        if path.contains('\0') {
            return Err("the path contains a NUL byte".into());
        }
        let (parent, rest) = self.holding(tenant, path)?;
        let below = if rest.as_os_str().is_empty() { Path::new(".") } else { &rest };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let root = openat2(&parent.root, below, flags, Bits::empty(), resolve).map_err(|error| match error {
            Errno::LOOP => format!("{path:?} is a symlink, or inside one"),
            Errno::NOENT => format!("the directory {path:?} does not exist; create it first"),
            Errno::NOTDIR => format!("{path:?} is not a directory"),
            error => format!("cannot open the directory {path:?}: {error}"),
        })?;
        let asked = mode_of(config.mode);
        let mode = if parent.mode == Mode::ReadWrite { asked } else { Mode::ReadOnly };
        let narrowed = (mode != asked).then(|| {
            format!("mode: reduced from rw to ro: `definitions.volumes_under` has {} as ro", parent.path.display())
        });
        let volume = Volume {
            root: Arc::new(File::from(root)),
            mode,
            assumed: config.mode.is_none(),
            spellings: vec![parent.path.join(&rest)],
            guarded: Arc::default(),
        };
        Ok((volume, narrowed))
    }
}

impl VolumeTable {
    /// Adds a volume that was defined at runtime, protected like all others; or says why it cannot be one. `data` is the real path of
    /// the data directory. Answers what was narrowed.
    pub(crate) fn add_below(
        &mut self,
        parents: &Parents,
        tenant: &Tenant,
        name: &str,
        config: &VolumeConfig,
        data: Option<&Path>,
    ) -> Result<Option<String>, String> {
        let (volume, narrowed) = parents.open_volume(tenant, config)?;
        let mut table = self.clone();
        table.volumes = [(name.to_owned(), Arc::new(volume))].into();
        let explain = |error: std::io::Error| format!("cannot protect files of the server in volume {name}: {error}");
        let mut problems = table.guard_one(name).map_err(explain)?;
        if let Some(data) = data {
            problems.extend(table.exposing(data).map_err(explain)?);
        }
        if let Some(problem) = problems.first() {
            return Err(problem.message.clone());
        }
        self.volumes.append(&mut table.volumes);
        Ok(narrowed)
    }
}

fn mode_of(mode: Option<VolumeMode>) -> Mode {
    match mode {
        Some(VolumeMode::Rw) => Mode::ReadWrite,
        Some(VolumeMode::Ro) | None => Mode::ReadOnly,
    }
}
