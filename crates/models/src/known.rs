//! What is known of models before they are asked, by the beginning of their names.

use drawloom_contract::{
    model::{ListedModel, ModelCard},
    money::{Cost, Price},
};

use crate::{Capabilities, Driver};

/// What is known of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// Tokens that fit.
    pub(crate) context: Option<u64>,
    /// Whether it can call tools.
    pub(crate) tools: Option<bool>,
    /// Output tokens of a turn, unless the agent says otherwise.
    pub(crate) max_tokens: u32,
    pub(crate) thinking: Thinking,
    /// Whether it thinks by default and a request must turn that off.
    pub(crate) thinking_disabled: bool,
    pub(crate) sampling: SamplingSupport,
    pub(crate) vision: bool,
    /// Whether the provider keeps a cache of what it has read.
    pub(crate) cache: bool,
    /// Whether several calls in one turn may be asked for; nothing is said of it when absent.
    pub(crate) parallel_calls: Option<bool>,
    pub(crate) price: Option<Price>,
    /// Whether the model stands in the table.
    pub(crate) listed: bool,
}

/// How a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// Not at all, or the way to ask for it is unknown.
    Never,
    /// When it is given a number of tokens for it.
    Budget,
    /// When asked to, as much as it finds right.
    Adaptive,
    /// Always, unless that can be turned off.
    Always,
    /// Always, but Chat Completions takes no tools then: with tools on offer thinking must be turned off.
    NotWithTools,
}

/// Which sampling settings a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SamplingSupport {
    /// All that its API has.
    All,
    /// `temperature` or `top_p`, not both.
    One,
    /// None; they are left out.
    None,
}

pub(crate) struct Row {
    pub(crate) prefix: &'static str,
    pub(crate) context: u64,
    max_tokens: u32,
    thinking: Thinking,
    sampling: SamplingSupport,
    vision: bool,
    /// Dollars a million tokens: input, output, cache write, cache read.
    pub(crate) price: Option<[f64; 4]>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of known models shows it"))]
    pub(crate) checked: Checked,
}

/// The day on which a row was last compared with what others say, and who they are.
type Checked = (&'static str, &'static str);

const CLAUDE_PAGES: Checked = ("2026-11-19", "platform.claude.com/docs: models, pricing");
/// A page of the vendor that someone quotes; the page itself was not seen.
const QUOTED_CLAUDE: Checked = ("2026-11-19", "quoted from platform.claude.com/docs: pricing");
const OPENAI_PAGES: Checked = ("2026-11-19", "developers.openai.com/api/docs/models");
const DEEPSEEK_PAGES: Checked = ("2026-11-19", "api-docs.deepseek.com/quick_start/pricing");
const LITELLM: Checked = ("2026-11-19", "github.com/BerriAI/litellm: model_prices_and_context_window.json");
const MODELS_DEV: Checked = ("2026-11-19", "github.com/anomalyco/models.dev: providers");
const QUOTED: Checked = ("2026-11-19", "several who quote developers.openai.com/api/docs/models");
const NOT_FOUND: Checked = ("2026-11-16", "not found again on 2026-11-19: DeepSeek has retired the name");

impl Row {
    /// The models of a driver; the first prefix that fits counts.
    pub(crate) fn of(driver: Driver) -> &'static [Self] {
        match driver {
            Driver::Anthropic => CLAUDE,
            Driver::Openai => OPENAI,
            Driver::Deepseek => DEEPSEEK,
            Driver::Script => &[],
        }
    }
}

const fn row(
    prefix: &'static str,
    context: u64,
    max_tokens: u32,
    (thinking, sampling): (Thinking, SamplingSupport),
    price: Option<[f64; 4]>,
    checked: Checked,
) -> Row {
    Row { prefix, context, max_tokens, thinking, sampling, vision: true, price, checked }
}

const fn blind(mut row: Row) -> Row {
    row.vision = false;
    row
}

