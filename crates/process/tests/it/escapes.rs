//! Ways out of a volume and out of a command's process tree: those published for other sandboxes, and our own. Each is tried
//! with every layer, and again with each layer switched off, as far as another one must hold it.

use std::{
    os::{linux::net::SocketAddrExt, unix::net::UnixListener},
    time::Duration,
};

use drawloom_process::{End, Landlock, Layer, Network};
use rustix::process::{Resource, getpid, getpriority_process, getrlimit};

use crate::support::{Room, count, launcher};

use Layer::{Landlock as L, Namespaces as N, Seccomp as S};

/// What it is, what must fail (for a shell), and the layers each of which is enough to hold it. `OUT` is a directory beside the
/// volume, `US` this process, `ADDRESS` a place in its memory, `SOCKET` and `ABSTRACT` sockets of it, `PORT` a port of it on loopback, `PERL` perl with a call
/// that fails unless the system call succeeds.
const ESCAPES: &[(&str, &str, &[Layer])] = &[
    // Files, by name.
    ("read beside the volume", "cat OUT/secret", &[N, L]),
    ("list beside the volume", "ls OUT", &[N, L]),
    ("climb", "cat ../$(basename OUT)/secret", &[N, L]),
    ("a link that leads out", "ln -s OUT/secret link && cat link", &[N, L]),
    ("a linked directory", "ln -s OUT dir && cat dir/secret", &[N, L]),
    ("a hard link", "ln OUT/secret hard && cat hard", &[N, L]),
    ("the root of /proc", "cat /proc/self/TOP/OUT/secret", &[N, L]),
    ("the directory of /proc", "cat /proc/self/cwd/../$(basename OUT)/secret", &[N, L]),
    ("the root of the parent", "cat /proc/$PPID/TOP/OUT/secret", &[N, L]),
    ("the root of the first process", "cat /proc/1/TOP/OUT/secret", &[N, L]),
    ("the program's own loader", "/lib64/ld-linux-x86-64.so.2 /bin/cat OUT/secret", &[N, L]),
    ("write beside the volume", "echo x > OUT/new", &[N, L]),
    ("empty a file outside", "truncate -s 0 OUT/secret", &[N, L]),
    ("remove outside", "rm OUT/secret", &[N, L]),
    ("move out", "echo x > here && mv here OUT/moved", &[N, L]),
    ("move in", "mv OUT/secret .", &[N, L]),
    ("write to /etc", "echo x > /etc/drawloom-test", &[N, L]),
    ("write to /usr", "echo x > /usr/drawloom-test", &[N, L]),
    ("the passwords", "head -c 1 /etc/shadow", &[N, L]),
    // What Landlock does not cover: metadata.
    ("change the mode of a file outside", "chmod 666 OUT/secret", &[N]),
    ("change the time of a file outside", "touch -d @1 OUT/secret", &[N]),
    ("mark a file outside", "perl -e 'exit(syscall(188, qq(OUT/secret), qq(user.x), qq(x), 1, 0) != 0)'", &[N]),
    ("look at a file outside", "stat OUT/secret", &[N]),
    // Devices and the kernel's files.
    ("the kernel's log", "head -c 1 /dev/kmsg", &[N, L]),
    (
        "a disk",
        "for disk in /dev/[shv]d? /dev/vd? /dev/nvme0n1 /dev/loop0; do head -c 1 $disk && exit 0; done; exit 1",
        &[N, L],
    ),
    ("make a device", "mknod disk b 254 0 && head -c 1 disk", &[N, L, S]),
    ("the core dump handler", "echo '|/bin/true' > /proc/sys/kernel/core_pattern", &[N, L]),
    ("the sysrq trigger", "echo h > /proc/sysrq-trigger", &[N, L]),
    ("a release agent", "echo x > /sys/fs/cgroup/release_agent", &[N, L]),
    ("a kernel setting", "echo 1 > /proc/sys/vm/overcommit_memory", &[N, L]),
    // drawloom itself, by its files in /proc.
    ("our environment", "cat /proc/US/environ", &[N, L]),
    ("our memory", "head -c 1 /proc/US/mem", &[N, L]),
    ("our open files", "ls -l /proc/US/fd/ && cat /proc/US/fd/0", &[N, L]),
    ("our directory", "cat /proc/US/TOP/etc/hostname && cat /proc/US/cwd/Cargo.toml", &[N, L]),
    ("the launcher's environment", "cat /proc/$PPID/environ | grep -q .", &[L]),
    // drawloom itself, by system calls.
    ("signal us", "kill -CONT US", &[N, L]),
    ("signal us through a queue", "PERL 129, US, 18, 0", &[N, L]),
    ("signal the launcher", "kill -9 $PPID && sleep 0.1 && ! kill -0 $PPID", &[N, L]),
    ("signal everything", "kill -CONT -1; kill -CONT US", &[N, L]),
    (
        "a signal by file owner",
        "perl -e 'use Fcntl; pipe(R, W); fcntl(R, F_SETOWN, US) or exit 1; fcntl(R, 10, 18); fcntl(R, F_SETFL, O_ASYNC) or exit 1; syswrite(W, q(x)); exit 0' && kill -0 US",
        &[N, L],
    ),
    ("our limit of processor time", "prlimit --pid US --cpu=100000:100000", &[N, S]),
    ("our limit of open files", "prlimit --pid US --nofile=900:900", &[N, S]),
    ("our limit of file sizes", "prlimit --pid US --fsize=99999999:99999999", &[N, S]),
    ("the launcher's limit of open files", "prlimit --pid $PPID --nofile=3:3", &[S]),
    ("the launcher's limit of processor time", "prlimit --pid $PPID --cpu=1:1", &[S]),
    ("a limit by the raw call", "PERL 302, US, 7, pack(q(QQ), 900, 900), 0", &[N, S]),
    ("a limit by the x32 call", "PERL 0x40000000 + 302, US, 7, pack(q(QQ), 900, 900), 0", &[N, S]),
    ("our priority", "renice -n 19 -p US", &[N, S]),
    ("our priority, by user", "PERL 141, 2, 0, 19 and system(q(renice -n 19 -p US)) == 0", &[N, S]),
    ("our processors", "taskset -p 1 US", &[N, S]),
    ("our scheduling", "chrt -i -p 0 US", &[N, S]),
    ("our input and output priority", "ionice -c 3 -p US", &[N, S]),
    ("trace us", "PERL 101, 16, US, 0, 0", &[N, L, S]),
    ("trace the launcher", "PERL 101, 16, '$PPID', 0, 0", &[L, S]),
    (
        "read our memory",
        "PERL 310, US, pack(q(QQ), unpack(q(Q), pack(q(p), $b = q(123456))), 6), 1, pack(q(QQ), ADDRESS, 6), 1, 0",
        &[N, L, S],
    ),
    (
        "write our memory",
        "PERL 311, US, pack(q(QQ), unpack(q(Q), pack(q(p), $b = q(s3cret))), 6), 1, pack(q(QQ), ADDRESS, 6), 1, 0",
        &[N, L, S],
    ),
    (
        "take a descriptor of ours",
        "perl -e '$p = syscall(434, US, 0); exit 1 if $p < 0; exit(syscall(438, $p, 0, 0) < 0)'",
        &[N, L, S],
    ),
    ("compare with us", "PERL 312, US, $$, 0, 0, 0", &[N, L, S]),
    ("move our pages", "PERL 279, US, 0, 0, 0, 0, 0", &[N, S]),
    ("enter our namespaces", "nsenter -t US -m true", &[N, L, S]),
    ("enter the namespaces of the first process", "nsenter -t 1 -m cat OUT/secret", &[N, L, S]),
    // The kernel's rarely used parts.
    ("keys", "PERL 250, 0, -4, 0, 0, 0", &[S]),
    ("a key", "PERL 248, qq(user), qq(drawloom), qq(x), 1, -4", &[S]),
    ("programs in the kernel", "PERL 321, 5, qq(x) x 128, 128", &[S]),
    ("faults handled by users", "PERL 323, 1", &[S]),
    ("performance counters", "PERL 298, pack(q(LLQ), 1, 120, 0) . qq(\\0) x 104, 0, -1, -1, 0", &[S]),
    ("io_uring", "PERL 425, 8, qq(\\0) x 120", &[S]),
    ("a module", "PERL 313, 0, qq(), 0", &[S]),
    ("a new kernel", "PERL 246, 0, 0, 0, 0", &[S]),
    ("a file by handle", "PERL 304, 0, qq(\\0) x 64, 0", &[S]),
    ("the time", "date -s @1", &[S]),
    ("the name of the machine", "hostname drawloom-test", &[S]),
    (
        "input for a terminal",
        "perl -e 'open(T, q(<), q(/dev/tty)) or exit 1; $c = q(x); exit(!ioctl(T, 0x5412, $c))'",
        &[S, N, L],
    ),
    ("input for a terminal, with upper bits", "PERL 16, 0, 0x100005412, qq(x)", &[S]),
    // Mounts and namespaces.
    ("namespaces by unshare", "unshare -U true", &[S]),
    ("mounts by unshare", "unshare -Um sh -c 'mount -t tmpfs x /usr && exit 0'", &[S]),
    ("namespaces by clone", "PERL 56, 0x10000000 | 17, 0, 0, 0, 0", &[S]),
    ("namespaces by clone3", "PERL 435, pack(q(Q11), 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88", &[S]),
    ("a mount", "mount -t tmpfs x .", &[S, L]),
    ("a mount by the new calls", "PERL 428, -100, qq(/usr), 1", &[S]),
    ("a file system by the new calls", "PERL 430, qq(tmpfs), 0", &[S]),
    ("change attributes of a mount", "PERL 442, -100, qq(/usr), 0, qq(\\0) x 32, 32", &[S, L]),
    ("take a mount away", "umount -l /usr", &[S, L]),
    ("make the system writable", "mount -o remount,rw,bind /usr && echo x > /usr/drawloom-test", &[S, L]),
    ("another root", "chroot / cat OUT/secret", &[N, L, S]),
    ("powers by a program with the set-user-id bit", "cp /bin/cat c && chmod u+s c && ./c OUT/secret", &[N, L]),
    // The network and other programs on this machine.
    (
        "a socket by its path",
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un(q(SOCKET))) or exit 1'",
        &[N],
    ),
    (
        "a socket by an abstract name",
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack(q(Sa*), 1, qq(\\0ABSTRACT))) or exit 1'",
        &[N, L],
    ),
    (
        "a port of this machine",
        "perl -e 'use Socket; socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in(PORT, inet_aton(q(127.0.0.1)))) or exit 1'",
        &[N, S],
    ),
    (
        "a port by IPv6",
        "perl -e 'use Socket; socket(S, AF_INET6, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in6(PORT, Socket::inet_pton(AF_INET6, q(::1)))) or exit 1'",
        &[N, S],
    ),
    (
        "a datagram",
        "perl -e 'use Socket; socket(S, AF_INET, SOCK_DGRAM, 0) && send(S, q(x), 0, pack_sockaddr_in(53, inet_aton(q(192.0.2.1)))) or exit 1'",
        &[N, S],
    ),
    ("a name", "perl -e 'exit(!gethostbyname(q(example.com)))'", &[N, S]),
    ("a raw packet", "PERL 41, 17, 3, 0", &[S]),
    ("the host of a virtual machine", "PERL 41, 40, 1, 0", &[S]),
    ("the kernel's ciphers", "PERL 41, 38, 5, 0", &[S]),
    ("shared memory of others", "perl -e 'exit(!defined(shmget(0x64726177, 64, 0)))'", &[N, S]),
    ("a message queue of others", "PERL 240, qq(drawloom-test), 0, 0, 0", &[N, S]),
];

