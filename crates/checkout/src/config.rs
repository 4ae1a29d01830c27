//! Settings of checkouts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of isolated checkouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The git program: an absolute path, or a name that PATH finds.
    pub git: String,
    /// Timeout of one git command, in seconds.
    pub git_timeout_seconds: u64,
    /// File names that a checkpoint leaves out, as globs.
    pub leave_out: Vec<String>,
    /// File names that a checkpoint keeps although `leave_out` matches them, as globs.
    pub keep: Vec<String>,
    /// The largest changed file that a checkpoint keeps, in bytes.
    pub max_file_bytes: u64,
    /// The most bytes of changed files that one checkpoint keeps.
    pub max_checkpoint_bytes: u64,
    /// The most new files that one checkpoint keeps; above it all new files are left out.
    pub max_new_files: usize,
    /// The most bytes of ignored files that are copied into checkouts.
    pub max_included_bytes: u64,
    /// A shell command that is run once in each new writable checkout, such as `npm ci`.
    pub setup: Option<String>,
    /// Timeout of the setup command, in seconds.
    pub setup_timeout_seconds: u64,
    /// Timeout of a verify command that names none, in seconds.
    pub verify_timeout_seconds: u64,
    /// How many bytes of a command's output are kept, half from the beginning and half from the end.
    pub max_output_bytes: usize,
    /// The ports that are leased to checkouts.
    pub ports: Ports,
    /// The most bytes that the checkouts of one goal may use on the disk; absent means no limit.
    pub quota_bytes: Option<u64>,
    /// Stop a goal when less than this is free on the disk, in bytes.
    pub min_free_bytes: u64,
}

/// The ports that are leased to checkouts, ten at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ports {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { first: 20_000, last: 29_999 }
    }
}

/// File names that usually hold secrets.
const LEAVE_OUT: &[&str] = &[
    ".env*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.gpg",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".htpasswd",
    "*.tfstate",
    "*.tfstate.backup",
    "*service-account*.json",
    "*service_account*.json",
];

/// Templates without secrets, which projects commit.
const KEEP: &[&str] = &[".env.example", ".env.sample", ".env.template", "*.pub.pem"];

impl Default for Config {
    fn default() -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            git: "git".into(),
            git_timeout_seconds: 300,
            leave_out: owned(LEAVE_OUT),
            keep: owned(KEEP),
            max_file_bytes: 5_000_000,
            max_checkpoint_bytes: 256 * 1024 * 1024,
            max_new_files: 20_000,
            max_included_bytes: 64 * 1024 * 1024,
            setup: None,
            setup_timeout_seconds: 1800,
            verify_timeout_seconds: 600,
            max_output_bytes: 64 * 1024,
            ports: Ports::default(),
            quota_bytes: None,
            min_free_bytes: 512 * 1024 * 1024,
        }
    }
}
