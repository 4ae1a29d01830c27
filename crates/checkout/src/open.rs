//! Opening a checkout for tools of ours that work in it. Nothing is changed, and nothing is waited for.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::{
    add::{Kind, environment_of},
    checkouts::check_names,
    error::Error,
    places::{Places, read_json},
    state::{Goal, Record, State},
};

/// A checkout, open.
#[derive(Debug)]
pub struct Opened {
    pub kind: Kind,
    /// Whether it is the user's own checkout: what works there must not change `.git`.
    pub is_in_place: bool,
    /// The top of the checkout. No link was followed on the way to it.
    pub directory: File,
    /// Where that is.
    pub path: PathBuf,
    /// For the programs that work in it: leased ports and a directory for temporary files.
    pub environment: Vec<(String, String)>,
    /// What programs must be able to read besides, to use git in it: the objects of the user's repository.
    pub readable: Vec<PathBuf>,
    /// The directory for temporary files.
    pub temporary: PathBuf,
}

/// Opens a checkout of a goal below `root`.
pub fn open(root: &Path, goal: &str, name: &str) -> Result<Opened, Error> {
    check_names(goal, name)?;
    let root = root.canonicalize().map_err(Error::file("resolve", root))?;
    let places = Places::new(&root, goal);
    let record: Option<Record> = read_json(&places.record())?;
    let record = record.ok_or_else(|| Error::UnknownGoal { goal: goal.to_owned() })?;
    let state: Option<State> = read_json(&places.state(name))?;
    let unknown = || Error::UnknownCheckout { goal: goal.to_owned(), name: name.to_owned() };
    let state = state.ok_or_else(unknown)?;
    let found = Goal { record, places };
    let (path, places) = (found.work(name, state.kind), &found.places);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| Error::file("open", &path)(error.into()))?;
    Ok(Opened {
        is_in_place: found.is_in_place(state.kind),
        kind: state.kind,
        directory: File::from(directory),
        environment: environment_of(places, goal, name, state.port),
        readable: found.readable(state.kind),
        temporary: places.temporary(name),
        path,
    })
}
