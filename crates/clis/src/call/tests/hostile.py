import ctypes, os, sys
cli, libc, tried = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True), open("tried", "w")
def way(name, done):
    try:
        print(name, "opened" if done() else "refused", file=tried)
    except (OSError, AttributeError) as error:
        print(name, error, file=tried)
way("mem", lambda: os.open(f"/proc/{cli}/mem", os.O_RDWR))
way("mem of the supervisor", lambda: os.open("/proc/1/mem", os.O_RDWR))
way("ptrace", lambda: libc.ptrace(16, cli, 0, 0) == 0)
way("pidfd_getfd", lambda: libc.syscall(438, libc.syscall(434, cli, 0), 1, 0) >= 0)
way("process_vm_writev", lambda: libc.syscall(311, cli, 0, 0, 0, 0, 0) >= 0)
way("fd", lambda: os.open(f"/proc/{cli}/fd/1", os.O_WRONLY))
