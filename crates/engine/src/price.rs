//! What tokens cost.

use drawloom_contract::{
    money::{Cost, Price},
    usage::Usage,
};

/// What `usage` costs, rounded up.
pub(crate) fn cost(price: &Price, usage: &Usage) -> Cost {
    let parts = [
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_creation_input_tokens, price.cache_write),
        (usage.cache_read_input_tokens, price.cache_read),
    ];
    let millionths: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(price.0)).sum();
    Cost(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// The most that reading `input` tokens and writing `output` can cost, whatever the cache does.
pub(crate) fn most_cost(price: &Price, input: u64, output: u64) -> Cost {
    let dearest = price.input.max(price.cache_write).max(price.cache_read);
    let price = Price { input: dearest, ..*price };
    cost(&price, &Usage { input_tokens: input, output_tokens: output, ..Usage::default() })
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
            // Part of the output, which is paid once.
            reasoning_tokens: 90,
        };
        assert_eq!(cost(&price, &usage), Cost(3_000_000 + 1_500_000 + 37_500 + 3_000_000));
        assert_eq!(most_cost(&price, 1_000, 100), Cost(3_750_000 + 1_500_000));
        assert_eq!(cost(&price, &Usage { cache_read_input_tokens: 1, ..Usage::default() }), Cost(300));
    }
}
