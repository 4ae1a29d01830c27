//! Adding checkouts: a private clone for each worker, at a path that never moves.

use std::{fs, path::PathBuf, time::Duration};

use drawloom_process::{Access, Command, End, Finished, Guarded, Input, ListedPath, Output};
use serde::{Deserialize, Serialize};

use crate::{
    checkouts::{Checkouts, check_names},
    clone,
    error::Error,
    oid::Oid,
    places::{Places, blocking, check_real, make_directory},
    state::{Goal, State},
};

/// What a checkout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A worker changes it. What is in it is kept.
    Writer,
    /// Planners and reviewers read it. It is brought to the wanted commit each time.
    ReadOnly,
}

/// A checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The top of the checkout.
    pub path: PathBuf,
    /// The part of it that is the goal's directory.
    pub directory: PathBuf,
    /// For the programs that work in it: leased ports and a directory for temporary files.
    pub environment: Vec<(String, String)>,
    /// What programs must be able to read besides, to use git in it: the objects of the user's repository.
    pub readable: Vec<PathBuf>,
    /// What programs may change besides.
    pub writable: Vec<PathBuf>,
}

/// How long processes of a setup or verify command have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

impl Checkouts {
    /// Adds a checkout of `commit`. A writable one that is there already is kept; a read-only one is brought to `commit` exactly.
    pub async fn add(&self, goal: &str, name: &str, commit: &Oid, kind: Kind) -> Result<Added, Error> {
        self.add_within(goal, name, commit, kind, None).await
    }

    /// The same, with a limit for the setup command beside the configured one.
    pub async fn add_within(
        &self,
        goal: &str,
        name: &str,
        commit: &Oid,
        kind: Kind,
        within: Option<Duration>,
    ) -> Result<Added, Error> {
        check_names(goal, name)?;
        let _lock = self.lock(goal, name).await;
        let goal = self.goal(goal).await?;
        let found = goal.find_state(name).await?;
        if let Some(found) = &found
            && found.kind != kind
        {
            let reason = "a checkout of the other kind has this name";
            return Err(Error::Invalid { what: "checkout name", value: name.to_owned(), reason });
        }
        let is_there = check_real(&goal.work(name, kind)).is_ok();
        let mut state = match (found, kind) {
            (Some(state), Kind::Writer) if is_there => self.lease_again(&goal, name, state).await?,
            (_, Kind::Writer) if goal.is_in_place(kind) => self.take_over(&goal, name, commit).await?,
            (found, _) => self.check_out(&goal, name, commit, kind, found).await?,
        };
        if let (Kind::Writer, false, Some(setup)) = (kind, state.is_set_up, self.setup_of(&goal)) {
            self.set_up(&goal, name, &state, (setup, within)).await?;
            self.keep_files_of_setup(&goal, name, &state).await?;
            state.is_set_up = true;
            goal.save_state(name, &state).await?;
        }
        self.added(&goal, name, &state)
    }

    /// Leases the ports of a checkout that is kept. After a restart others may have them.
    async fn lease_again(&self, goal: &Goal, name: &str, state: State) -> Result<State, Error> {
        let port = self.lease_ports(goal.name(), name, Some(state.port)).await?;
        if port == state.port {
            return Ok(state);
        }
        let state = State { port, ..state };
        goal.save_state(name, &state).await?;
        Ok(state)
    }

    /// Brings a checkout to a commit. A writer whose directory was lost is brought to its last checkpoint.
    async fn check_out(
        &self,
        goal: &Goal,
        name: &str,
        commit: &Oid,
        kind: Kind,
        found: Option<State>,
    ) -> Result<State, Error> {
        let commit = match (&found, kind) {
            (Some(state), Kind::Writer) => state.parent.clone(),
            _ => commit.clone(),
        };
        let tree = self.tree_of(goal, &commit).await?;
        // Those of a checkout that was removed may have another holder now.
        let port = self.lease_ports(goal.name(), name, found.as_ref().map(|state| state.port)).await?;
        let work = goal.places.work(name);
        let before = found.as_ref().filter(|_| kind == Kind::ReadOnly).map(|state| state.parent_tree.clone());
        match before {
            Some(before) if self.is_untouched(goal, name, &before).await? => {
                self.change_files(goal, &work, name, (&before, &tree)).await?;
            }
            _ => self.fill(goal, &work, name, &tree).await?,
        }
        self.make_private(goal, name, &commit, &tree).await?;
        let found = found.unwrap_or(State {
            kind,
            parent: commit.clone(),
            parent_tree: tree.clone(),
            resetting: None,
            number: 0,
            checkpoints: Vec::new(),
            is_set_up: false,
            port,
        });
        let state = State { parent: commit, parent_tree: tree, is_set_up: false, port, ..found };
        goal.save_state(name, &state).await?;
        Ok(state)
    }

