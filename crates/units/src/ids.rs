//! Names of things: typed ids, so that a run's id can never be passed for a batch's.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::{Entropy, NoEntropy, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {found:?}: expected {form}")]
pub struct BadId {
    /// What it should have named, such as "run id".
    pub what: &'static str,
    /// What was given, cut to 80 characters.
    pub found: String,
    pub form: &'static str,
}

impl BadId {
    fn new(what: &'static str, found: &str, form: &'static str) -> Self {
        Self { what, found: found.chars().take(80).collect(), form }
    }
}

/// Sixteen bytes that sort by time of making: 48 bits of milliseconds, then 80 random ones.
fn mint(now: Timestamp, entropy: &dyn Entropy) -> Result<[u8; 16], NoEntropy> {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes[6..])?;
    bytes[..6].copy_from_slice(&now.as_millis().to_be_bytes()[2..]);
    Ok(bytes)
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 64];
    for (index, byte) in bytes.iter().enumerate() {
        text[index * 2] = DIGITS[usize::from(byte >> 4)];
        text[index * 2 + 1] = DIGITS[usize::from(byte & 15)];
    }
    f.write_str(std::str::from_utf8(&text[..bytes.len() * 2]).map_err(|_| fmt::Error)?)
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// What follows from `Display` and `FromStr`.
macro_rules! text_forms {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
    ($name:ident, $pattern:expr) => {
        text_forms!($name);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// A new id; ids made later sort later.
            pub fn mint(now: Timestamp, entropy: &dyn Entropy) -> Result<Self, NoEntropy> {
                mint(now, entropy).map(Self)
            }

            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                hex(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix)
                    .and_then(unhex)
                    .map(Self)
                    .ok_or_else(|| BadId::new($what, text, concat!($prefix, " followed by 32 hex digits")))
            }
        }

        text_forms!($name, concat!("^", $prefix, "[0-9a-f]{32}$"));
    };
}

id!(
    /// One execution of an agent.
    RunId, "r_", "run id"
);
id!(
    /// A conversation: runs that share it.
    SessionId, "s_", "session id"
);
id!(
    /// Runs that one call started.
    BatchId, "b_", "batch id"
);

const NAME_FORM: &str = "1 to 128 letters, digits, '_' or '-'";
const PATH_FORM: &str = "1 to 128 letters, digits, '_', '-' or '.', in parts separated by '/'";

fn is_word(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

fn is_path(text: &str) -> bool {
    text.len() <= 128
        && text.split('/').all(|part| {
            !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'))
        })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident, $form:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                if $check(text) { Ok(Self(text.into())) } else { Err(BadId::new($what, text, $form)) }
            }
        }

        text_forms!($name, $pattern);
    };
}

name!(
    /// A customer: part of every key and every query.
    Tenant, "tenant", is_word, NAME_FORM, "^[A-Za-z0-9_-]{1,128}$"
);
name!(
    /// Who a run is for (`user_id` on the wire).
    UserId, "user id", is_word, NAME_FORM, "^[A-Za-z0-9_-]{1,128}$"
);
name!(
    /// A caller's own name for a run (`agent_id` on the wire).
    AgentId, "agent id", is_word, NAME_FORM, "^[A-Za-z0-9_-]{1,128}$"
);
name!(
    /// The name of an agent definition; `/` groups.
    AgentName, "agent name", is_path, PATH_FORM, "^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$"
);

impl Tenant {
    /// The tenant of open loopback and of the shared token.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

impl UserId {
    /// The user when a request names none.
    pub fn default_user() -> Self {
        Self("default".into())
    }
}

impl AgentName {
    /// Whether only drawloom defines agents of this name. Its own operations start them, with checks that a plain start has not.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with("drawloom/")
    }
}

impl AgentId {
    /// A name for a run whose caller gave none. Those made later sort later, which keeps the store's index compact.
    pub fn mint(now: Timestamp, entropy: &dyn Entropy) -> Result<Self, NoEntropy> {
        Ok(Self(format!("a_{:032x}", u128::from_be_bytes(mint(now, entropy)?)).into()))
    }
}

/// A run inside its tenant: what every query by run takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    pub tenant: Tenant,
    pub run: RunId,
}

/// SHA-256 of some content, which it names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(content: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(content).into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl FromStr for Digest {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        unhex(text).map(Self).ok_or_else(|| BadId::new("digest", text, "64 hex digits"))
    }
}

text_forms!(Digest);
