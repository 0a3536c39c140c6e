//! The system calls by name, grouped by how they are handled. Only lists; `seccomp.rs` uses them.
//!
//! A call in none of the lists is answered as by a kernel that does not know it. Calls that exist
//! only on x86-64 are old ones with newer replacements.

/// A list of calls with their numbers.
macro_rules! calls {
    ($($name:ident = $number:ident)*; x86_64: $($old:ident = $old_number:ident)*) => {
        &[
            $((stringify!($name), libc::$number),)*
            $(
                #[cfg(target_arch = "x86_64")]
                (stringify!($old), libc::$old_number),
            )*
        ]
    };
}

/// Allowed with any arguments: files, memory, time, threads, signals, the process itself.
#[rustfmt::skip]
pub(super) const ALLOWED: &[(&str, i64)] = calls! {
    read=SYS_read write=SYS_write close=SYS_close fstat=SYS_fstat lseek=SYS_lseek mmap=SYS_mmap
    mprotect=SYS_mprotect munmap=SYS_munmap brk=SYS_brk rt_sigaction=SYS_rt_sigaction
    rt_sigprocmask=SYS_rt_sigprocmask rt_sigreturn=SYS_rt_sigreturn pread64=SYS_pread64
    pwrite64=SYS_pwrite64 readv=SYS_readv writev=SYS_writev sched_yield=SYS_sched_yield
    mremap=SYS_mremap msync=SYS_msync mincore=SYS_mincore madvise=SYS_madvise dup=SYS_dup
    nanosleep=SYS_nanosleep getitimer=SYS_getitimer setitimer=SYS_setitimer getpid=SYS_getpid
    sendfile=SYS_sendfile execve=SYS_execve exit=SYS_exit wait4=SYS_wait4 kill=SYS_kill
    uname=SYS_uname fcntl=SYS_fcntl flock=SYS_flock fsync=SYS_fsync fdatasync=SYS_fdatasync
    truncate=SYS_truncate ftruncate=SYS_ftruncate getcwd=SYS_getcwd chdir=SYS_chdir
    fchdir=SYS_fchdir umask=SYS_umask
    gettimeofday=SYS_gettimeofday getrlimit=SYS_getrlimit getrusage=SYS_getrusage
    sysinfo=SYS_sysinfo times=SYS_times getuid=SYS_getuid getgid=SYS_getgid setuid=SYS_setuid
    setgid=SYS_setgid geteuid=SYS_geteuid getegid=SYS_getegid setpgid=SYS_setpgid
    getppid=SYS_getppid setsid=SYS_setsid setreuid=SYS_setreuid setregid=SYS_setregid
    getgroups=SYS_getgroups setgroups=SYS_setgroups setresuid=SYS_setresuid
    getresuid=SYS_getresuid setresgid=SYS_setresgid getresgid=SYS_getresgid getpgid=SYS_getpgid
    setfsuid=SYS_setfsuid setfsgid=SYS_setfsgid getsid=SYS_getsid capget=SYS_capget
    capset=SYS_capset rt_sigpending=SYS_rt_sigpending rt_sigtimedwait=SYS_rt_sigtimedwait
    rt_sigqueueinfo=SYS_rt_sigqueueinfo rt_sigsuspend=SYS_rt_sigsuspend
    sigaltstack=SYS_sigaltstack statfs=SYS_statfs fstatfs=SYS_fstatfs getpriority=SYS_getpriority
    sched_getparam=SYS_sched_getparam
    sched_getscheduler=SYS_sched_getscheduler sched_get_priority_max=SYS_sched_get_priority_max
    sched_get_priority_min=SYS_sched_get_priority_min
    sched_rr_get_interval=SYS_sched_rr_get_interval mlock=SYS_mlock munlock=SYS_munlock
    mlockall=SYS_mlockall munlockall=SYS_munlockall sync=SYS_sync gettid=SYS_gettid
    readahead=SYS_readahead
    getxattr=SYS_getxattr lgetxattr=SYS_lgetxattr fgetxattr=SYS_fgetxattr listxattr=SYS_listxattr
    llistxattr=SYS_llistxattr flistxattr=SYS_flistxattr
    tkill=SYS_tkill futex=SYS_futex
    sched_getaffinity=SYS_sched_getaffinity
    getdents64=SYS_getdents64 set_tid_address=SYS_set_tid_address
    restart_syscall=SYS_restart_syscall fadvise64=SYS_fadvise64 timer_create=SYS_timer_create
    timer_settime=SYS_timer_settime timer_gettime=SYS_timer_gettime
    timer_getoverrun=SYS_timer_getoverrun timer_delete=SYS_timer_delete
    clock_gettime=SYS_clock_gettime clock_getres=SYS_clock_getres
    clock_nanosleep=SYS_clock_nanosleep exit_group=SYS_exit_group epoll_ctl=SYS_epoll_ctl
    tgkill=SYS_tgkill waitid=SYS_waitid ioprio_get=SYS_ioprio_get
    inotify_add_watch=SYS_inotify_add_watch inotify_rm_watch=SYS_inotify_rm_watch
    newfstatat=SYS_newfstatat unlinkat=SYS_unlinkat
    readlinkat=SYS_readlinkat faccessat=SYS_faccessat pselect6=SYS_pselect6
    ppoll=SYS_ppoll set_robust_list=SYS_set_robust_list get_robust_list=SYS_get_robust_list
    splice=SYS_splice tee=SYS_tee sync_file_range=SYS_sync_file_range vmsplice=SYS_vmsplice
    epoll_pwait=SYS_epoll_pwait timerfd_create=SYS_timerfd_create
    fallocate=SYS_fallocate timerfd_settime=SYS_timerfd_settime
    timerfd_gettime=SYS_timerfd_gettime signalfd4=SYS_signalfd4 eventfd2=SYS_eventfd2
    epoll_create1=SYS_epoll_create1 dup3=SYS_dup3 pipe2=SYS_pipe2 inotify_init1=SYS_inotify_init1
    preadv=SYS_preadv pwritev=SYS_pwritev rt_tgsigqueueinfo=SYS_rt_tgsigqueueinfo
    syncfs=SYS_syncfs getcpu=SYS_getcpu
    sched_getattr=SYS_sched_getattr seccomp=SYS_seccomp getrandom=SYS_getrandom
    memfd_create=SYS_memfd_create execveat=SYS_execveat membarrier=SYS_membarrier
    mlock2=SYS_mlock2 copy_file_range=SYS_copy_file_range preadv2=SYS_preadv2
    pwritev2=SYS_pwritev2 pkey_mprotect=SYS_pkey_mprotect pkey_alloc=SYS_pkey_alloc
    pkey_free=SYS_pkey_free statx=SYS_statx rseq=SYS_rseq pidfd_send_signal=SYS_pidfd_send_signal
    pidfd_open=SYS_pidfd_open close_range=SYS_close_range faccessat2=SYS_faccessat2
    epoll_pwait2=SYS_epoll_pwait2 landlock_create_ruleset=SYS_landlock_create_ruleset
    landlock_add_rule=SYS_landlock_add_rule landlock_restrict_self=SYS_landlock_restrict_self
    futex_waitv=SYS_futex_waitv get_mempolicy=SYS_get_mempolicy setrlimit=SYS_setrlimit
    io_setup=SYS_io_setup io_destroy=SYS_io_destroy io_submit=SYS_io_submit
    io_cancel=SYS_io_cancel io_getevents=SYS_io_getevents remap_file_pages=SYS_remap_file_pages;
    x86_64:
    stat=SYS_stat lstat=SYS_lstat poll=SYS_poll access=SYS_access pipe=SYS_pipe select=SYS_select
    dup2=SYS_dup2 pause=SYS_pause alarm=SYS_alarm fork=SYS_fork vfork=SYS_vfork
    getdents=SYS_getdents rmdir=SYS_rmdir unlink=SYS_unlink readlink=SYS_readlink
    getpgrp=SYS_getpgrp
    time=SYS_time epoll_create=SYS_epoll_create epoll_wait=SYS_epoll_wait
    signalfd=SYS_signalfd eventfd=SYS_eventfd inotify_init=SYS_inotify_init
    arch_prctl=SYS_arch_prctl
};