    /// Whether a checkout has exactly the files of a tree and the included ones, as an index of ours says.
    async fn is_untouched(&self, goal: &Goal, name: &str, tree: &Oid) -> Result<bool, Error> {
        let (work, index) = (goal.places.work(name), goal.places.index(name, tree));
        if check_real(&work).is_err() || !index.exists() {
            return Ok(false);
        }
        let repository = self.comparing(goal, tree).await?;
        let git = self.git(goal, repository).work_tree(&work, &index);
        let listed = git.args(["ls-files", "-z", "--others", "--modified", "--deleted"]).ok().await?.parts()?;
        Ok(listed.iter().all(|path| goal.record.included.iter().any(|included| included.as_bytes() == *path)))
    }

    /// Makes a new directory with the files of a tree, and the index that belongs to it.
    pub(crate) async fn fill(&self, goal: &Goal, work: &std::path::Path, name: &str, tree: &Oid) -> Result<(), Error> {
        let (places, path, indexes) = (goal.places.clone(), work.to_owned(), goal.places.indexes(name));
        blocking(move || {
            places.remove(&path)?;
            places.remove(&indexes)?;
            make_directory(&indexes)?;
            make_directory(&path)
        })
        .await?;
        let next = goal.places.next_index(name);
        self.write_files(goal, work, &next, tree).await?;
        let index = goal.places.index(name, tree);
        fs::rename(&next, &index).map_err(Error::file("replace", index))
    }

    /// Brings a directory that has exactly the files of one tree to another one. Only what differs is written.
    async fn change_files(
        &self,
        goal: &Goal,
        work: &std::path::Path,
        name: &str,
        (before, tree): (&Oid, &Oid),
    ) -> Result<(), Error> {
        if before == tree {
            return Ok(());
        }
        let next = self.index_of(goal, name, before).await?;
        let old = goal.places.index(name, before);
        // Until the index of the new tree is there, the directory counts as neither.
        fs::remove_file(&old).map_err(Error::file("remove", old))?;
        self.write_files(goal, work, &next, tree).await?;
        let index = goal.places.index(name, tree);
        fs::rename(&next, &index).map_err(Error::file("replace", index))
    }

    /// Gives a checkout a git directory of its own, and the included files.
    pub(crate) async fn make_private(&self, goal: &Goal, name: &str, commit: &Oid, tree: &Oid) -> Result<(), Error> {
        let (goal, name, commit, tree) = (goal.clone(), name.to_owned(), commit.clone(), tree.clone());
        blocking(move || {
            let work = goal.places.work(&name);
            clone::write(&goal, &work, &goal.places.index(&name, &tree), &format!("drawloom/{name}"), &commit)?;
            clone::copy_included(&goal.places, &goal.record.included, &work)?;
            make_directory(&goal.places.temporary(&name))?;
            let directory = work.join(&goal.record.prepared.subdirectory);
            fs::create_dir_all(&directory).map_err(Error::file("create", directory))
        })
        .await
    }

    fn added(&self, goal: &Goal, name: &str, state: &State) -> Result<Added, Error> {
        let (path, temporary) = (goal.work(name, state.kind), goal.places.temporary(name));
        make_directory(&temporary)?;
        Ok(Added {
            directory: path.join(&goal.record.prepared.subdirectory),
            environment: environment_of(&goal.places, goal.name(), name, state.port),
            readable: goal.readable(state.kind),
            writable: vec![temporary],
            path,
        })
    }