const MILLION: u64 = 1_000_000;
const PLAIN: (Thinking, SamplingSupport) = (Thinking::Never, SamplingSupport::All);
const BUDGET: (Thinking, SamplingSupport) = (Thinking::Budget, SamplingSupport::One);
const BUDGET_ALL: (Thinking, SamplingSupport) = (Thinking::Budget, SamplingSupport::All);
const ADAPTIVE: (Thinking, SamplingSupport) = (Thinking::Adaptive, SamplingSupport::None);
const ADAPTIVE_ONE: (Thinking, SamplingSupport) = (Thinking::Adaptive, SamplingSupport::One);
const ALWAYS: (Thinking, SamplingSupport) = (Thinking::Always, SamplingSupport::None);
const ALWAYS_ALL: (Thinking, SamplingSupport) = (Thinking::Always, SamplingSupport::All);
const NOT_WITH_TOOLS: (Thinking, SamplingSupport) = (Thinking::NotWithTools, SamplingSupport::None);

/// Claude models; the first prefix that fits counts. Prices in dollars: those that the models' pages list, for the
/// five-minute cache. A row that fits models of very different prices has none, nor has Haiku 5.5, which costs five
/// times as much for prompts over 100,000 tokens.
const CLAUDE: &[Row] = &[
    row("claude-fable-5-2", MILLION, 16_384, ALWAYS, Some([8.0, 40.0, 10.0, 0.2]), QUOTED_CLAUDE),
    row("claude-fable-5-1", MILLION, 16_384, ALWAYS, Some([10.0, 50.0, 12.5, 0.25]), CLAUDE_PAGES),
    row("claude-fable", MILLION, 16_384, ALWAYS, None, CLAUDE_PAGES),
    row("claude-mythos", MILLION, 16_384, ALWAYS, None, CLAUDE_PAGES),
    row("claude-opus-5-5", MILLION, 16_384, ALWAYS, Some([4.0, 20.0, 5.0, 0.2]), CLAUDE_PAGES),
    row("claude-opus-5", MILLION, 16_384, ADAPTIVE, Some([5.0, 25.0, 6.25, 0.5]), CLAUDE_PAGES),
    row("claude-sonnet-5-5", MILLION, 16_384, ADAPTIVE, Some([2.0, 10.0, 2.5, 0.1]), CLAUDE_PAGES),
    row("claude-sonnet-5", MILLION, 16_384, ADAPTIVE, Some([2.0, 10.0, 2.5, 0.2]), CLAUDE_PAGES),
    row("claude-haiku-5", MILLION, 16_384, ADAPTIVE, None, CLAUDE_PAGES),
    row("claude-opus-4-8", MILLION, 16_384, ADAPTIVE, Some([5.0, 25.0, 6.25, 0.5]), CLAUDE_PAGES),
    row("claude-opus-4-7", MILLION, 16_384, ADAPTIVE, Some([5.0, 25.0, 6.25, 0.5]), CLAUDE_PAGES),
    row("claude-opus-4-6", MILLION, 16_384, ADAPTIVE_ONE, Some([5.0, 25.0, 6.25, 0.5]), CLAUDE_PAGES),
    row("claude-sonnet-4-6", MILLION, 16_384, ADAPTIVE_ONE, Some([3.0, 15.0, 3.75, 0.3]), CLAUDE_PAGES),
    row("claude-opus-4-5", 200_000, 16_384, BUDGET, Some([5.0, 25.0, 6.25, 0.5]), CLAUDE_PAGES),
    row("claude-opus-4", 200_000, 16_384, BUDGET, Some([15.0, 75.0, 18.75, 1.5]), CLAUDE_PAGES),
    row("claude-sonnet-4", 200_000, 16_384, BUDGET, Some([3.0, 15.0, 3.75, 0.3]), CLAUDE_PAGES),
    row("claude-haiku-4-5", 200_000, 16_384, BUDGET, Some([1.0, 5.0, 1.25, 0.1]), CLAUDE_PAGES),
    row("claude-3-7-sonnet", 200_000, 8_192, BUDGET_ALL, Some([3.0, 15.0, 3.75, 0.3]), MODELS_DEV),
    row("claude-3-5-haiku", 200_000, 8_192, PLAIN, Some([0.8, 4.0, 1.0, 0.08]), MODELS_DEV),
];

