//! Running verify commands in a fresh checkout.

use std::{collections::BTreeSet, path::Path, time::Duration};

use drawloom_contract::time::Instant;
use drawloom_process::{End, Finished, Guarded};
use serde::{Deserialize, Serialize};

use super::{Outcome, Program, ProtectedFile, Verify, VerifyCommand, held::altered_by_it};
use crate::{
    add::{environment_of, how},
    checkouts::Checkouts,
    clone,
    error::Error,
    names::shown,
    oid::Oid,
    places::{blocking, make_directory},
    state::Goal,
};

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub name: String,
    pub ok: bool,
    /// Absent when it did not exit: it was killed, timed out or was not started.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// The beginning of its output, when the middle is left out. Secrets are masked.
    pub output_head: String,
    /// The end of its output, or all of it.
    pub output_tail: String,
    /// How many bytes it printed.
    pub bytes: u64,
    /// Why it is not ok.
    pub error: Option<String>,
}

/// Who holds the ports of verify commands. No checkout can have this name.
const HOLDER: &str = ".verify";

/// With less time than this no command is started.
const SHORTEST: Duration = Duration::from_millis(20);

/// Where commands run.
struct Place<'a> {
    work: &'a Path,
    temporary: &'a Path,
    environment: &'a [(String, String)],
    guarded: Vec<Guarded>,
}

/// How long a command may take.
#[derive(Clone, Copy)]
struct Limit {
    time: Duration,
    /// Whether it is what is left for all commands.
    is_shared: bool,
}

impl Checkouts {
    /// Runs the commands one after the other in a fresh checkout of a tree, and looks what they changed.
    pub(super) async fn run_commands(
        &self,
        goal: &Goal,
        verify: &Verify,
        (tree, protected): (&Oid, &[ProtectedFile]),
        until: Option<Instant>,
    ) -> Result<Outcome, Error> {
        let (work, name) = (goal.places.verify(&verify.key), format!(".verify-{}", verify.key));
        self.fill(goal, &work, &name, tree).await?;
        let index = goal.places.index(&name, tree);
        let (copy, path, commit, to) = (goal.clone(), work.clone(), verify.commit.clone(), index.clone());
        let temporary = goal.places.temporary(&name);
        let made = temporary.clone();
        let prepared = blocking(move || {
            clone::write(&copy, &path, &to, "drawloom/verify", &commit)?;
            clone::copy_included(&copy.places, &copy.record.included, &path)?;
            make_directory(&path.join(&copy.record.prepared.subdirectory))?;
            make_directory(&made)
        });
        prepared.await?;
        let held = self.hold(goal, &work, &index, protected).await?;
        let environment =
            environment_of(&goal.places, goal.name(), &name, self.lease_ports(goal.name(), HOLDER, None).await?);
        let place = Place { work: &work, temporary: &temporary, environment: &environment, guarded: held.guarded() };
        let setup = self.setup_of(goal).map(|setup| VerifyCommand {
            name: format!("setup: {setup}"),
            program: Program::Shell(setup.clone()),
            timeout_seconds: Some(self.parts.config.setup_timeout_seconds),
        });
        let (mut results, mut all_changed) = (Vec::new(), BTreeSet::new());
        for command in setup.iter().chain(&verify.commands) {
            let mut result = self.run_command(goal, &place, command, self.limit_of(command, until)).await?;
            let altered = held.altered().await;
            if !altered.is_empty() {
                result.ok = false;
                result.error = Some(altered_by_it(&altered));
                results.push(result);
                // What later commands say would be about other tests.
                break;
            }
            // And about another work, where one changed a file of it.
            let changed = self.changed_files(goal, &place, (tree, &index), protected).await?;
            if !changed.is_empty() {
                self.restore(goal, &place, (tree, &index), &changed).await?;
                all_changed.extend(changed);
            }
            let (is_setup, ok) = (setup.as_ref() == Some(command), result.ok);
            // Setup is only told when it fails, and then the commands could not answer.
            if !(is_setup && ok) {
                results.push(result);
            }
            if is_setup && !ok {
                break;
            }
        }
        let changed: Vec<String> = all_changed.iter().map(|path| shown(path)).collect();
        let (places, indexes) = (goal.places.clone(), goal.places.indexes(&name));
        // Freed with the checkouts of the goal: a disk that just freed many files makes new ones slowly (ext4).
        blocking(move || [work, indexes, temporary].iter().try_for_each(|path| places.set_aside(path))).await?;
        Ok(Outcome { results, changed })
    }