    /// The command that prepares a checkout for workers and for verify commands.
    pub(crate) fn setup_of<'a>(&'a self, goal: &'a Goal) -> Option<&'a String> {
        goal.record.options.setup.as_ref().or(self.parts.config.setup.as_ref())
    }

    async fn set_up(
        &self,
        goal: &Goal,
        name: &str,
        state: &State,
        (setup, within): (&str, Option<Duration>),
    ) -> Result<(), Error> {
        let directory = goal.places.work(name).join(&goal.record.prepared.subdirectory);
        let usual = Duration::from_secs(self.parts.config.setup_timeout_seconds);
        let timeout = within.map_or(usual, |within| within.min(usual));
        let environment = environment_of(&goal.places, goal.name(), name, state.port);
        let shell = ("/bin/sh", vec!["-c".to_owned(), setup.to_owned()]);
        let work = goal.places.work(name);
        let writable = [work, goal.places.temporary(name)];
        let files = (&writable[..], Vec::new());
        let finished = self.run_confined(goal, &directory, shell, environment, files, timeout).await?;
        let reason = match finished.end {
            End::Exited(0) => return Ok(()),
            other => how(other),
        };
        let output = finished.output.whole_lines().into_text();
        Err(Error::Setup { reason, output: self.parts.redactor.clean(output).into_inner() })
    }

    /// Runs a command of the operator in a checkout, confined.
    pub(crate) async fn run_confined(
        &self,
        goal: &Goal,
        directory: &std::path::Path,
        (program, args): (&str, Vec<String>),
        environment: Vec<(String, String)>,
        (writable, guarded): (&[PathBuf], Vec<Guarded>),
        timeout: Duration,
    ) -> Result<Finished, Error> {
        let sandbox = &self.parts.sandbox;
        let opened = fs::File::open(directory).map_err(Error::file("open", directory))?;
        let objects = [&goal.record.objects].into_iter().chain(&goal.record.borrowed);
        let objects = objects.map(|path| ListedPath::resolve(path.clone()));
        let more = writable.iter().map(|path| ListedPath::resolve(path.clone()));
        let given = self.parts.environment.iter().filter(|(name, _)| name != "HOME" && name != "TMPDIR").cloned();
        let command = Command {
            program: program.to_owned(),
            args,
            directory: opened.into(),
            access: Access::ReadWrite,
            readable: sandbox.readable.iter().cloned().chain(objects).collect(),
            writable: sandbox.writable.iter().cloned().chain(more).collect(),
            guarded,
            network: sandbox.network,
            environment: given.chain(environment).collect(),
            input: Input::Empty,
            output: Output::Together { most: self.parts.config.max_output_bytes },
            confined: sandbox.confined,
            home: sandbox.home.clone(),
            temporary: self.temporary(goal.name()).await?,
            limits: sandbox.limits,
            time_limit: timeout,
            grace: GRACE,
        };
        Ok(self.parts.launcher.run(&command, self.parts.clock.as_ref()).await?)
    }
}

/// Variables of the programs that work in a checkout.
pub(crate) fn environment_of(places: &Places, goal: &str, name: &str, port: u16) -> Vec<(String, String)> {
    let variable = |name: &str, value: String| (name.to_owned(), value);
    vec![
        variable("PORT", port.to_string()),
        variable("DRAWLOOM_PORTS", format!("{port}-{}", port + crate::ports::PER_LEASE - 1)),
        variable("DRAWLOOM_TEMPORARY", places.temporary(name).display().to_string()),
        variable("DRAWLOOM_GOAL", goal.to_owned()),
    ]
}

/// How a command ended, in words.
pub(crate) fn how(end: End) -> String {
    match end {
        End::Exited(code) => format!("it exited with code {code}"),
        End::Signalled(signal) => format!("it was killed by signal {signal}"),
        End::TimedOut => "it took longer than its timeout".into(),
        End::Exceeded(exceeded) => exceeded.told("goals"),
        End::Lost => "its launcher was killed".into(),
    }
}
