//! Tables at usual widths: with realistic names and texts, every needed column is there and no line is too long.

use crate::support::Home;

const CONFIG: &str = "\
listen: 127.0.0.1:0
providers:
  anthropic:
    driver: script
    options:
      rules:
        - when: { contains: report, turn: 1 }
          calls: [{ tool: Artifact, input: { op: write, name: reviews/security/findings-of-the-week.md, text: All is well. } }]
        - when: { contains: boom }
          fail: { kind: refused, message: the provider refused this request because of its policy }
        - text: \"I have read it; the changes look good, and these are my findings in one long line: {{prompt}}\"
  openai: { driver: script }
models:
  sonnet: { provider: anthropic, model: claude-sonnet-4-5-20250929 }
  small: { provider: openai, model: gpt-5-mini-2025-08-07 }
tiers: { low: [small], middle: [sonnet, small], high: [sonnet] }
pricing:
  models:
    anthropic/claude-sonnet-4-5-20250929: { input: 3, output: 15 }
    openai/gpt-5-mini-2025-08-07: { input: 0.25, output: 2 }
skills: { directories: [skills] }
agents:
  lead: { tier: high, description: Splits a review into parts and hands them to the reviewers., tools: [Agent, Read, Grep, Glob], agents: [security-reviewer, code-reviewer], skills: [code-style] }
  security-reviewer: { tier: high, description: Looks for secrets and injections and missing checks., tools: [Read, Grep, Glob, Artifact], agents: [], skills: [code-style] }
  code-reviewer: { tier: middle, description: Looks for mistakes in logic and for missing tests., tools: [Read, Grep, Glob, Artifact], agents: [] }
volumes:
  notes: { path: notes, mode: ro, default: true }
";

#[test]
fn tables_keep_every_needed_column_at_80_and_100_columns() {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    std::fs::create_dir_all(home.path().join("skills/code-style")).expect("a directory");
    home.write(
        "skills/code-style/SKILL.md",
        "---\nname: code-style\ndescription: The rules for code in this repository, from names to error messages.\n---\nBe brief.\n",
    );
    home.run(&["trust", "--yes"]).exits(0);
    let _server = home.serve();
    home.run(&["run", "security-reviewer", "Write the report of this week about the payment service"]).exits(0);
    let report = home.run(&["runs", "list", "-q"]).exits(0).stdout;
    let report = report.trim();
    home.run(&["run", "code-reviewer", "boom goes the review of the payment service"]).exits(1);
    home.run(&["memory", "set", "review:payments/style", "Prefer short functions and early returns", "--ttl", "90d"])
        .exits(0);
    home.run(&["memory", "set", "review:payments/last-revision", "4308dcc", "--tenant"]).exits(0);
    let prompts = ["batch", "--agent", "security-reviewer", "Review the login", "boom in the checkout of the shop"];
    // Columns that may be missing at 80 are needed at 100.
    let tables: &[(&[&str], &[&str], &[&str])] = &[
        (&["runs", "list"], &["run", "agent", "status", "cost", "prompt", "error"], &[]),
        (&["agents", "list"], &["agent", "model", "tools", "description"], &["may spawn"]),
        (&["models", "list"], &["model", "tiers", "agents", "in / 1M", "out / 1M", "key"], &["aliases"]),
        (&["skills", "list"], &["skill", "agents", "description"], &[]),
        (&["artifacts", "list", report], &["artifact", "size", "agent", "written UTC"], &["type"]),
        (&["memory", "list"], &["key", "written by", "expires UTC", "value"], &["revision"]),
        (&["memory", "search", "short functions"], &["score", "key", "value"], &[]),
        (&["replay", report], &["record", "recorded", "now"], &[]),
        (&prompts, &["#", "agent", "status", "took", "cost", "result"], &["tokens"]),
    ];
    for (arguments, always, at_100) in tables {
        for (width, needed) in [("80", always.to_vec()), ("100", [*always, *at_100].concat())] {
            let shown = home.run(&[arguments, &["--width", width][..]].concat()).stdout;
            let columns: usize = width.parse().expect("a number");
            let header = shown.lines().next().unwrap_or_default();
            let titles: Vec<&str> = header.split("  ").map(str::trim).filter(|title| !title.is_empty()).collect();
            for title in &needed {
                assert!(titles.contains(title), "{title:?} is missing at {width}:\n{shown}");
            }
            let table = shown.lines().take_while(|line| !line.is_empty());
            for line in table {
                assert!(unicode_width::UnicodeWidthStr::width(line) <= columns, "{line:?} is too long:\n{shown}");
            }
        }
    }
}
