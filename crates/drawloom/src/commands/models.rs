//! `drawloom models`: the models that agents can ask.

use clap::Subcommand;

use drawloom_wire::{
    models::{Key, ListModels, ListedModel, Model, ModelList, ModelPrice},
    runs::Amount,
};

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Output, Style, Text, count, money},
};

/// List models
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List models with their tiers, context size and prices
    #[command(visible_alias = "ls")]
    List {
        /// List the models of this provider instead: one call with its key
        #[arg(long, value_name = "PROVIDER")]
        remote: Option<String>,
        #[command(flatten)]
        ids: Quiet,
        /// The format of the output.
        #[command(flatten)]
        look: Look,
    },
}

impl Models {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List { look, .. } => *look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self::List { remote, ids, .. } = self;
        let ask = ListModels { remote: remote.clone() };
        // Listing reads the config; asking a provider sends it a key.
        let need = if remote.is_some() { Need::Engine(Execution::default()) } else { Need::Config };
        let list = connect::with(session, "models list", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match (output.format(), &list.remote) {
            (Format::Json, _) => output.json(&list),
            (Format::Human, Some(remote)) if ids.quiet => output.ids(remote.iter().map(|model| &model.id)),
            (Format::Human, None) if ids.quiet => {
                output.ids(list.models.iter().map(|model| format!("{}/{}", model.provider, model.model)));
            }
            (Format::Human, Some(remote)) => show_remote(output, remote),
            (Format::Human, None) => show(output, &list),
        }
        Ok(Exit::Done)
    }
}

/// What a provider has, with what it says of it.
fn show_remote(output: &Output, remote: &[ListedModel]) {
    let name = |model: &ListedModel| Text::new(&model.id).style(Style::Bold);
    let title = |model: &ListedModel| Text::new(model.title.clone().unwrap_or_default());
    let says_more = |model: &ListedModel| model.context_tokens.is_some() || model.takes_tools.is_some();
    if !remote.iter().any(says_more) {
        let columns = [Column::new("model"), Column::new("title").shrinks_to(10).optional(1)];
        return output.table(columns, remote.iter().map(|model| [name(model), title(model)]));
    }
    let dollars = |amount: Option<Amount>| Text::new(amount.map(|amount| money(amount, "USD")).unwrap_or_default());
    let columns = [
        Column::new("model").shrinks_to(20).keeps_end(),
        Column::new("title").shrinks_to(10).optional(2),
        Column::new("context").right(),
        Column::new("tools"),
        Column::new("in / 1M").right().optional(1),
        Column::new("out / 1M").right().optional(1),
    ];
    let row = |model: &ListedModel| {
        let tools = match model.takes_tools {
            Some(true) => Text::new("yes"),
            Some(false) => Text::new("no").style(Style::Notice),
            None => Text::new("unknown").style(Style::Dim),
        };
        let context = Text::new(model.context_tokens.map(count).unwrap_or_default());
        let price = |of: fn(&ModelPrice) -> Amount| dollars(model.price.as_ref().map(of));
        [name(model), title(model), context, tools, price(|price| price.input), price(|price| price.output)]
    };
    output.table(columns, remote.iter().map(row));
}

const COLUMNS: [Column; 9] = [
    Column::new("model").shrinks_to(20).keeps_end(),
    Column::new("aliases").shrinks_to(8).optional(4),
    Column::new("tiers").shrinks_to(6),
    Column::new("agents").shrinks_to(8).optional(3),
    Column::new("context").right().optional(5),
    Column::new("thinks").optional(2),
    Column::new("in / 1M").right(),
    Column::new("out / 1M").right(),
    Column::new("key"),
];

fn show(output: &Output, list: &ModelList) {
    if list.models.is_empty() {
        output.line("no models; `drawloom init` writes a first config");
    } else {
        output.table(COLUMNS, list.models.iter().map(|model| row(list, model)));
    }
    if !list.tiers.is_empty() {
        output.line("");
        let mut rows = Vec::new();
        for (tier, candidates) in &list.tiers {
            rows.push(["all users".to_owned(), tier.clone(), candidates.join(", ")]);
        }
        for (name, user_tier) in &list.user_tiers {
            let fallback = if user_tier.fallback { "falls back" } else { "no fallback" };
            if user_tier.tiers.is_empty() {
                rows.push([format!("{name} ({fallback})"), "as above".into(), String::new()]);
            }
            for (tier, candidates) in &user_tier.tiers {
                rows.push([format!("{name} ({fallback})"), tier.clone(), candidates.join(", ")]);
            }
        }
        let columns = [Column::new("users"), Column::new("tier"), Column::new("candidates").shrinks_to(20)];
        output.table(columns, rows.iter().map(|row| row.clone().map(Text::new)));
    }
    for provider in list.providers.iter().filter(|provider| provider.key == Key::Missing) {
        let variable = provider.key_env.as_deref().unwrap_or("its API key variable");
        output.note(format!("{variable} is not set; provider {} is disabled", provider.id));
    }
}

fn row(list: &ModelList, model: &Model) -> [Text; 9] {
    let names = |names: &[String]| Text::new(names.join(", "));
    let price = |of: fn(&ModelPrice) -> Amount| match &model.price {
        Some(price) => Text::new(money(of(price), &list.currency)),
        None => Text::new("unknown").style(Style::Dim),
    };
    let provider = list.providers.iter().find(|provider| provider.id == model.provider);
    let key = match provider.map(|provider| provider.key) {
        Some(Key::Set) => Text::new("set").style(Style::Good),
        Some(Key::Missing) => Text::new("missing").style(Style::Bad),
        Some(Key::None) | None => Text::new("not needed").style(Style::Dim),
    };
    [
        Text::new(format!("{}/{}", model.provider, model.model)).style(Style::Bold),
        names(&model.aliases),
        names(&model.tiers),
        names(&model.agents),
        Text::new(model.context_tokens.map(count).unwrap_or_default()),
        match (model.thinks, model.thinks_with_tools) {
            (true, true) => Text::new("yes"),
            (true, false) => Text::new("without tools").style(Style::Notice),
            (false, _) => Text::new(""),
        },
        price(|price| price.input),
        price(|price| price.output),
        key,
    ]
}
