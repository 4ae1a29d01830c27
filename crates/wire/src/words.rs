//! Numbers as people say them, in terminals and in answers for models.

use drawloom_contract::money::Amount;

/// Milliseconds.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// Bytes.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} B"),
    }
}

/// A count, with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Money, with as many decimals as a small amount needs.
pub fn money(amount: Amount, currency: &str) -> String {
    let units = amount.0.units();
    let number = match units {
        0.0 => "0".to_owned(),
        units if units >= 1.0 => format!("{units:.2}"),
        units if units >= 0.01 => format!("{units:.3}"),
        units => format!("{units:.6}"),
    };
    match currency {
        "USD" => format!("${number}"),
        "EUR" => format!("€{number}"),
        "" => number,
        other => format!("{number} {other}"),
    }
}

/// What `~` means before an amount of money.
pub const ASSUMED: &str = "~ estimated: the provider did not report what some calls used";

/// Money that was spent, marked with `~` when a part of it is assumed.
pub fn assumed_money(amount: Amount, assumed: Option<Amount>, currency: &str) -> String {
    let mark = if assumed.is_some() { "~" } else { "" };
    format!("{mark}{}", money(amount, currency))
}

#[cfg(test)]
mod tests {
    use drawloom_contract::money::Cost;

    use super::*;

    #[test]
    fn numbers_are_said_as_people_say_them() {
        let hour = 3_600_000;
        assert_eq!(
            [0, 999, 1_250, 61_000, hour + 120_000].map(duration),
            ["0 ms", "999 ms", "1.2 s", "1 min 1 s", "1 h 2 min"]
        );
        assert_eq!([12, 1_536, 5 << 20, 3 << 30].map(bytes), ["12 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
        assert_eq!([7, 1_234, 1_234_567].map(count), ["7", "1,234", "1,234,567"]);
        let amount = |units: f64| Amount(Cost::from_units(units).expect("an amount"));
        assert_eq!(money(amount(12.345), "USD"), "$12.35");
        assert_eq!(money(amount(0.0412), "EUR"), "€0.041");
        assert_eq!(money(amount(0.000_012), "CHF"), "0.000012 CHF");
        assert_eq!(money(amount(0.0), "USD"), "$0");
    }
}