/// Change a file's mode, owner, times and other attributes, which Landlock does not guard. Allowed
/// where the sandbox has its own file system.
#[rustfmt::skip]
pub(super) const ATTRIBUTES: &[(&str, i64)] = calls! {
    fchmod=SYS_fchmod fchown=SYS_fchown fchownat=SYS_fchownat fchmodat=SYS_fchmodat
    utimensat=SYS_utimensat setxattr=SYS_setxattr lsetxattr=SYS_lsetxattr
    fsetxattr=SYS_fsetxattr removexattr=SYS_removexattr lremovexattr=SYS_lremovexattr
    fremovexattr=SYS_fremovexattr;
    x86_64:
    chmod=SYS_chmod chown=SYS_chown lchown=SYS_lchown utime=SYS_utime utimes=SYS_utimes
    futimesat=SYS_futimesat
};

/// Allowed on sockets that already exist.
#[rustfmt::skip]
pub(super) const PAIRED_SOCKETS: &[(&str, i64)] = calls! {
    sendto=SYS_sendto recvfrom=SYS_recvfrom sendmsg=SYS_sendmsg recvmsg=SYS_recvmsg
    sendmmsg=SYS_sendmmsg recvmmsg=SYS_recvmmsg shutdown=SYS_shutdown getsockname=SYS_getsockname
    getpeername=SYS_getpeername setsockopt=SYS_setsockopt getsockopt=SYS_getsockopt;
    x86_64:
};

