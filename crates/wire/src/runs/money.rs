//! Money as it goes over a socket: a number of units of the server's currency.

use std::borrow::Cow;

use drawloom_contract::choice::Cost;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

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
    fn an_amount_is_a_plain_number_and_comes_back_the_same() {
        let amount = Amount(Cost(12_300_001));
        let text = serde_json::to_string(&amount).expect("a number");
        assert_eq!(text, "0.012300001");
        assert_eq!(serde_json::from_str::<Amount>(&text).ok(), Some(amount));
        assert!(serde_json::from_str::<Amount>("-1").is_err());
    }
}