/// Perl that exits with 0 only if the system call succeeds.
const PERL: &str = "perl -e '$r = syscall(ARGS); exit($r == -1)'";

#[tokio::test]
async fn a_command_reaches_nothing_but_its_own() {
    let (mut tried, mut rounds) = (0, 0);
    for off in [&[][..], &[N], &[L], &[S]] {
        let launcher = launcher().without(off);
        let found = launcher.confinement().expect("a probe");
        let mut on = Vec::new();
        on.extend(found.namespaces.is_on().then_some(N));
        on.extend(matches!(found.landlock, Landlock::On(6..)).then_some(L));
        on.extend(found.seccomp.is_on().then_some(S));
        for (what, script, held_by) in ESCAPES {
            if !held_by.iter().any(|layer| on.contains(layer)) {
                continue;
            }
            try_one(what, script, &launcher, &on).await;
            tried += 1;
        }
        rounds += 1;
    }
    count(&format!(
        "{} ways out of a command tried in {rounds} machines, {tried} attempts, 0 got through",
        ESCAPES.len()
    ));
}

async fn try_one(what: &str, script: &str, launcher: &drawloom_process::Launcher, on: &[Layer]) {
    let room = Room::new();
    let outside = tempfile::tempdir().expect("a directory");
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "s3cret").expect("a file");
    let _shared = Shared::new();
    let socket = outside.path().join("socket");
    let _by_path = UnixListener::bind(&socket).expect("a socket");
    let name = format!("{}-abstract", room.mark);
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
    let _by_name = UnixListener::bind_addr(&address).expect("a socket");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let script = match script.strip_prefix("PERL ") {
        Some(args) => PERL.replace("ARGS", args),
        None => script.to_owned(),
    };
    let script = script
        .replace("TOP", "root")
        .replace("OUT", &outside.path().display().to_string())
        .replace("SOCKET", &socket.display().to_string())
        .replace("ABSTRACT", &name)
        .replace("PORT", &listener.local_addr().expect("an address").port().to_string())
        .replace("US", &std::process::id().to_string());
    let memory = Box::new(*b"s3cret");
    let script = script.replace("ADDRESS", &(&raw const *memory).addr().to_string());
    let before = ours();
    let mut command = room.command(&script);
    command.time_limit = Duration::from_secs(20);
    let finished = room.run_by(launcher, &command).await.unwrap_or_else(|error| panic!("{what} with {on:?}: {error}"));
    let output = finished.output.into_text();
    assert!(
        matches!(finished.end, End::Exited(1..) | End::Signalled(_)),
        "{what} with {on:?}: {:?} {output}",
        finished.end
    );
    assert!(!output.contains("s3cret"), "{what} with {on:?}");
    assert_eq!(std::fs::read_to_string(&secret).expect("still there"), "s3cret", "{what} with {on:?}");
    assert_eq!(std::fs::read_dir(outside.path()).expect("the directory").count(), 2, "{what} with {on:?}");
    assert_eq!(ours(), before, "{what} with {on:?}");
    for path in ["/etc/drawloom-test", "/usr/drawloom-test"] {
        assert!(!std::path::Path::new(path).exists(), "{what} with {on:?}");
    }
}

