//! The models of Claude Code's agents, as tiers or as models of a provider.

use std::collections::BTreeSet;

use drawloom_models::Driver;
use serde_json::{Value, json};

use super::{map::Target, report::Note};

/// What an agent says about its model.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Chosen {
    pub(super) fields: Vec<(&'static str, Value)>,
    pub(super) note: Option<Note>,
}

/// Families of Claude models, and the tiers that stand for them.
const FAMILIES: [(&str, &str); 5] =
    [("opus", "high"), ("fable", "high"), ("mythos", "high"), ("sonnet", "middle"), ("haiku", "low")];

/// Beginnings of models' names, and who makes them.
const MAKERS: [(&str, Driver); 7] = [
    ("claude-", Driver::Anthropic),
    ("gpt-", Driver::Openai),
    ("o1", Driver::Openai),
    ("o3", Driver::Openai),
    ("o4", Driver::Openai),
    ("chatgpt-", Driver::Openai),
    ("deepseek-", Driver::Deepseek),
];

/// Maps `model`. Tiers that the config does not have are collected in `tiers` when it can get them.
pub(super) fn choose(model: Option<&str>, target: &Target, tiers: &mut BTreeSet<&'static str>) -> Chosen {
    let Some(said) = model.map(str::trim).filter(|model| !model.is_empty()) else {
        return usual(target, tiers, None);
    };
    // `sonnet[1m]` asks for a larger window, which the model's own name decides here.
    let name = said.split('[').next().unwrap_or(said).trim().to_lowercase();
    let name = name.strip_prefix("anthropic/").or_else(|| name.strip_prefix("anthropic.")).unwrap_or(&name);
    if matches!(name, "inherit" | "default" | "auto" | "") {
        let reason = match target.has_defaults {
            true => "the model of `defaults`; a run inherits no model from a session",
            false => "a run inherits no model from a session, and the config has no `defaults`",
        };
        return usual(target, tiers, Some((said, reason)));
    }
    if target.aliases.contains(said) {
        return Chosen {
            fields: vec![("model", json!(said))],
            note: Some(Note::mapped("model", format!("model: {said}"))),
        };
    }
    let family = FAMILIES.iter().find(|(family, _)| name == *family || name == "opusplan" && *family == "opus");
    if let Some((_, tier)) = family {
        return with_tier(
            tier,
            said,
            "model",
            "a name of Claude Code; `tiers` says which model that is",
            target,
            tiers,
        );
    }
    let maker = MAKERS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, driver)| *driver);
    let provider = maker.and_then(|driver| target.drivers.iter().find(|(_, known)| **known == driver));
    if let Some((provider, _)) = provider {
        let fields = vec![("provider", json!(provider)), ("model", json!(said))];
        return Chosen { fields, note: Some(Note::mapped("model", format!("provider: {provider}, model: {said}"))) };
    }
    if let Some((_, tier)) = FAMILIES.iter().find(|(family, _)| name.contains(family)) {
        let reason = "no provider of the config has this model; the tier stands for its family";
        return with_tier(tier, said, "model", reason, target, tiers);
    }
    let mut chosen = usual(target, tiers, None);
    chosen.note = Some(Note::dropped("model", said, "no provider of the config is known to have this model"));
    chosen
}

fn with_tier(
    tier: &'static str,
    said: &str,
    field: &str,
    reason: &str,
    target: &Target,
    tiers: &mut BTreeSet<&'static str>,
) -> Chosen {
    if !target.tiers.contains(tier) {
        if !target.may_add_tiers {
            let mut chosen = usual(target, tiers, None);
            let reason = format!("the config has no candidates under `tiers.{tier}`; add them to use that tier");
            chosen.note = Some(Note::dropped(field, said, reason));
            return chosen;
        }
        tiers.insert(tier);
    }
    let note = Note::translated(field, said, format!("tier: {tier}"), reason);
    Chosen { fields: vec![("tier", json!(tier))], note: Some(note) }
}

/// No model of its own: `defaults` decides, or else the tier in the middle.
fn usual(target: &Target, tiers: &mut BTreeSet<&'static str>, said: Option<(&str, &str)>) -> Chosen {
    let tier = (!target.has_defaults && (target.may_add_tiers || target.tiers.contains("middle"))).then_some("middle");
    if let Some(tier) = tier.filter(|tier| !target.tiers.contains(*tier)) {
        tiers.insert(tier);
    }
    let fields = tier.map(|tier| vec![("tier", json!(tier))]).unwrap_or_default();
    let becomes = tier.map_or("no `model`".to_owned(), |tier| format!("tier: {tier}"));
    let note = match (said, tier) {
        (Some((said, reason)), _) => Some(Note::translated("model", said, becomes, reason)),
        (None, Some(_)) => Some(Note::translated("model", "(absent)", becomes, "the config has no `defaults`")),
        (None, None) => None,
    };
    Chosen { fields, note }
}

/// The candidates of a tier that the config does not have yet.
pub(super) fn candidates(tier: &str, target: &Target) -> Option<Value> {
    let place = ["high", "middle", "low"].iter().position(|known| *known == tier)?;
    let makers = crate::commands::init::makers();
    // The family's own maker first; then the model that the config uses anyway.
    let claude = target.drivers.iter().find(|(_, driver)| **driver == Driver::Anthropic);
    if let (Some((provider, _)), Some((_, models))) = (claude, makers.first()) {
        return Some(json!([{ "provider": provider, "model": models[place] }]));
    }
    if let Some(defaults) = &target.defaults {
        return Some(json!([defaults]));
    }
    let known = |driver: Driver| match driver {
        Driver::Anthropic => Some("anthropic"),
        Driver::Openai => Some("openai"),
        Driver::Deepseek => Some("deepseek"),
        Driver::Script => None,
    };
    for (provider, driver) in &target.drivers {
        let Some(name) = known(*driver) else { return Some(json!([{ "provider": provider, "model": "demo" }])) };
        if let Some((_, models)) = makers.iter().find(|(maker, _)| *maker == name) {
            return Some(json!([{ "provider": provider, "model": models[place] }]));
        }
    }
    None
}
