//! Which of two logins is the newer one, and what is written of it.

use serde_json::{Value, json};

use super::{
    Login,
    login::{Base, Exchange, compare, with_values},
};

fn base(value: &Value) -> Base {
    value.as_object().cloned().unwrap_or_default()
}

#[test]
fn the_newest_login_wins_on_both_sides() {
    let login = Login::of("auth.json").taken(&["tokens"]).newer("/tokens/at");
    let of = |token: &str, at: u32| json!({ "tokens": { "token": token, "at": at }, "mcp": token });
    let start = of("r0", 10);
    let to_user =
        |value: &Value| Exchange { to_user: base(&json!({ "tokens": value["tokens"] })), ..Exchange::default() };
    let to_private =
        |value: &Value| Exchange { to_private: base(&json!({ "tokens": value["tokens"] })), ..Exchange::default() };
    let newer = of("r1", 20);
    let newest = of("r2", 30);
    let found = |user: &Value, private: &Value, same: bool, known: bool| {
        compare(&login, (user, private, &base(&start)), (same, known), 0)
    };
    assert_eq!(found(&start, &start, true, true), Exchange::default());
    assert_eq!(found(&start, &newer, true, true), to_user(&newer));
    assert_eq!(found(&newer, &start, true, true), to_private(&newer));
    assert_eq!(found(&newer, &newest, true, true), to_user(&newest));
    assert_eq!(found(&newest, &newer, true, true), to_private(&newest));
    assert_eq!(found(&start, &newer, false, true), Exchange::default(), "another account");
    assert_eq!(found(&newer, &newest, true, false), to_private(&newer), "whose it is is not known");
    assert_eq!(found(&start, &of("r1", 5), true, true), to_private(&start), "older than what it began with");
    assert_eq!(found(&json!({}), &newer, true, true), Exchange::default(), "the user has logged out");
    let far = json!({ "tokens": { "token": "evil", "at": 9.0e15 } });
    assert_eq!(found(&start, &far, true, true), to_private(&start), "from the far future");
}

#[test]
fn each_provider_of_a_file_is_compared_by_itself() {
    let login =
        Login { own_account: Some("/account".into()), ..Login::of("auth.json").taken(&["*"]).newer("/expires") };
    let start = json!({ "one": { "account": "a", "expires": 1 }, "key": { "type": "api", "key": "k" } });
    let private = json!({
        "one": { "account": "a", "expires": 2 }, "key": { "type": "api", "key": "evil" }, "new": { "expires": 3 },
    });
    let found = compare(&login, (&start, &private, &base(&start)), (true, false), 0);
    assert_eq!(found.to_user, base(&json!({ "one": { "account": "a", "expires": 2 } })));
    assert_eq!(found.to_private, base(&json!({ "key": { "type": "api", "key": "k" } })));
    let other = json!({ "one": { "account": "b", "expires": 2 } });
    let found = compare(&login, (&start, &other, &base(&start)), (true, false), 0);
    assert_eq!(found.to_user, Base::new(), "another account");
}

#[test]
fn what_is_not_replaced_stays_byte_for_byte() {
    let text = "{ \"b\" : 1.50, \"token\":\t{ \"a\": [1] } ,\n\"a\": 123456789012345678901234567890 }\n";
    let written = with_values(text, &base(&json!({ "token": "new" }))).expect("it has the key");
    assert_eq!(written, "{ \"b\" : 1.50, \"token\":\t\"new\" ,\n\"a\": 123456789012345678901234567890 }\n");
    assert_eq!(with_values(text, &base(&json!({ "missing": 1 }))), None);
}
