//! The escapes that are tried, as one table: a description for people, which layer should stop it
//! in which tier, and the `probe` attempt that makes it.

use haft_contract::ops::Tier;

use super::scene::AttackScene;

pub(super) struct EscapeCase {
    /// What is tried, as the end of a sentence.
    pub(super) attempted: &'static str,
    /// The layer that should stop it in a tier; a tier not listed does not promise to.
    layers: &'static [(Tier, &'static str)],
    /// The attempt inside the tier.
    pub(super) inside: fn(&AttackScene, Tier) -> Vec<String>,
    /// The same attempt outside, as the control.
    pub(super) outside: fn(&AttackScene) -> Vec<String>,
}

impl EscapeCase {
    /// The layer that should stop it in a tier.
    pub(super) fn layer(&self, tier: Tier) -> Option<&'static str> {
        let found = self.layers.iter().find(|(known, _)| *known == tier);
        found.map(|(_, layer)| *layer)
    }
}

const LANDLOCK: (Tier, &str) = (Tier::T1, "landlock");
const SECCOMP: (Tier, &str) = (Tier::T1, "seccomp");
const GVISOR: (Tier, &str) = (Tier::T3, "gvisor");

/// Every escape, grouped by what it attacks.
pub(super) const CASES: &[EscapeCase] = &[
    EscapeCase {
        attempted: "read a file outside the workspace",
        layers: &[LANDLOCK, (Tier::T2, "mounts"), GVISOR],
        inside: |scene, _| scene.on_file("read"),
        outside: |scene| scene.on_file("read"),
    },
    EscapeCase {
        attempted: "write to a file outside the workspace",
        layers: &[LANDLOCK, (Tier::T2, "mounts"), GVISOR],
        inside: |scene, _| scene.on_file("open-write"),
        outside: |scene| scene.on_file("open-write"),
    },
    EscapeCase {
        attempted: "change the times of a file outside the workspace",
        layers: &[(Tier::T2, "mounts"), GVISOR],
        inside: |scene, _| scene.on_file("utimes"),
        outside: |scene| scene.on_file("utimes"),
    },
    EscapeCase {
        attempted: "open a file outside through io_uring",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |scene, _| scene.on_file("io-uring-open"),
        outside: |scene| scene.on_file("io-uring-open"),
    },
    EscapeCase {
        attempted: "reach devices of this machine",
        // The devices gVisor shows under these names belong to its own kernel.
        layers: &[(Tier::T2, "mounts")],
        inside: |_, _| words(["devices"]),
        outside: |_| words(["devices"]),
    },
    EscapeCase {
        attempted: "find a process of this machine",
        layers: &[(Tier::T2, "pid namespace"), GVISOR],
        inside: |scene, _| words(["find-process", scene.mark()]),
        outside: |scene| words(["find-process", scene.mark()]),
    },
    EscapeCase {
        attempted: "read the environment of a process of this machine",
        layers: &[LANDLOCK, (Tier::T2, "pid namespace"), GVISOR],
        inside: |scene, _| scene.on_target("environ"),
        outside: |scene| scene.on_target("environ"),
    },
    EscapeCase {
        attempted: "signal a process of this machine",
        layers: &[LANDLOCK, (Tier::T2, "pid namespace"), GVISOR],
        inside: |scene, _| scene.on_target("signal"),
        outside: |scene| scene.on_target("signal"),
    },
    EscapeCase {
        attempted: "trace the process that keeps the sandbox",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |scene, tier| scene.on_keeper("ptrace-seize", tier),
        outside: |scene| scene.on_target("ptrace-seize"),
    },
    EscapeCase {
        attempted: "write to the memory of the process that keeps the sandbox",
        layers: &[LANDLOCK, (Tier::T2, "landlock")],
        inside: |scene, tier| scene.on_keeper("proc-mem", tier),
        outside: |scene| scene.on_target("proc-mem"),
    },
    EscapeCase {
        attempted: "share memory with this machine",
        layers: &[SECCOMP, (Tier::T2, "ipc namespace"), GVISOR],
        inside: |scene, _| words(["sysv-memory", &scene.key()]),
        outside: |scene| words(["sysv-memory", &scene.key()]),
    },
    EscapeCase {
        attempted: "connect to a TCP port of this machine",
        layers: &[SECCOMP, (Tier::T2, "network namespace"), GVISOR],
        inside: |scene, _| words(["tcp-connect", "127.0.0.1", &scene.port()]),
        outside: |scene| words(["tcp-connect", "127.0.0.1", &scene.port()]),
    },
    EscapeCase {
        attempted: "see the network interfaces of this machine",
        layers: &[SECCOMP, (Tier::T2, "network namespace"), GVISOR],
        inside: |_, _| words(["interfaces"]),
        outside: |_| words(["interfaces"]),
    },
    EscapeCase {
        attempted: "connect to a Unix socket outside the workspace",
        layers: &[SECCOMP, (Tier::T2, "mounts"), GVISOR],
        inside: |scene, _| words(["unix-connect", &scene.socket()]),
        outside: |scene| words(["unix-connect", &scene.socket()]),
    },
    EscapeCase {
        attempted: "connect to an abstract Unix socket",
        layers: &[SECCOMP, (Tier::T2, "network namespace"), GVISOR],
        inside: |scene, _| words(["abstract-connect", scene.mark()]),
        outside: |scene| words(["abstract-connect", scene.mark()]),
    },
    EscapeCase {
        attempted: "open a socket to the hypervisor",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |_, _| words(["socket", "vsock"]),
        outside: |_| words(["socket", "vsock"]),
    },
    EscapeCase {
        attempted: "make a user namespace, to be root in it",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |_, _| words(["unshare", "user"]),
        outside: |_| words(["unshare", "user"]),
    },
    EscapeCase {
        attempted: "use the keyring of the session",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |_, _| words(["keyctl"]),
        outside: |_| words(["keyctl"]),
    },
    EscapeCase {
        attempted: "make a system call through the 32-bit entry point",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |_, _| words(["int80-getpid"]),
        outside: |_| words(["int80-getpid"]),
    },
    EscapeCase {
        attempted: "count events of the processor",
        layers: &[SECCOMP, (Tier::T2, "seccomp")],
        inside: |_, _| words(["perf-event-open"]),
        outside: |_| words(["perf-event-open"]),
    },
    EscapeCase {
        attempted: "gain privileges from a program that has some",
        layers: &[(Tier::T1, "no_new_privs"), (Tier::T2, "no_new_privs")],
        inside: |_, _| words(["new-privileges"]),
        outside: |_| words(["new-privileges"]),
    },
];

/// An attempt's name and arguments.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}