/// What of this process a command could change.
fn ours() -> impl PartialEq + std::fmt::Debug {
    let limits =
        [Resource::Cpu, Resource::Nofile, Resource::Fsize].map(|resource| format!("{:?}", getrlimit(resource)));
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let processors = status.lines().find(|line| line.starts_with("Cpus_allowed:")).map(str::to_owned);
    (limits, processors, getpriority_process(Some(getpid())).expect("our own priority"))
}

/// Shared memory that a command could look for.
struct Shared;

impl Shared {
    fn new() -> Self {
        let made = "shmget(0x64726177, 64, 0600 | 01000)";
        std::process::Command::new("perl").args(["-e", made]).status().expect("perl is needed for this test");
        Self
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ =
            std::process::Command::new("ipcrm").args(["-M", "0x64726177"]).stderr(std::process::Stdio::null()).status();
    }
}

#[tokio::test]
async fn a_command_has_a_loopback_network_of_its_own_and_the_machines_only_when_it_is_allowed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let connect = format!(
        "perl -e 'use Socket; socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in({port}, inet_aton(q(127.0.0.1)))) or exit 1'"
    );
    let own = "perl -e 'use Socket; socket(L, AF_INET, SOCK_STREAM, 0) && bind(L, pack_sockaddr_in(0, INADDR_LOOPBACK)) && \
               listen(L, 1) && socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, getsockname(L)) or exit 1'";
    for (off, own_works) in [(&[][..], true), (&[N][..], false), (&[S][..], true)] {
        let launcher = launcher().without(off);
        let room = Room::new();
        let run = async |script: &str, network| {
            let mut command = room.command(script);
            command.network = network;
            room.run_by(&launcher, &command).await.expect("it runs").end
        };
        assert_eq!(run(&connect, Network::None).await, End::Exited(1), "{off:?}");
        assert_eq!(run(&connect, Network::Host).await, End::Exited(0), "{off:?}");
        let worked = run(own, Network::None).await == End::Exited(0);
        assert_eq!(worked, own_works && launcher.confinement().expect("a probe").namespaces.is_on(), "{off:?}");
    }
}