    /// The tracked files that differ from the tree.
    async fn changed_files(
        &self,
        goal: &Goal,
        place: &Place<'_>,
        (tree, index): (&Oid, &Path),
        protected: &[ProtectedFile],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let repository = self.comparing(goal, tree).await?;
        let git = self.git(goal, repository).work_tree(place.work, index);
        let listed = git.args(["ls-files", "-z", "--modified", "--deleted"]).ok().await?.parts()?;
        // Protected files were compared with the base, byte for byte.
        let protected: BTreeSet<&[u8]> = protected.iter().map(|file| file.path.as_slice()).collect();
        Ok(listed.iter().filter(|path| !protected.contains(&path[..])).map(|path| path.to_vec()).collect())
    }

    /// Writes tracked files as they are in the tree, whatever is in their places.
    async fn restore(
        &self,
        goal: &Goal,
        place: &Place<'_>,
        (tree, index): (&Oid, &Path),
        changed: &BTreeSet<Vec<u8>>,
    ) -> Result<(), Error> {
        let repository = self.comparing(goal, tree).await?;
        let input = changed.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
        let git = self.git(goal, repository).work_tree(place.work, index);
        git.args(["checkout-index", "-f", "-u", "-z", "--stdin"]).input(input).ok().await.map(|_| ())
    }

    async fn run_command(
        &self,
        goal: &Goal,
        place: &Place<'_>,
        command: &VerifyCommand,
        limit: Limit,
    ) -> Result<CommandResult, Error> {
        let failed = |reason: String| CommandResult {
            name: command.name.clone(),
            ok: false,
            exit_code: None,
            timed_out: false,
            duration_ms: 0,
            output_head: String::new(),
            output_tail: String::new(),
            bytes: 0,
            error: Some(reason),
        };
        let (program, args) = match &command.program {
            Program::Shell(script) => ("/bin/sh", vec!["-c".to_owned(), script.clone()]),
            Program::Argv(argv) => match argv.split_first() {
                Some((program, args)) if !program.is_empty() => (program.as_str(), args.to_vec()),
                _ => return Ok(failed("it is empty".into())),
            },
        };
        // A process that is ended before it starts would tell another story.
        let no_time = |end: &str| CommandResult {
            timed_out: true,
            ..failed(format!("{end}the goal had no time left (max_seconds)"))
        };
        if limit.is_shared && limit.time <= SHORTEST {
            return Ok(no_time("it was not started: "));
        }
        let directory = place.work.join(&goal.record.prepared.subdirectory);
        let clock = &self.parts.clock;
        let begun = clock.now();
        let writable = [place.work.to_owned(), place.temporary.to_owned()];
        let (environment, files) = (place.environment.to_vec(), (&writable[..], place.guarded.clone()));
        let finished = self.run_confined(goal, &directory, (program, args), environment, files, limit.time).await;
        let duration_ms = u64::try_from(clock.now().since(begun).as_millis()).unwrap_or(u64::MAX);
        match finished {
            Ok(finished) => Ok(self.result(command, limit, finished, duration_ms)),
            // It cannot be started, or not be confined as it must be: that is an answer too.
            Err(Error::Process(drawloom_process::Error::Refused { reason })) => Ok(match limit {
                Limit { time, is_shared: true } if clock.now().since(begun) >= time => {
                    no_time("it was ended before it started: ")
                }
                _ => failed(reason),
            }),
            Err(error) => Err(error),
        }
    }

    /// The command's own timeout, or what is left for all commands.
    fn limit_of(&self, command: &VerifyCommand, until: Option<Instant>) -> Limit {
        let own = Duration::from_secs(command.timeout_seconds.unwrap_or(self.parts.config.verify_timeout_seconds));
        match until.map(|until| until.since(self.parts.clock.now())).filter(|left| *left < own) {
            Some(left) => Limit { time: left.max(Duration::from_millis(1)), is_shared: true },
            None => Limit { time: own, is_shared: false },
        }
    }

    fn result(&self, command: &VerifyCommand, limit: Limit, finished: Finished, duration_ms: u64) -> CommandResult {
        let error = match finished.end {
            End::Exited(0) => None,
            End::TimedOut if limit.is_shared => {
                Some("it was ended when the goal had no time left (max_seconds)".into())
            }
            End::TimedOut => Some(format!("it took longer than {} seconds", limit.time.as_secs())),
            other => Some(how(other)),
        };
        let output = finished.output;
        let bytes = (output.head.len() + output.tail.len()) as u64 + output.missing;
        let clean = |text: String| self.parts.redactor.clean(text).into_inner();
        let (output_head, output_tail) = match output.missing {
            0 => (String::new(), clean(output.into_text())),
            _ => {
                let output = output.whole_lines();
                let text = |bytes: &[u8]| clean(String::from_utf8_lossy(bytes).into_owned());
                (text(&output.head), text(&output.tail))
            }
        };
        CommandResult {
            name: command.name.clone(),
            ok: error.is_none(),
            exit_code: if let End::Exited(code) = finished.end { Some(code) } else { None },
            timed_out: finished.end == End::TimedOut,
            duration_ms,
            output_head,
            output_tail,
            bytes,
            error,
        }
    }
}
