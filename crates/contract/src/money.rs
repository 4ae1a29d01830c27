//! Money: what tokens cost, what was spent, and amounts as people write them.

use std::{
    borrow::Cow,
    ops::{Add, AddAssign},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::usage::Usage;

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

    /// In units of the currency.
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
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub cost: Cost,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost + other.cost }
    }
}

/// What a million tokens of each kind cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Tokens read, not from a cache.
    pub input: Cost,
    /// Tokens written.
    pub output: Cost,
    /// Tokens written to the provider's cache.
    pub cache_write: Cost,
    /// Tokens read from the provider's cache.
    pub cache_read: Cost,
}

impl Price {
    /// What `usage` costs, rounded up.
    pub fn of(&self, usage: &Usage) -> Cost {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_creation_input_tokens, self.cache_write),
            (usage.cache_read_input_tokens, self.cache_read),
        ];
        let millionths: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(price.0)).sum();
        Cost(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// The most that reading `input` tokens and writing `output` can cost, whatever the cache does.
    pub fn at_most(&self, input: u64, output: u64) -> Cost {
        let dearest = self.input.max(self.cache_write).max(self.cache_read);
        let price = Self { input: dearest, ..*self };
        price.of(&Usage { input_tokens: input, output_tokens: output, ..Usage::default() })
    }
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
        Cost::from_units(units).map(Self).ok_or_else(|| D::Error::custom("an amount of money is a number from 0 up"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_its_tokens_cost_rounded_up() {
        let dollars = |units: f64| Cost::from_units(units).expect("a price");
        let price =
            Price { input: dollars(3.0), output: dollars(15.0), cache_write: dollars(3.75), cache_read: dollars(0.3) };
        let usage = Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            cache_creation_input_tokens: 10,
            cache_read_input_tokens: 10_000,
        };
        assert_eq!(price.of(&usage), Cost(3_000_000 + 1_500_000 + 37_500 + 3_000_000));
        assert_eq!(price.at_most(1_000, 100), Cost(3_750_000 + 1_500_000));
        assert_eq!(price.of(&Usage { cache_read_input_tokens: 1, ..Usage::default() }), Cost(300));
        assert_eq!([Cost::from_units(-1.0), Cost::from_units(f64::NAN), Cost::from_units(1e300)], [None; 3]);
    }

    #[test]
    fn an_amount_is_a_plain_number_and_comes_back_the_same() {
        let amount = Amount(Cost(12_300_001));
        let text = serde_json::to_string(&amount).expect("a number");
        assert_eq!(text, "0.012300001");
        assert_eq!(serde_json::from_str::<Amount>(&text).ok(), Some(amount));
        assert!(serde_json::from_str::<Amount>("-1").is_err());
    }
}
