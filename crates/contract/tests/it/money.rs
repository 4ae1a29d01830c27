//! Amounts of money.

use drawloom_contract::money::{Amount, Cost};

#[test]
fn a_cost_is_a_number_from_zero_up() {
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
