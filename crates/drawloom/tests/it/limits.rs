//! Every limit of the config and of commands is crossed.

use drawloom::limits::OWN;
use drawloom_contract::limits::{Amount, Limit};

use crate::support::Home;

fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// The code of a config with this text, whose mistake must contain `says`.
fn config(text: &str, says: &str) -> String {
    let home = Home::new();
    home.write("large.yaml", text);
    let json = home.run(&["validate", "large.yaml", "--json"]).exits(2).json();
    assert!(json.to_string().contains(says), "no mistake says {says:?}: {json}");
    json["error"]["code"].as_str().unwrap_or_default().to_owned()
}

fn cross(limit: &Limit) -> String {
    match limit.name {
        "config_file_bytes" => config(&format!("#{}", "x".repeat(most(limit))), "longer than 8388608 bytes"),
        "config_depth" => {
            config(&format!("a: {}{}", "[".repeat(most(limit) + 1), "]".repeat(most(limit) + 1)), "recursion limit")
        }
        "config_values" => config(&format!("a: [{}]", "1,".repeat(most(limit))), "more than 50000 values"),
        "config_text_bytes" => {
            // A text of 100 KB that is used many times.
            let uses = "*t,".repeat(most(limit) / 100_000);
            config(&format!("a: &t {}\nb: [{uses} *t]\n", "x".repeat(100_000)), "bytes of text")
        }
        "prompt_file_bytes" => {
            let home = Home::new();
            home.write("prompt.md", &"x".repeat(most(limit) + 1));
            home.write(
                "large.yaml",
                "providers: { s: { driver: script } }\ndefaults: { provider: s, model: m }\n\
                 agents: { a: { system_prompt_file: prompt.md } }\n",
            );
            let json = home.run(&["validate", "large.yaml", "--json"]).exits(2).json();
            assert!(json.to_string().contains("is longer than 262144 bytes"), "{json}");
            json["error"]["code"].as_str().unwrap_or_default().to_owned()
        }
        "prompt_bytes" => {
            let ran = Home::new().run_with_input(&["run", "reader", "--json"], &"x".repeat(most(limit) + 1));
            ran.exits(2).json()["error"]["code"].as_str().unwrap_or_default().to_owned()
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[test]
fn every_limit_is_crossed_and_told() {
    for limit in OWN {
        assert_eq!(cross(limit), limit.code, "{}", limit.name);
    }
    let report = format_args!("limits: {} limits of the config and of commands crossed\n", OWN.len());
    std::io::Write::write_fmt(&mut std::io::stderr(), report).expect("stderr");
}