/// Allowed where the sandbox has its own network and shared memory.
#[rustfmt::skip]
pub(super) const OWN_NAMESPACES: &[(&str, i64)] = calls! {
    accept=SYS_accept accept4=SYS_accept4 bind=SYS_bind listen=SYS_listen
    shmget=SYS_shmget shmat=SYS_shmat shmctl=SYS_shmctl shmdt=SYS_shmdt semget=SYS_semget
    semop=SYS_semop semctl=SYS_semctl semtimedop=SYS_semtimedop msgget=SYS_msgget
    msgsnd=SYS_msgsnd msgrcv=SYS_msgrcv msgctl=SYS_msgctl mq_open=SYS_mq_open
    mq_unlink=SYS_mq_unlink mq_timedsend=SYS_mq_timedsend mq_timedreceive=SYS_mq_timedreceive
    mq_notify=SYS_mq_notify mq_getsetattr=SYS_mq_getsetattr;
    x86_64:
};

/// Calls that create a name.
#[rustfmt::skip]
pub(super) const CREATING: &[(&str, i64)] = calls! {
    mkdirat=SYS_mkdirat mknodat=SYS_mknodat symlinkat=SYS_symlinkat linkat=SYS_linkat
    renameat2=SYS_renameat2 renameat=SYS_renameat;
    x86_64:
    creat=SYS_creat mkdir=SYS_mkdir mknod=SYS_mknod symlink=SYS_symlink link=SYS_link
    rename=SYS_rename
};

/// Allowed where the sandbox has its own network, after a check of the destination.
#[rustfmt::skip]
pub(super) const CONNECTING: &[(&str, i64)] = calls! {
    connect=SYS_connect;
    x86_64:
};

/// Calls that create a name only with some arguments.
#[rustfmt::skip]
pub(super) const OPENING: &[(&str, i64)] = calls! {
    openat=SYS_openat;
    x86_64:
    open=SYS_open
};

