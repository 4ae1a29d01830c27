//! The tools of this process: the built-in ones, and those of sources that must be asked first.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use drawloom_contract::{
    definition::{matches, may_mean},
    tool::{Offer, Tool, ToolCard, ToolSource},
};

/// Most remarks of one source that a run is told.
const MOST_REMARKS: usize = 8;

/// The tools of this process.
pub(crate) struct Toolbox {
    built_in: Known,
    sources: Vec<Arc<dyn ToolSource>>,
    asked: RwLock<Asked>,
}

type Known = BTreeMap<String, (Arc<dyn Tool>, ToolCard)>;

/// What the sources offered when they were last asked.
struct Asked {
    /// Raised with every change, so that what was made of an older state is known to be old.
    generation: u64,
    offers: Vec<Option<Arc<Offer>>>,
    tools: Known,
}

impl Toolbox {
    pub(crate) fn new(tools: &[Arc<dyn Tool>], sources: &[Arc<dyn ToolSource>]) -> Self {
        Self {
            built_in: known(tools),
            sources: sources.to_vec(),
            asked: RwLock::new(Asked { generation: 0, offers: vec![None; sources.len()], tools: Known::new() }),
        }
    }

    /// Asks the sources that the patterns may mean, all at once; `narrowed` is what a request leaves of them. Without such
    /// a pattern it returns at once.
    pub(crate) async fn ask(&self, patterns: &[String], narrowed: Option<&[String]>) {
        let meant = self.sources.iter().enumerate().filter(|(_, source)| is_meant(source.prefix(), patterns, narrowed));
        let offers = futures::future::join_all(meant.map(async |(index, source)| (index, source.offer().await))).await;
        for (index, offer) in offers {
            self.take_in(index, offer);
        }
    }

    /// What the patterns do not get of the sources that were asked.
    pub(crate) fn missing(&self, patterns: &[String], narrowed: Option<&[String]>) -> Vec<String> {
        let asked = self.asked();
        let offers = self.sources.iter().zip(&asked.offers);
        let meant = offers.filter(|(source, _)| is_meant(source.prefix(), patterns, narrowed));
        meant
            .filter_map(|(source, offer)| Some((source, offer.as_ref()?)))
            .flat_map(|(source, offer)| missing(patterns, source.prefix(), offer))
            .collect()
    }

    fn take_in(&self, index: usize, offer: Arc<Offer>) {
        let mut asked = self.asked.write().unwrap_or_else(PoisonError::into_inner);
        if asked.offers[index].as_ref().is_some_and(|before| Arc::ptr_eq(before, &offer)) {
            return;
        }
        let prefix = self.sources[index].prefix();
        asked.tools.retain(|name, _| !name.starts_with(prefix));
        asked.tools.extend(known(&offer.tools).into_iter().filter(|(name, _)| !self.built_in.contains_key(name)));
        asked.offers[index] = Some(offer);
        asked.generation += 1;
    }

    fn asked(&self) -> RwLockReadGuard<'_, Asked> {
        self.asked.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the state that the answers of the other methods come from.
    pub(crate) fn generation(&self) -> u64 {
        self.asked().generation
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        if let Some((tool, _)) = self.built_in.get(name) {
            return Some(tool.clone());
        }
        self.asked().tools.get(name).map(|(tool, _)| tool.clone())
    }

    /// Names that one of the patterns allows, in order.
    pub(crate) fn allowed(&self, patterns: &[String]) -> Vec<String> {
        let asked = self.asked();
        let names = self.built_in.keys().chain(asked.tools.keys());
        let mut names: Vec<String> =
            names.filter(|name| patterns.iter().any(|pattern| matches(pattern, name))).cloned().collect();
        names.sort_unstable();
        names
    }

    /// The cards of those of `names` that there are.
    pub(crate) fn cards(&self, names: &[String]) -> Arc<[ToolCard]> {
        let asked = self.asked();
        let card = |name: &String| self.built_in.get(name).or_else(|| asked.tools.get(name)).map(|(_, card)| card);
        names.iter().filter_map(card).cloned().collect()
    }
}

fn known(tools: &[Arc<dyn Tool>]) -> Known {
    tools.iter().map(|tool| (tool.card(), tool)).map(|(card, tool)| (card.name.clone(), (tool.clone(), card))).collect()
}

/// Whether the patterns, and what a request leaves of them, can mean a tool whose name begins with `prefix`.
fn is_meant(prefix: &str, patterns: &[String], narrowed: Option<&[String]>) -> bool {
    let mean = |patterns: &[String]| patterns.iter().any(|pattern| may_mean(pattern, prefix));
    mean(patterns) && narrowed.is_none_or(mean)
}

/// What those patterns that mean the source do not get of it.
fn missing(patterns: &[String], prefix: &str, offer: &Offer) -> Vec<String> {
    if let Some(why) = &offer.unavailable {
        return vec![format!("tools: `{prefix}*` are missing: {why}")];
    }
    let has = |name: &str| offer.tools.iter().any(|tool| tool.card().name == name);
    let remarked = |name: &str| offer.remarks.iter().any(|remark| remark.tool == name);
    let mut warnings: Vec<String> = patterns
        .iter()
        .filter(|pattern| pattern.starts_with(prefix) && !pattern.ends_with('*') && !has(pattern) && !remarked(pattern))
        .map(|name| {
            format!("tools: `{name}` is missing: the server has no such tool, or the operator's filter hides it")
        })
        .collect();
    let is_meant = |tool: &str| tool == prefix || patterns.iter().any(|pattern| matches(pattern, tool));
    let remarks: Vec<_> = offer.remarks.iter().filter(|remark| is_meant(&remark.tool)).collect();
    warnings.extend(remarks.iter().take(MOST_REMARKS).map(|remark| format!("tools: {}", remark.text)));
    if remarks.len() > MOST_REMARKS {
        let more = remarks.len() - MOST_REMARKS;
        warnings.push(format!("tools: {more} more remarks about `{prefix}*`; `drawloom doctor` shows more of them"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_asked_only_when_a_pattern_can_mean_it() {
        let means = |pattern: &str| is_meant("mcp__files__", &[pattern.to_owned()], None);
        assert!(means("*") && means("mcp__*") && means("mcp__files__*") && means("mcp__files__re*"));
        assert!(means("mcp__files__read"));
        assert!(!is_meant("mcp__files__", &["*".to_owned()], Some(&["Read".to_owned()])));
        assert!(!means("Read") && !means("mcp__other__*") && !means("mcp__files") && !means("R*"));
    }

    #[test]
    fn what_a_source_does_not_offer_is_said() {
        let remark = |tool: &str, text: &str| drawloom_contract::tool::Remark { tool: tool.into(), text: text.into() };
        let offer = Offer { remarks: vec![remark("mcp__a__bad", "its schema lies")], ..Offer::default() };
        let said = |patterns: &[&str], offer: &Offer| {
            missing(&patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), "mcp__a__", offer)
        };
        assert_eq!(said(&["mcp__a__*"], &offer), ["tools: its schema lies"]);
        assert_eq!(said(&["mcp__a__bad"], &offer), ["tools: its schema lies"]);
        assert_eq!(said(&["mcp__a__x*"], &offer), Vec::<String>::new());
        assert_eq!(
            said(&["mcp__a__gone"], &offer),
            ["tools: `mcp__a__gone` is missing: the server has no such tool, or the operator's filter hides it"]
        );
        let down = Offer { unavailable: Some("it is down".into()), ..Offer::default() };
        assert_eq!(said(&["mcp__a__x"], &down), ["tools: `mcp__a__*` are missing: it is down"]);
    }
}
