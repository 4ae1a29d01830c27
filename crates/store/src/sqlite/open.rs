//! Opening the store: the directory, the file, its format, and a new boot.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{journal::StoreError, record::Epoch, time::Timestamp};

use super::{
    Connection, Result as Done,
    error::{explain, explain_io},
    mark::{Lost, Mark, Reached},
    migrate::migrate,
    upgrade,
};
use crate::{
    store::Store,
    tables::{self, boots, definitions},
};

/// The store's file in its directory.
pub const FILE: &str = "drawloom.db";
/// How a file of SQLite begins, and how much of it there is up to the end of the format's number.
const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER: usize = 64;

/// Where the store is and how safe its commits are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The data directory; the file in it is `drawloom.db`.
    pub directory: PathBuf,
    /// What a commit waits for.
    pub synchronous: Synchronous,
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// A real sync: what is acknowledged survives a loss of power.
    Full,
    /// Nothing. Only for a test process that proves that a missing sync is noticed.
    Off,
}

impl Options {
    /// A safe store in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), synchronous: Synchronous::Full }
    }
}

/// A store that was opened, and what was found.
pub struct Opened {
    /// The store.
    pub store: Arc<Store>,
    /// The number of this boot: entries carry it.
    pub epoch: Epoch,
    /// How the boot before ended.
    pub previous: Previous,
    /// What was missing at the end of the store, now or when it was opened before.
    pub lost: Option<Lost>,
}

/// How the boot before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Previous {
    /// There was none.
    None,
    /// It closed the store.
    Clean,
    /// It did not.
    Unclean,
}

/// What there is to read in a directory that another process may own.
pub enum Found {
    /// A store that can be read, and nothing else.
    Store(Arc<Store>),
    /// None yet.
    Nothing,
    /// A store of an earlier format: its owner must bring it up to date first.
    Older,
}

/// Opens the store for reading only.
pub(crate) fn open_to_read(directory: &Path) -> Result<Found, StoreError> {
    let file = directory.join(FILE);
    match fs::metadata(&file) {
        Ok(found) if found.len() > 0 => {}
        Ok(_) => return Ok(Found::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(explain_io(&file, "cannot read the store's metadata", &error)),
    }
    check_header(&file)?;
    let connection = Connection::open_to_read(&file).map_err(|error| explain(&file, &error))?;
    let found = connection.format().map_err(|error| explain(&file, &error))?;
    check_format(&file, found)?;
    match found == tables::format() {
        true => Store::read_only(connection, file).map(|store| Found::Store(Arc::new(store))),
        false => Ok(Found::Older),
    }
}

/// Opens the store for a new boot.
pub(crate) fn open(options: &Options, now: Timestamp) -> Result<Opened, StoreError> {
    create_directory(&options.directory)?;
    let file = options.directory.join(FILE);
    check_header(&file)?;
    check_writable(&file)?;
    let connection = Connection::open(&file, options.synchronous).map_err(|error| explain(&file, &error))?;
    let found = connection.format().map_err(|error| explain(&file, &error))?;
    check_format(&file, found)?;
    if (1..tables::format()).contains(&found) {
        upgrade::copy(&connection, &file, found)?;
    }
    let (epoch, previous, mark) =
        begin_boot(&connection, found, now, &options.directory).map_err(|error| explain(&file, &error))?;
    let lost = mark.lost().cloned();
    let store = Store::start(connection, file, options.synchronous, epoch, mark)?;
    Ok(Opened { store: Arc::new(store), epoch, previous, lost })
}

/// Makes the directory and whatever is missing above it, durably.
pub(crate) fn create_directory(directory: &Path) -> Result<(), StoreError> {
    if directory.is_dir() {
        return Ok(());
    }
    let existing = directory.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(|error| explain_io(directory, "cannot create the data directory", &error))?;
    let new = directory.ancestors().take_while(|above| *above != existing);
    for made in new.chain([existing]).filter(|path| !path.as_os_str().is_empty()) {
        let synced = File::open(made).and_then(|directory| directory.sync_all());
        synced.map_err(|error| explain_io(made, "cannot sync the data directory", &error))?;
    }
    Ok(())
}

/// Refuses files that are not stores and stores of newer versions, before SQLite touches anything.
pub(crate) fn check_header(file: &Path) -> Result<(), StoreError> {
    let mut header = Vec::with_capacity(HEADER);
    match File::open(file).and_then(|file| file.take(HEADER as u64).read_to_end(&mut header)) {
        Ok(0) => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(explain_io(file, "cannot read the store", &error)),
    }
    let Some([.., a, b, c, d]) = header.first_chunk::<HEADER>().filter(|header| header.starts_with(MAGIC)) else {
        let detail = "not a drawloom store".into();
        return Err(StoreError::Corrupt { store: file.display().to_string(), detail });
    };
    check_format(file, u32::from_be_bytes([*a, *b, *c, *d]))
}

/// Says that the file cannot be written here, where the reason is known; SQLite would open it for reading only and fail
/// later. A missing file is made, empty.
fn check_writable(file: &Path) -> Result<(), StoreError> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(|_| ()).map_err(|error| explain_io(file, "cannot open the store", &error))
}

fn check_format(file: &Path, found: u32) -> Result<(), StoreError> {
    let known = tables::format();
    if found > known {
        return Err(StoreError::TooNew { store: file.display().to_string(), found, known });
    }
    Ok(())
}

/// Brings the file up to date and raises the epoch: its owner before can write nothing from here on.
fn begin_boot(connection: &Connection, found: u32, now: Timestamp, directory: &Path) -> Done<(Epoch, Previous, Mark)> {
    connection.keep_log()?;
    migrate(connection, found)?;
    let mut mark = Mark::open(directory, Reached::of(connection)?, now);
    connection.run("BEGIN IMMEDIATE")?;
    let (epoch, previous) = boots::begin(connection, now)?;
    definitions::forget_loose(connection)?;
    connection.run("COMMIT")?;
    mark.bring_up_to_date(connection);
    Ok((epoch, previous, mark))
}
