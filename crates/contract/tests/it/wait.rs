//! Waits as they are stored.

use drawloom_contract::{
    record::Collect,
    time::Timestamp,
    wait::{Cause, Wait},
};

#[test]
fn waits_of_earlier_versions_are_read() {
    let read = |text: &str| serde_json::from_str::<Wait>(text).expect("a wait");
    assert_eq!(read("{}"), Wait::default());
    assert_eq!(read(r#"{"until":5}"#), Wait::until(Timestamp::from_millis(5)));
    assert_eq!(read(r#"{"until":null,"on":"rate_limit"}"#), Wait::on(Cause::RateLimit));
    let children = Wait::on(Cause::Children { count: 2, collect: Collect::Many });
    assert_eq!(read(r#"{"on":{"on":"children","count":2,"collect":"many"}}"#), children);
    assert_eq!(read(&serde_json::to_string(&children).expect("JSON")), children);
    assert!(serde_json::from_str::<Wait>(r#"{"on":"rain"}"#).is_err());
}
