//! Money: what tokens cost, what was spent, and amounts as people write them.

use std::{
    borrow::Cow,
    ops::{Add, AddAssign},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Money: billionths of the currency that the config names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

impl Cost {
    /// That many units of the currency; nothing that is not a number from 0 up.
    pub fn from_units(units: f64) -> Option<Self> {
        let nanos = (units * 1e9).round();
        (nanos.is_finite() && (0.0..=9.2e18).contains(&nanos)).then_some(Self(nanos as u64))
    }

    pub fn units(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What a budget counts: tokens, read and written, and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    pub cost: Cost,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost + other.cost }
    }
}

/// Sums over a run and everything below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeTotal {
    pub spent: Spent,
    /// Runs below the run, and how many of them ended without completing.
    pub below: u64,
    pub failed: u64,
    /// How much of `spent.cost` is assumed, when a part of what was spent is.
    pub assumed: Option<Cost>,
}

/// What a million tokens of each kind cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub input: Cost,
    pub output: Cost,
    pub cache_write: Cost,
    pub cache_read: Cost,
}

/// An amount of money, such as `0.0123`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(pub Cost);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.units())
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Cost::from_units(units).map(Self).ok_or_else(|| D::Error::custom("an amount of money must be 0 or more"))
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}
