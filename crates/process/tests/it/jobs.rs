//! Jobs: input from a file, output to files with a limit, a home, and what a developer's tool may see.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::redact::Redactor;
use drawloom_process::{
    Access, Command, Confined, End, Error, Input, LONGEST_LINE, Layer, Line, ListedPath, Network, Output,
    developer_paths,
};
use drawloom_testkit::TestClock;

use crate::support::{HANGS, Room, count, launcher};

/// A job of `room` whose output goes to the files `out` and `err` beside its temporary directory.
fn job(room: &Room, script: &str, most: usize) -> Command {
    let at = |name: &str| room.temporary.path().join(name);
    let redactor = Arc::new(Redactor::new(["hunter2-hunter2"]));
    let output = Output::Files { stdout: at("out"), stderr: at("err"), most, redactor };
    Command { output, network: Network::Host, ..room.command(script) }
}

fn written(room: &Room, name: &str) -> String {
    fs::read_to_string(room.temporary.path().join(name)).expect("the file")
}

async fn follow(room: &Room, command: &Command) -> (drawloom_process::Finished, Vec<Line>) {
    let mut lines = Vec::new();
    let (launcher, clock) = (launcher(), TestClock::default());
    let mut to = |line: Line| lines.push(line);
    let run = launcher.follow(command, &clock, &mut to);
    let finished = tokio::time::timeout(HANGS, run).await.expect("it does not hang").expect("it runs");
    assert_eq!(room.alive(), Vec::<String>::new());
    (finished, lines)
}

#[tokio::test]
async fn a_job_reads_its_input_from_a_file_and_writes_two_files() {
    let room = Room::new();
    let input = room.temporary.path().join("prompt");
    fs::write(&input, "x".repeat(300 * 1024)).expect("a file");
    let mut job = job(&room, "wc -c; echo problem >&2; exit 3", 1024);
    job.input = Input::File(Arc::new(File::open(&input).expect("the file")));
    let (finished, lines) = follow(&room, &job).await;
    assert_eq!(finished.end, End::Exited(3));
    assert_eq!((written(&room, "out").as_str(), written(&room, "err").as_str()), ("307200\n", "problem\n"));
    assert_eq!((finished.output.into_text(), finished.errors.into_text()), ("307200\n".into(), "problem\n".into()));
    assert_eq!(lines, [Line { text: "307200".into(), missing: 0 }]);
}

#[tokio::test]
async fn the_output_of_a_job_has_a_limit_and_says_exactly_what_is_missing() {
    let room = Room::new();
    let script = "echo begin; yes 0123456789 | head -c 200000000; echo end; head -c 3000 /dev/zero >&2";
    let job = job(&room, script, 4096);
    let finished = room.run(&job).await.expect("it runs");
    assert_eq!(finished.end, End::Exited(0));
    let text = written(&room, "out");
    assert!(text.len() < 4200, "{} bytes", text.len());
    assert!(text.starts_with("begin\n0123456789\n") && text.ends_with("0123456789\n01end\n"), "{text}");
    let (head, rest) = text.split_once("\n[truncated: ").expect("a line that says so");
    let (missing, tail) = rest.split_once(" bytes omitted]\n").expect("a number");
    let missing: usize = missing.parse().expect("a number");
    assert_eq!(head.len() + missing + tail.len(), "begin\n".len() + 200_000_000 + "end\n".len());
    assert_eq!(fs::metadata(room.temporary.path().join("err")).expect("a file").len(), 3000);
}

#[tokio::test]
async fn a_line_without_an_end_costs_no_memory_and_is_told_with_what_is_missing() {
    let room = Room::new();
    let job = job(&room, "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last", 4096);
    let (_, lines) = follow(&room, &job).await;
    let [long, last] = &lines[..] else { panic!("{} lines", lines.len()) };
    assert_eq!((long.text.len(), long.missing), (LONGEST_LINE, 100_000_000 - LONGEST_LINE as u64));
    assert_eq!(last.text, "last");
    assert!(written(&room, "out").len() < 4200);
}