/// OpenAI's models; the first prefix that fits counts. Prices in dollars, of the standard tier and of conversations
/// under 272,000 tokens; longer ones cost up to twice as much. A row that fits models of very different prices has
/// none. Where no price of cached input is listed, it is that of input. Models from gpt-5.5 on that are `ALWAYS` cannot
/// be told not to think; OpenAI itself takes tools for them over Responses only.
const OPENAI: &[Row] = &[
    row("gpt-6.2-astra", 1_050_000, 16_384, ALWAYS, Some([8.0, 40.0, 10.0, 0.4]), QUOTED),
    row("gpt-6.2-sol", 1_050_000, 16_384, ALWAYS, Some([2.0, 10.0, 2.5, 0.1]), OPENAI_PAGES),
    row("gpt-6.2", 1_050_000, 16_384, ALWAYS, None, OPENAI_PAGES),
    row("gpt-6-astra", 1_050_000, 16_384, ALWAYS, Some([10.0, 50.0, 12.5, 1.0]), OPENAI_PAGES),
    row("gpt-6.1-sol", 1_050_000, 16_384, ALWAYS, Some([2.0, 10.0, 2.5, 0.1]), QUOTED),
    row("gpt-6.1-terra", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([1.0, 5.0, 1.25, 0.05]), LITELLM),
    row("gpt-6.1", 1_050_000, 16_384, NOT_WITH_TOOLS, None, QUOTED),
    row("gpt-6-sol", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([2.0, 10.0, 2.5, 0.2]), QUOTED),
    row("gpt-6-luna", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([0.1, 0.5, 0.125, 0.01]), OPENAI_PAGES),
    row("gpt-5.6-sol", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([4.0, 20.0, 5.0, 0.4]), OPENAI_PAGES),
    row("gpt-5.6-terra", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([2.0, 12.0, 2.5, 0.2]), QUOTED),
    row("gpt-5.6-luna", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([0.2, 1.2, 0.25, 0.02]), QUOTED),
    row("gpt-5.6", 1_050_000, 16_384, NOT_WITH_TOOLS, None, OPENAI_PAGES),
    row("gpt-5.5-pro", 1_050_000, 16_384, ALWAYS, Some([30.0, 180.0, 30.0, 3.0]), LITELLM),
    row("gpt-5.5", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([5.0, 30.0, 5.0, 0.5]), LITELLM),
    row("gpt-5.4-mini", 400_000, 16_384, NOT_WITH_TOOLS, Some([0.75, 4.5, 0.75, 0.075]), LITELLM),
    row("gpt-5.4-nano", 400_000, 16_384, NOT_WITH_TOOLS, Some([0.2, 1.25, 0.2, 0.02]), OPENAI_PAGES),
    row("gpt-5.4-pro", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([30.0, 180.0, 30.0, 3.0]), LITELLM),
    row("gpt-5.4", 1_050_000, 16_384, NOT_WITH_TOOLS, Some([2.5, 15.0, 2.5, 0.25]), LITELLM),
    row("gpt-5.3-chat", 128_000, 16_384, PLAIN, Some([1.75, 14.0, 1.75, 0.175]), OPENAI_PAGES),
    row("gpt-5.3", 400_000, 16_384, ALWAYS, Some([1.75, 14.0, 1.75, 0.175]), LITELLM),
    row("gpt-5.2-chat", 128_000, 16_384, PLAIN, Some([1.75, 14.0, 1.75, 0.175]), LITELLM),
    row("gpt-5.2-pro", 400_000, 16_384, ALWAYS, Some([21.0, 168.0, 21.0, 21.0]), LITELLM),
    row("gpt-5.2", 400_000, 16_384, ALWAYS, Some([1.75, 14.0, 1.75, 0.175]), LITELLM),
    row("gpt-5.1-chat", 128_000, 16_384, PLAIN, Some([1.25, 10.0, 1.25, 0.125]), LITELLM),
    row("gpt-5.1", 400_000, 16_384, ALWAYS, Some([1.25, 10.0, 1.25, 0.125]), LITELLM),
    row("gpt-5-chat", 128_000, 16_384, PLAIN, Some([1.25, 10.0, 1.25, 0.125]), MODELS_DEV),
    row("gpt-5-mini", 400_000, 16_384, ALWAYS, Some([0.25, 2.0, 0.25, 0.025]), LITELLM),
    row("gpt-5-nano", 400_000, 16_384, ALWAYS, Some([0.05, 0.4, 0.05, 0.005]), OPENAI_PAGES),
    row("gpt-5-pro", 400_000, 16_384, ALWAYS, Some([15.0, 120.0, 15.0, 15.0]), OPENAI_PAGES),
    row("gpt-5", 400_000, 16_384, ALWAYS, Some([1.25, 10.0, 1.25, 0.125]), MODELS_DEV),
    row("gpt-6", 1_050_000, 16_384, ALWAYS, None, OPENAI_PAGES),
    row("gpt-4.1-mini", 1_047_576, 16_384, PLAIN, Some([0.4, 1.6, 0.4, 0.1]), LITELLM),
    row("gpt-4.1-nano", 1_047_576, 16_384, PLAIN, Some([0.1, 0.4, 0.1, 0.025]), OPENAI_PAGES),
    row("gpt-4.1", 1_047_576, 16_384, PLAIN, Some([2.0, 8.0, 2.0, 0.5]), LITELLM),
    row("gpt-4o-mini", 128_000, 16_384, PLAIN, Some([0.15, 0.6, 0.15, 0.075]), LITELLM),
    row("gpt-4o", 128_000, 16_384, PLAIN, Some([2.5, 10.0, 2.5, 1.25]), LITELLM),
    row("o4-mini-deep", 200_000, 16_384, ALWAYS, Some([2.0, 8.0, 2.0, 0.5]), LITELLM),
    row("o4-mini", 200_000, 16_384, ALWAYS, Some([1.1, 4.4, 1.1, 0.275]), LITELLM),
    row("o3-deep", 200_000, 16_384, ALWAYS, Some([10.0, 40.0, 10.0, 2.5]), LITELLM),
    row("o3-pro", 200_000, 16_384, ALWAYS, Some([20.0, 80.0, 20.0, 20.0]), LITELLM),
    blind(row("o3-mini", 200_000, 16_384, ALWAYS, Some([1.1, 4.4, 1.1, 0.55]), LITELLM)),
    row("o3", 200_000, 16_384, ALWAYS, Some([2.0, 8.0, 2.0, 0.5]), LITELLM),
    row("o1-pro", 200_000, 16_384, ALWAYS, Some([150.0, 600.0, 150.0, 150.0]), LITELLM),
    row("o1", 200_000, 16_384, ALWAYS, Some([15.0, 60.0, 15.0, 7.5]), MODELS_DEV),
];

