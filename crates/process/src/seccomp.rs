//! The filter of system calls: refuses those that reach other processes or large, rarely used parts of the kernel.
//!
//! It is a list of refusals, not of permissions: build tools and language runtimes use new system calls all the time, and
//! what they must not reach is kept from them by namespaces and Landlock too. A refused call fails with EPERM.

use std::collections::BTreeMap;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID,
    CLONE_NEWUSER, CLONE_NEWUTS, EPERM, TIOCLINUX, TIOCSTI,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use crate::command::Network;

/// `CLONE_NEWTIME`, which `unshare` knows and `clone` reads as a signal.
const CLONE_NEWTIME: i32 = 0x80;

/// The lowest number of a call of the x32 ABI on x86-64.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Other processes: their memory, descriptors and state.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Keys, which the kernel keeps per user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs in the kernel, and what makes faults in it easier to use.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The machine.
    libc::SYS_acct,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// Refused for any process but the caller, by the argument that names it: a limit of another process is as good as a signal.
const ONLY_ITSELF: &[(i64, u8)] = &[(libc::SYS_prlimit64, 0)];

/// The same, where no namespace hides the other processes. Threads that set their own scheduling by number are refused too.
const ONLY_ITSELF_IN_THE_OPEN: &[(i64, u8)] = &[
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
];

/// Shared memory and queues that all processes of a user share, where no namespace separates them.
const SHARED_IN_THE_OPEN: &[i64] =
    &[libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open, libc::SYS_mq_unlink];

/// What the filter depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter {
    /// Whether the command has namespaces of its own.
    pub(crate) isolated: bool,
    pub(crate) network: Network,
}

impl Filter {
    /// The filter as the kernel takes it.
    pub(crate) fn compile(self) -> Result<Programs, String> {
        self.programs().map(Programs).map_err(|error| format!("invalid system call filter: {error}"))
    }

    fn programs(self) -> Result<Vec<BpfProgram>, seccompiler::Error> {
        // The flags of clone3 lie in memory, where a filter cannot look: programs fall back to clone when there is no clone3.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let mut programs = vec![compile(self.rules()?, EPERM)?, compile(clone3, libc::ENOSYS)?];
        #[cfg(target_arch = "x86_64")]
        programs.push(no_x32());
        Ok(programs)
    }

    fn rules(self) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
        let mut only_itself = ONLY_ITSELF.to_vec();
        if !self.isolated {
            only_itself.extend_from_slice(ONLY_ITSELF_IN_THE_OPEN);
            rules.extend(SHARED_IN_THE_OPEN.iter().map(|number| (*number, Vec::new())));
        }
        for (number, argument) in only_itself {
            rules.insert(number, vec![when(argument, SeccompCmpOp::Ne, 0)?]);
        }
        let namespaces =
            [CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET];
        let has = |flag: i32| {
            let flag = u64::from(flag.cast_unsigned());
            when(0, SeccompCmpOp::MaskedEq(flag), flag)
        };
        let made: Vec<SeccompRule> = namespaces.into_iter().map(has).collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_unshare, made.iter().cloned().chain([has(CLONE_NEWTIME)?]).collect());
        rules.insert(libc::SYS_clone, made);
        let typed = [TIOCSTI, TIOCLINUX];
        let typed = typed.iter().map(|request| when(1, SeccompCmpOp::Eq, *request)).collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_ioctl, typed);
        // Without a namespace there must be no socket that leads out of the machine's processes.
        let families: &[i32] = match (self.network, self.isolated) {
            (Network::None, false) => &[AF_UNIX],
            (Network::None, true) | (Network::Host, _) => &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK],
        };
        let other = families
            .iter()
            .map(|family| SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())));
        let other = other.collect::<Result<Vec<_>, _>>()?;
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
        Ok(rules)
    }
}

/// A compiled filter.
pub(crate) struct Programs(Vec<BpfProgram>);

impl Programs {
    /// Applies the filter to this thread and all that it starts, for ever.
    pub(crate) fn apply(&self) -> Result<(), String> {
        let applied = self.0.iter().try_for_each(|program| apply_filter(program));
        applied.map_err(|error| format!("cannot apply the system call filter: {error}"))
    }
}

/// Matches when the low half of an argument compares so; the kernel ignores the upper half of these arguments too.
fn when(argument: u8, compares: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(vec![SeccompCondition::new(argument, Dword, compares, value)?])?)
}

/// One instruction; `jump` is how many to skip when a comparison does not hold.
fn instruction(code: u32, jump: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: jump, k }
}

/// One program for calls from number `middle` on, and one for those below it. Each returns in all cases.
fn either(middle: i64, below: BpfProgram, from: BpfProgram) -> BpfProgram {
    let mut program = vec![
        // The number is the first field of what a filter looks at.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, middle as u32),
        instruction(libc::BPF_JMP | libc::BPF_JA, 0, below.len() as u32),
    ];
    program.extend(below);
    program.extend(from);
    program
}

/// Refuses every call of the x32 ABI, which would be the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    let refuse = libc::SECCOMP_RET_ERRNO | EPERM.cast_unsigned();
    vec![
        // The number is the first field of what a filter looks at.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, refuse),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Most rules that are compared one after the other. The kernel tries every system call when it takes a filter, so that a long
/// row of comparisons takes longer than to start a program.
const MOST_IN_A_ROW: usize = 8;

fn compile(mut rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, seccompiler::Error> {
    if let Some(middle) = rules.keys().nth(rules.len() / 2).copied().filter(|_| rules.len() > MOST_IN_A_ROW) {
        let (high, low) = (compile(rules.split_off(&middle), error)?, compile(rules, error)?);
        return Ok(either(middle, low, high));
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    Ok(BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_filter_compiles() {
        for isolated in [true, false] {
            for network in [Network::None, Network::Host] {
                Filter { isolated, network }.programs().expect("it compiles");
            }
        }
    }
}