#[tokio::test]
async fn secrets_are_masked_in_the_files_wherever_they_stand() {
    let room = Room::new();
    let key = "-----BEGIN RSA PRIVATE KEY-----\\nabcdefgh\\nijklmnop\\n-----END RSA PRIVATE KEY-----";
    let script = format!(
        "echo a hunter2-hunter2 b; printf hunter2-; sleep 0.05; echo hunter2; printf '%b\\n' '{key}'; echo hunter2-hunter2 >&2; \
         i=0; while [ $i -lt 900 ]; do echo hunter2-hunter2 $i; i=$((i+1)); done; printf 'and hunter2-hunter2'"
    );
    let job = job(&room, &script, 4096);
    room.run(&job).await.expect("it runs");
    let text = written(&room, "out");
    assert!(text.starts_with("a [redacted] b\n[redacted]\n[redacted]\n[redacted] 0\n"), "{text}");
    assert!(text.contains("bytes omitted]") && text.ends_with("and [redacted]"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("ijklmnop"), "{text}");
    assert_eq!(written(&room, "err"), "[redacted]\n");
}

#[tokio::test]
async fn the_beginning_can_be_read_while_the_job_runs() {
    let room = Room::new();
    let job = job(&room, "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last", 4096);
    let beside = async {
        while !matches!(fs::read_to_string(room.temporary.path().join("out")), Ok(text) if text == "first\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::write(room.volume.path().join("go"), "").expect("a file");
    };
    let (finished, went) = tokio::join!(room.run(&job), tokio::time::timeout(HANGS, beside));
    went.expect("it does not hang");
    assert_eq!(finished.expect("it runs").end, End::Exited(0));
    assert_eq!(written(&room, "out"), "first\nlast\n");
}

#[tokio::test]
async fn output_that_cannot_be_written_is_an_error_that_names_the_file() {
    let room = Room::new();
    let mut job = job(&room, "true", 4096);
    let nowhere = PathBuf::from("/no/such/directory/out");
    let redactor = Arc::new(Redactor::new([""; 0]));
    job.output = Output::Files { stdout: nowhere.clone(), stderr: nowhere, most: 10, redactor };
    let error = room.run(&job).await.expect_err("there is no such directory");
    assert!(error.to_string().contains("/no/such/directory/out"), "{error}");
}

/// A home with a login, a toolchain and a project.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            (".ssh/id_ed25519", "key"),
            (".config/gh/hosts.yml", "token"),
            (".config/tool/settings", "fine"),
            (".cargo/credentials.toml", "token"),
            (".cargo/bin/tool", "fine"),
            (".netrc", "token"),
            (".claude/credentials", "login"),
            (".claude.json", "{}"),
            (".pyenv/versions/3/bin/python", "fine"),
            (".cargo/config.toml", "[build]\njobs = 2\n"),
            (".gitconfig", "[url \"https://me:word@example.com/\"]\n"),
            ("project/file", "data"),
            ("private/file", "data"),
            ("elsewhere/id", "key"),
        ] {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        std::os::unix::fs::symlink("elsewhere", home.path().join(".gnupg")).expect("a link");
        std::os::unix::fs::symlink(".", home.path().join("circle")).expect("a link");
        std::os::unix::fs::symlink("project", home.path().join("link")).expect("a link");
        Self(home)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn job(&self, room: &Room, script: &str) -> Command {
        let mut job = job(room, script, 64 * 1024);
        job.readable = developer_paths(self.path(), &|_| None, &[self.path().join("private")]);
        job.home = Some(self.path().to_owned());
        job
    }
}

#[tokio::test]
async fn a_developers_tool_sees_the_toolchains_of_the_home_and_nothing_else() {
    let script = "cat ~/.cargo/bin/tool ~/.pyenv/versions/3/bin/python ~/.cargo/config.toml; \
                  for hidden in ~/.ssh/id_ed25519 ~/.config/gh/hosts.yml ~/.cargo/credentials.toml ~/.netrc ~/.gitconfig \
                  ~/.config/tool/settings ~/project/file ~/link/file \
                  ~/.claude/credentials ~/.claude.json ~/private/file ~/.gnupg/id ~/elsewhere/id ~/circle/.netrc; do \
                  cat $hidden 2>/dev/null && echo \"$hidden was read\"; done; \
                  echo x > ~/project/new; echo x > ~/.cargo/bin/new; true";
    for layers in [&[][..], &[Layer::Landlock], &[Layer::Namespaces], &[Layer::Seccomp]] {
        let (room, home) = (Room::new(), Home::new());
        let launcher = launcher().without(layers);
        let finished = room.run_by(&launcher, &home.job(&room, script)).await.expect("it runs");
        assert_eq!(finished.end, End::Exited(0), "{layers:?}");
        let expected = "finefine[build]\njobs = 2\n";
        assert_eq!(written(&room, "out"), expected, "{layers:?}: {}", written(&room, "err"));
        assert!(!home.path().join("project/new").exists() && !home.path().join(".cargo/bin/new").exists());
    }
}

#[tokio::test]
async fn a_job_writes_where_it_may_and_its_home_forgets_the_rest() {
    let (room, home) = (Room::new(), Home::new());
    let mut job = home.job(
        &room,
        "echo $HOME; echo new > ~/.claude/credentials; echo changed > ~/.claude.json; mkdir -p ~/.cache/deep && echo x > ~/.cache/deep/file && \
         cat ~/.cache/deep/file; echo here > here; echo out > /etc/drawloom-test; ls -A ~ | sort | tr '\\n' ' '",
    );
    job.writable =
        [".claude", ".claude.json"].map(|name| ListedPath::resolve(home.path().join(name))).into_iter().collect();
    let finished = room.run(&job).await.expect("it runs");
    assert_eq!(finished.end, End::Exited(0));
    let text = written(&room, "out");
    if finished.confinement.namespaces.is_on() {
        let names = ".cache .cargo .claude .claude.json .pyenv ";
        assert_eq!(text, format!("{}\nx\n{names}", home.path().display()));
    }
    let read = |name: &str| fs::read_to_string(home.path().join(name)).expect("the file");
    assert_eq!((read(".claude/credentials"), read(".claude.json")), ("new\n".into(), "changed\n".into()));
    assert!(!home.path().join(".cache").exists() && room.volume.path().join("here").exists());
    assert!(written(&room, "err").contains("/etc/drawloom-test"));
}

#[tokio::test]
async fn a_job_in_a_read_only_directory_changes_nothing_there() {
    let (room, home) = (Room::new(), Home::new());
    fs::write(room.volume.path().join("file"), "kept").expect("a file");
    let mut job = home.job(&room, "cat file; echo x > file; echo x > new; rm -f file; chmod 600 file; true");
    job.access = Access::ReadOnly;
    room.run(&job).await.expect("it runs");
    assert_eq!(written(&room, "out"), "kept");
    assert_eq!(fs::read_dir(room.volume.path()).expect("the volume").count(), 1);
    assert_eq!(fs::read_to_string(room.volume.path().join("file")).expect("the file"), "kept");
}

#[tokio::test]
async fn a_job_that_asks_for_a_password_finds_no_terminal() {
    for confined in [Confined::Yes, Confined::No] {
        let room = Room::new();
        let mut job = job(&room, "exec 3<>/dev/tty && echo opened; cat", 1024);
        job.confined = confined;
        let finished = room.run(&job).await.expect("it runs");
        assert_ne!(finished.end, End::Exited(0), "{confined:?}");
        assert_eq!(written(&room, "out"), "", "{confined:?}");
    }
}

#[tokio::test]
async fn an_unconfined_job_reads_what_its_user_may_and_is_still_ended_whole() {
    let (room, home) = (Room::new(), Home::new());
    let daemon = "setsid sh -c 'trap \"\" TERM HUP; echo up; while :; do sleep 1; done' & ";
    let script = format!("cat ~/.ssh/id_ed25519; echo; {daemon} while [ ! -s OUT ]; do sleep 0.02; done; env | wc -l");
    let mut job = home.job(&room, &script.replace("OUT", &room.temporary.path().join("out").to_string_lossy()));
    job.confined = Confined::No;
    let finished = room.run(&job).await.expect("it runs");
    assert_eq!(finished.end, End::Exited(0));
    assert!(finished.left > 0, "the daemon was ended");
    assert!(written(&room, "out").starts_with("key\n"), "{}", written(&room, "out"));
    assert_eq!(room.alive(), Vec::<String>::new());
    assert!(!finished.confinement.namespaces.is_on(), "and it is told that it was not confined");
}

#[tokio::test]
async fn what_only_confinement_can_enforce_is_refused_without_it() {
    let room = Room::new();
    let mut job = job(&room, "true", 1024);
    job.confined = Confined::No;
    job.access = Access::ReadOnly;
    let error = room.run(&job).await.expect_err("it cannot be enforced");
    assert!(matches!(&error, Error::Refused { reason } if reason.contains("read-only")), "{error}");
    (job.access, job.network) = (Access::ReadWrite, Network::None);
    let error = room.run(&job).await.expect_err("it cannot be enforced");
    assert!(matches!(&error, Error::Refused { reason } if reason.contains("network")), "{error}");
}

#[tokio::test]
async fn what_a_developers_tool_may_see_costs_little() {
    let (room, home) = (Room::new(), Home::new());
    for entry in 0..100 {
        fs::create_dir(home.path().join(format!("project-{entry}"))).expect("a directory");
    }
    let (launcher, clock) = (launcher(), TestClock::default());
    let mut took = [Duration::MAX; 2];
    for _ in 0..5 {
        for (took, with_home) in took.iter_mut().zip([false, true]) {
            let begin = std::time::Instant::now();
            let job = if with_home { home.job(&room, "true") } else { job(&room, "true", 1024) };
            launcher.run(&job, &clock).await.expect("it runs");
            *took = begin.elapsed().min(*took);
        }
    }
    let mounts = home.job(&room, "").readable.len();
    count(&format!("{mounts} readable paths: {:?}, without them {:?}", took[1], took[0]));
    assert!(took[1] < took[0] + Duration::from_millis(150), "{took:?}");
}