/// DeepSeek's models; the first prefix that fits counts. Prices in dollars, of the peak hours: at other hours it is
/// half.
const DEEPSEEK: &[Row] = &[
    blind(row("deepseek-v4-pro", MILLION, 16_384, ALWAYS_ALL, Some([1.32, 3.96, 1.32, 0.044]), DEEPSEEK_PAGES)),
    row("deepseek-v4-flash", MILLION, 16_384, ALWAYS_ALL, Some([0.3, 1.2, 0.3, 0.006]), DEEPSEEK_PAGES),
    row("deepseek-flash", MILLION, 16_384, ALWAYS_ALL, Some([0.3, 1.2, 0.3, 0.006]), DEEPSEEK_PAGES),
    blind(row("deepseek-reasoner", 128_000, 16_384, ALWAYS_ALL, None, NOT_FOUND)),
    blind(row("deepseek-chat", 128_000, 8_192, PLAIN, None, NOT_FOUND)),
];

/// What the name of a DeepSeek model ends with when it is asked not to think: our own name for a sibling that its API
/// has as a switch.
pub(crate) const PLAIN_SUFFIX: &str = ":plain";

impl Known {
    /// What is known of `model`, with the capabilities that the config gives to the provider's models.
    pub(crate) fn of(driver: Driver, model: &str, capabilities: &Capabilities) -> Self {
        let rows = Row::of(driver);
        // Gateways put the maker in front: `anthropic/claude-…`.
        let name = model.rsplit('/').next().unwrap_or(model);
        let mut known = match rows.iter().find(|row| name.starts_with(row.prefix)) {
            Some(row) => Self::listed(row),
            None => Self::unlisted(),
        };
        known.cache = driver != Driver::Script;
        if driver == Driver::Openai && known.thinking == Thinking::Always && name.starts_with('o') {
            known.parallel_calls = None;
        }
        if model.ends_with(PLAIN_SUFFIX) {
            known.disable_thinking();
        }
        known.configured(driver, capabilities)
    }

