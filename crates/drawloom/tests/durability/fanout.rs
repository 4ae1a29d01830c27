//! The run that the kill test kills: a lead that books, fans out to three workers and books again; workers that book,
//! read and write.

/// The first turn takes longer than the server holds an answer's head back, so that the test can kill the server between the
/// two. One slot, so that one run is under way at a time and each point has one expected result.
pub(crate) const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1 }
          calls: [{ tool: Ledger, input: { line: lead-begins } }]
          delay_ms: 150
        - when: { agent: lead, turn: 2 }
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns:
                  - { name: worker, prompt: slice 0 }
                  - { name: worker, prompt: slice 1 }
                  - { name: worker, prompt: slice 2 }
        - when: { agent: lead, turn: 3 }
          calls: [{ tool: Ledger, input: { line: lead-ends } }]
        - when: { agent: lead }
          text: "lead: {{last}}"
        - when: { agent: worker, turn: 1, matches: "slice (\\d)" }
          calls: [{ tool: Ledger, input: { line: "worker-{{1}}-a" } }]
        - when: { agent: worker, turn: 2, matches: "slice (\\d)" }
          calls:
            - { tool: Read, input: { path: in.txt } }
            - { tool: Write, input: { path: "out-{{1}}.txt", content: "slice {{1}}" } }
        - when: { agent: worker, turn: 3, matches: "slice (\\d)" }
          calls: [{ tool: Ledger, input: { line: "worker-{{1}}-b" } }]
        - when: { agent: worker, turn: 4, matches: "slice (\\d)" }
          calls: [{ tool: Ledger, input: { line: "worker-{{1}}-c" } }]
        - when: { agent: worker }
          text: "{{prompt}}: {{last}}"
concurrency: { max_concurrent_runs: 1 }
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  lead: { provider: script, model: m, tools: [Agent, Ledger], agents: [worker] }
  worker: { provider: script, model: m, tools: [Ledger, Read, Write] }
"#;

/// Every line that the ledger must hold.
pub(crate) const LINES: [&str; 11] = [
    "lead-begins",
    "lead-ends",
    "worker-0-a",
    "worker-0-b",
    "worker-0-c",
    "worker-1-a",
    "worker-1-b",
    "worker-1-c",
    "worker-2-a",
    "worker-2-b",
    "worker-2-c",
];
