//! How types of the contract are kept in columns: ids and digests as bytes, names as texts, times as milliseconds since
//! 1970.

use drawloom_contract::{
    ids::{AgentId, AgentName, BatchId, Digest, RunId, SessionId, Tenant, UserId},
    money::Cost,
    record::{Status, StopReason},
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::sqlite::{Cell, FromCell, Value};

type Read<T> = Result<T, String>;

macro_rules! as_bytes {
    ($($name:ident),*) => {$(
        impl<'a> From<&'a $name> for Value<'a> {
            fn from(id: &'a $name) -> Self {
                Self::from(id.as_bytes())
            }
        }

        impl FromCell<'_> for $name {
            fn from_cell(cell: Cell<'_>) -> Read<Self> {
                FromCell::from_cell(cell).map($name::from_bytes)
            }
        }
    )*};
}
as_bytes!(RunId, SessionId, BatchId, Digest);

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl<'a> From<&'a $name> for Value<'a> {
            fn from(name: &'a $name) -> Self {
                Self::from(name.as_str())
            }
        }

        impl FromCell<'_> for $name {
            fn from_cell(cell: Cell<'_>) -> Read<Self> {
                <&str>::from_cell(cell)?.parse().map_err(|error| format!("an invalid value: {error}"))
            }
        }
    )*};
}
as_text!(Tenant, AgentId, AgentName, UserId);

macro_rules! as_word {
    ($($name:ident),*) => {$(
        impl From<$name> for Value<'_> {
            fn from(word: $name) -> Self {
                Self::Text(word.as_str())
            }
        }

        impl FromCell<'_> for $name {
            fn from_cell(cell: Cell<'_>) -> Read<Self> {
                let text = <&str>::from_cell(cell)?;
                let found = $name::ALL.iter().find(|word| word.as_str() == text);
                found.copied().ok_or_else(|| format!("unknown value {text:?}"))
            }
        }
    )*};
}
as_word!(Status, StopReason);

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Integer(time.as_millis())
    }
}

impl FromCell<'_> for Timestamp {
    fn from_cell(cell: Cell<'_>) -> Read<Self> {
        FromCell::from_cell(cell).map(Self::from_millis)
    }
}

impl From<Cost> for Value<'_> {
    fn from(cost: Cost) -> Self {
        Self::from(cost.0)
    }
}

impl FromCell<'_> for Cost {
    fn from_cell(cell: Cell<'_>) -> Read<Self> {
        FromCell::from_cell(cell).map(Self)
    }
}

/// A value that is kept as JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> From<Json<T>> for Value<'_> {
    fn from(Json(value): Json<T>) -> Self {
        Self::Owned(serde_json::to_string(&value).expect("what is stored has only text keys"))
    }
}

impl<T: DeserializeOwned> FromCell<'_> for Json<T> {
    fn from_cell(cell: Cell<'_>) -> Read<Self> {
        serde_json::from_str(<&str>::from_cell(cell)?).map(Self).map_err(|error| format!("unexpected JSON: {error}"))
    }
}