    fn listed(row: &Row) -> Self {
        let cost = |dollars: f64| Cost::from_units(dollars).unwrap_or_default();
        Self {
            context: Some(row.context),
            tools: Some(true),
            max_tokens: row.max_tokens,
            thinking: row.thinking,
            thinking_disabled: false,
            sampling: row.sampling,
            vision: row.vision,
            cache: true,
            parallel_calls: Some(true),
            price: row.price.map(|[input, output, write, read]| Price {
                input: cost(input),
                output: cost(output),
                cache_write: cost(write),
                cache_read: cost(read),
            }),
            listed: true,
        }
    }

    /// A model that is not in the table. It gets images, and may refuse them.
    fn unlisted() -> Self {
        Self {
            context: None,
            tools: None,
            max_tokens: 8_192,
            thinking: Thinking::Never,
            thinking_disabled: false,
            sampling: SamplingSupport::All,
            vision: true,
            cache: true,
            parallel_calls: Some(true),
            price: None,
            listed: false,
        }
    }

    fn disable_thinking(&mut self) {
        self.thinking_disabled |= matches!(self.thinking, Thinking::Adaptive | Thinking::Always);
        self.thinking = Thinking::Never;
    }

    fn configured(mut self, driver: Driver, capabilities: &Capabilities) -> Self {
        match (capabilities.supports_thinking, self.thinking, driver) {
            (Some(false), _, _) => self.disable_thinking(),
            (Some(true), Thinking::Never, Driver::Anthropic) => self.thinking = Thinking::Budget,
            (Some(true), Thinking::Never, _) => self.thinking = Thinking::Always,
            (Some(true), _, _) | (None, _, _) => {}
        }
        self.vision = capabilities.supports_vision.unwrap_or(self.vision);
        self.cache = capabilities.native_prompt_cache.unwrap_or(self.cache);
        self.parallel_calls = capabilities.parallel_tool_calls.or(self.parallel_calls);
        self.context = capabilities.max_context_tokens.or(self.context);
        self.tools = capabilities.supports_tools.or(self.tools);
        self
    }

    /// The same with what the provider says of the model, where the config says nothing.
    pub(crate) fn looked_up(mut self, found: &ListedModel, capabilities: &Capabilities) -> Self {
        self.context = capabilities.max_context_tokens.or(found.context_tokens).or(self.context);
        self.tools = capabilities.supports_tools.or(found.takes_tools).or(self.tools);
        self.price = found.price.or(self.price);
        self
    }

