//! How the binary is laid out: it starts faster and touches less memory.

use std::{env, path::Path, process::Command};

/// The first glibc that reads short relocations.
const FIRST: (u32, u32) = (2, 36);
/// Functions in the order in which a starting server needs them. `dist/order` writes it.
const ORDER: &str = "order.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={ORDER}");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    // The machine that builds says something of the one that runs only when they are of one kind.
    let is_native = env::var("HOST") == env::var("TARGET");
    let is_glibc = env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu");
    if !is_native || !is_glibc {
        return;
    }
    if glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // Names that the binary does not have are skipped: an old list costs memory, not a build.
    if env::var("PROFILE").as_deref() == Ok("release") && links_with_lld() {
        let order = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join(ORDER);
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", order.display());
        println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// The version of this machine's glibc, from a line such as `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let text = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Whether the linker is the one that comes with Rust: other linkers refuse a list of names.
fn links_with_lld() -> bool {
    let is_chosen = env::var("RUSTC_LINKER").is_ok()
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    let target = env::var("TARGET").unwrap_or_default();
    !is_chosen
        && target == "x86_64-unknown-linux-gnu"
        && output(Command::new(env::var("RUSTC").unwrap_or_default()).args(["--print", "sysroot"])).is_some_and(
            |root| Path::new(root.trim()).join("lib/rustlib").join(target).join("bin/gcc-ld/ld.lld").exists(),
        )
}

fn output(command: &mut Command) -> Option<String> {
    let answer = command.output().ok()?;
    answer.status.success().then(|| String::from_utf8(answer.stdout).ok())?
}