#[tokio::test]
async fn what_is_lost_without_a_layer_is_said_and_what_cannot_be_enforced_is_refused() {
    let all = launcher();
    for (layer, named) in [(N, "no namespaces"), (L, "no Landlock"), (S, "no seccomp"), (Layer::Cgroup, "no cgroup")] {
        let one = launcher().without(&[layer]);
        let (lost, all) = (one.confinement().expect("a probe").lost(), all.confinement().expect("a probe").lost());
        let said: Vec<&String> = lost.iter().filter(|line| !all.contains(line)).collect();
        assert!(said[0].starts_with(named) && said[0].contains("disabled"), "{said:?}");
        // Without namespaces there are no control groups either, and the limits of an old Landlock are reported.
        let follows = |line: &str| line.starts_with("old Landlock") || line.contains("requires namespaces");
        let further = said[1..].iter().filter(|line| layer != N || !follows(line)).count();
        assert_eq!(further, 0, "{layer:?}: {said:?}");
        let room = Room::new();
        let finished = room.run_by(&one, &room.command("echo fine")).await.expect("it runs");
        assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "fine\n"), "{layer:?}");
    }
    let room = Room::new();
    let error =
        room.run_by(&launcher().without(&[N, S]), &room.command("true")).await.expect_err("no network is a promise");
    assert!(error.to_string().contains("tools.bash.network"), "{error}");
    let mut command = room.command("true");
    command.access = drawloom_process::Access::ReadOnly;
    let error = room.run_by(&launcher().without(&[N, L]), &command).await.expect_err("read-only is a promise");
    assert!(error.to_string().contains("mode to rw"), "{error}");
}