    /// The card that others see.
    pub(crate) fn card(&self, driver: Driver, model: &str) -> ModelCard {
        let demands_reasoning = driver == Driver::Deepseek && self.thinking == Thinking::Always;
        let sibling = || match model.strip_suffix("-reasoner") {
            Some(family) => format!("{family}-chat"),
            None => format!("{model}{PLAIN_SUFFIX}"),
        };
        // A small model needs room for the question too.
        let half = self.context.and_then(|context| u32::try_from((context / 2).max(1)).ok()).unwrap_or(u32::MAX);
        ModelCard {
            counts_tools: true,
            context_tokens: self.context,
            max_tokens: self.max_tokens.min(half),
            takes_tools: self.tools,
            thinks: self.thinking != Thinking::Never,
            thinks_with_tools: !matches!(self.thinking, Thinking::Never | Thinking::NotWithTools),
            vision: self.vision,
            native_cache: self.cache,
            plain_sibling: demands_reasoning.then(sibling),
            price: self.price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(driver: Driver, model: &str) -> Known {
        Known::of(driver, model, &Capabilities::default())
    }

    #[test]
    fn each_row_of_the_tables_can_be_reached() {
        for (driver, rows) in [(Driver::Anthropic, CLAUDE), (Driver::Openai, OPENAI), (Driver::Deepseek, DEEPSEEK)] {
            for row in rows {
                let found = rows.iter().find(|other| row.prefix.starts_with(other.prefix)).expect("itself at least");
                assert_eq!(found.prefix, row.prefix, "an earlier row hides it");
                assert!(known(driver, row.prefix).listed);
            }
        }
    }

    #[test]
    fn each_row_says_when_and_where_it_was_checked() {
        for row in [CLAUDE, OPENAI, DEEPSEEK].into_iter().flatten() {
            let (day, source) = row.checked;
            assert_eq!(day.replace(|digit: char| digit.is_ascii_digit(), "0"), "0000-00-00", "{}", row.prefix);
            assert!(!source.is_empty(), "{}", row.prefix);
        }
    }

    #[test]
    fn models_are_found_by_how_their_names_begin() {
        assert_eq!(known(Driver::Anthropic, "claude-sonnet-4-5-20250929").thinking, Thinking::Budget);
        assert_eq!(known(Driver::Anthropic, "anthropic/claude-opus-5").thinking, Thinking::Adaptive);
        assert_eq!(known(Driver::Anthropic, "claude-opus-5-5").thinking, Thinking::Always);
        assert_eq!(known(Driver::Openai, "gpt-5.4-mini-2026-03-17").thinking, Thinking::NotWithTools);
        assert_eq!(known(Driver::Openai, "o3-2025-04-16").parallel_calls, None);
        let strange = known(Driver::Openai, "smollm2");
        assert_eq!((strange.listed, strange.price, strange.thinking), (false, None, Thinking::Never));
    }

    #[test]
    fn a_model_that_demands_its_own_reasoning_names_a_sibling_that_does_not() {
        let sibling = |driver, model: &str| known(driver, model).card(driver, model).plain_sibling;
        assert_eq!(sibling(Driver::Deepseek, "deepseek-v4-pro").as_deref(), Some("deepseek-v4-pro:plain"));
        assert_eq!(sibling(Driver::Deepseek, "deepseek-reasoner").as_deref(), Some("deepseek-chat"));
        assert_eq!(sibling(Driver::Deepseek, "deepseek-v4-pro:plain"), None);
        assert_eq!(sibling(Driver::Anthropic, "claude-opus-5"), None);
        let plain = known(Driver::Deepseek, "deepseek-v4-pro:plain");
        assert_eq!(plain.price, known(Driver::Deepseek, "deepseek-v4-pro").price);
    }

    #[test]
    fn what_the_operator_says_wins() {
        let capabilities = Capabilities {
            supports_thinking: Some(true),
            supports_vision: Some(false),
            native_prompt_cache: Some(false),
            parallel_tool_calls: Some(false),
            supports_tools: Some(false),
            max_context_tokens: Some(4_096),
        };
        let configured = Known::of(Driver::Anthropic, "local", &capabilities);
        assert_eq!((configured.thinking, configured.vision, configured.cache), (Thinking::Budget, false, false));
        assert_eq!((configured.parallel_calls, configured.context), (Some(false), Some(4_096)));
        let silent = Capabilities { supports_thinking: Some(false), ..Capabilities::default() };
        assert_eq!(Known::of(Driver::Openai, "gpt-5", &silent).thinking, Thinking::Never);
        let thinking_disabled = Known::of(Driver::Deepseek, "deepseek-flash", &silent);
        assert_eq!((thinking_disabled.thinking, thinking_disabled.thinking_disabled), (Thinking::Never, true));
        assert_eq!(thinking_disabled.card(Driver::Deepseek, "deepseek-flash").plain_sibling, None);
    }
}