/// Allowed with some arguments.
#[rustfmt::skip]
pub(super) const CONDITIONAL: &[(&str, i64)] = calls! {
    clone=SYS_clone personality=SYS_personality ioctl=SYS_ioctl socketpair=SYS_socketpair
    prctl=SYS_prctl socket=SYS_socket prlimit64=SYS_prlimit64;
    x86_64:
};

/// How processes share the processors. Allowed where the sandbox has its own processes; elsewhere
/// only on the caller itself.
#[rustfmt::skip]
pub(super) const SCHEDULING: &[(&str, i64)] = calls! {
    setpriority=SYS_setpriority sched_setparam=SYS_sched_setparam
    sched_setscheduler=SYS_sched_setscheduler sched_setaffinity=SYS_sched_setaffinity
    sched_setattr=SYS_sched_setattr ioprio_set=SYS_ioprio_set;
    x86_64:
};

/// Which argument is the mode of a file that a call creates or changes.
pub(super) const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
];

/// Answered as if unknown: programs try them and do without. `openat2` has its flags and its mode
/// in memory, which another thread may change after the check.
#[rustfmt::skip]
pub(super) const SILENT: &[(&str, i64)] = calls! {
    clone3=SYS_clone3 openat2=SYS_openat2 io_uring_setup=SYS_io_uring_setup io_uring_enter=SYS_io_uring_enter
    io_uring_register=SYS_io_uring_register set_mempolicy=SYS_set_mempolicy mbind=SYS_mbind
    migrate_pages=SYS_migrate_pages move_pages=SYS_move_pages process_madvise=SYS_process_madvise
    memfd_secret=SYS_memfd_secret set_mempolicy_home_node=SYS_set_mempolicy_home_node;
    x86_64:
    modify_ldt=SYS_modify_ldt uselib=SYS_uselib ustat=SYS_ustat sysfs=SYS_sysfs
};

/// Refused and reported: nothing ordinary needs them.
#[rustfmt::skip]
pub(super) const DENIED: &[(&str, i64)] = calls! {
    ptrace=SYS_ptrace syslog=SYS_syslog acct=SYS_acct settimeofday=SYS_settimeofday
    mount=SYS_mount umount2=SYS_umount2 swapon=SYS_swapon swapoff=SYS_swapoff reboot=SYS_reboot
    sethostname=SYS_sethostname setdomainname=SYS_setdomainname init_module=SYS_init_module
    delete_module=SYS_delete_module finit_module=SYS_finit_module quotactl=SYS_quotactl
    quotactl_fd=SYS_quotactl_fd nfsservctl=SYS_nfsservctl lookup_dcookie=SYS_lookup_dcookie
    add_key=SYS_add_key request_key=SYS_request_key keyctl=SYS_keyctl unshare=SYS_unshare
    setns=SYS_setns chroot=SYS_chroot pivot_root=SYS_pivot_root vhangup=SYS_vhangup
    adjtimex=SYS_adjtimex clock_adjtime=SYS_clock_adjtime clock_settime=SYS_clock_settime
    perf_event_open=SYS_perf_event_open fanotify_init=SYS_fanotify_init
    fanotify_mark=SYS_fanotify_mark name_to_handle_at=SYS_name_to_handle_at
    open_by_handle_at=SYS_open_by_handle_at process_vm_readv=SYS_process_vm_readv
    process_vm_writev=SYS_process_vm_writev kcmp=SYS_kcmp bpf=SYS_bpf userfaultfd=SYS_userfaultfd
    kexec_load=SYS_kexec_load pidfd_getfd=SYS_pidfd_getfd open_tree=SYS_open_tree
    move_mount=SYS_move_mount fsopen=SYS_fsopen fsconfig=SYS_fsconfig fsmount=SYS_fsmount
    fspick=SYS_fspick mount_setattr=SYS_mount_setattr process_mrelease=SYS_process_mrelease
    kexec_file_load=SYS_kexec_file_load;
    x86_64:
    iopl=SYS_iopl ioperm=SYS_ioperm
};
