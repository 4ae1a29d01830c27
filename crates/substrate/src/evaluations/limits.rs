//! The limits of evaluations.

use drawloom_contract::limits::{
    Amount::{Bytes, Count},
    Limit,
};

use super::{
    MOST_DIMENSIONS, MOST_JUDGEMENT_BYTES, MOST_LISTED, MOST_NAME_BYTES, MOST_OF_AGENT, MOST_OF_DEFINITION,
    MOST_OF_RUN, MOST_OF_RUN_BYTES, MOST_PARENTS, MOST_RATIONALE_BYTES,
};

/// Every limit of evaluations.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "evaluation_judgement_bytes",
        Bytes(MOST_JUDGEMENT_BYTES as u64),
        "too_long",
        "Size of a judgement as JSON.",
    ),
    Limit::new("evaluation_rationale_bytes", Bytes(MOST_RATIONALE_BYTES as u64), "too_long", "Length of a rationale."),
    Limit::new(
        "evaluation_dimensions",
        Count(MOST_DIMENSIONS as u64),
        "too_many_dimensions",
        "Dimensions of one evaluation.",
    ),
    Limit::new(
        "evaluation_name_bytes",
        Bytes(MOST_NAME_BYTES as u64),
        "bad_name",
        "Length of a tag, and of the name of a dimension.",
    ),
    Limit::new(
        "evaluations_of_run",
        Count(MOST_OF_RUN),
        "too_many_evaluations",
        "Evaluations of one run. A tag that is submitted again replaces its evaluation and takes no more room.",
    ),
    Limit::new(
        "evaluations_of_run_bytes",
        Bytes(MOST_OF_RUN_BYTES),
        "too_many_evaluations",
        "Size of all evaluations of one run.",
    ),
    Limit::new(
        "evaluations_of_definition",
        Count(MOST_OF_DEFINITION),
        "dropped_oldest",
        "Evaluations that count for one definition. Beyond it the oldest tenth no longer counts, and the response says how many.",
    ),
    Limit::new(
        "evaluated_definitions_of_agent",
        Count(MOST_OF_AGENT),
        "warnings",
        "Definitions of one agent that its statistics list. Further ones are found by their digest, and the response says so.",
    ),
    Limit::new(
        "evaluation_lineage",
        Count(MOST_PARENTS as u64),
        "warnings",
        "Definitions in one aggregate. Further parents are left out, and the response says so.",
    ),
    Limit::new(
        "evaluations_listed",
        Count(MOST_LISTED as u64),
        "truncated",
        "Evaluations per list page; the next page has the rest.",
    ),
];
