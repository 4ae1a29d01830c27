//! The columns of a run's row: one list, from which the texts and values of insert, update and select come.
//!
//! A new column is a step in `STEPS`, a line in `columns` and its place in `read`, below.

use drawloom_contract::{
    ids::{AgentId, BatchId, Digest, RunId},
    record::{BatchPlace, Parent, Seq},
    usage::Usage,
    view::{Patch, RunView},
};

use crate::{
    convert::Json,
    prepare::Run,
    sqlite::{Error, Result, Row, Value},
};

struct Column {
    name: &'static str,
    /// How any entry changes it: a SQL expression, in which `$name` is the new value of that column.
    set: Option<&'static str>,
    /// How an entry that ends the run changes it.
    end: Option<&'static str>,
}

macro_rules! columns {
    (
        row($view:ident, $blob:ident) change($run:ident, $patch:ident)
        columns { $($columns:tt)* } texts { $($texts:tt)* }
        read { $read:expr }
    ) => {
        columns! { @names $($columns)* }
        columns! { @all ($view, $blob) ($run, $patch) ($read) $($columns)* $($texts)* }
    };
    (
        @names
        $($name:ident: $value:expr $(=> set $set:literal: $change:expr)? $(=> end $end:literal: $last:expr)?;)*
    ) => {
        /// The columns without texts, each with a comma after it.
        macro_rules! names {
            () => {
                concat!($(stringify!($name), ", "),*)
            };
        }
        pub(super) use names;
    };
    (
        @all ($view:ident, $blob:ident) ($run:ident, $patch:ident) ($read:expr)
        $($name:ident: $value:expr $(=> set $set:literal: $change:expr)? $(=> end $end:literal: $last:expr)?;)*
    ) => {
        const COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            set: [$(Some($set),)? None][0],
            end: [$(Some($end),)? None][0],
        },)*];
        const SET: usize = [$($($set,)?)*].len();
        const END: usize = [$($($end,)?)*].len();

        /// The values of a new row.
        pub(super) fn values<'a>($view: &'a RunView, $blob: Option<&'a Digest>) -> [Value<'a>; COLUMNS.len()] {
            [$(Value::from($value),)*]
        }

        /// The values of [`advance`].
        pub(super) fn changes<'a>($run: &'a Run, $patch: &'a Patch) -> [Value<'a>; 3 + SET] {
            [(&$run.key.tenant).into(), (&$run.key.run).into(), $run.expected.into(), $($(Value::from($change),)?)*]
        }

        /// The values of [`finish`].
        pub(super) fn last_changes<'a>($run: &'a Run, $patch: &'a Patch) -> [Value<'a>; 3 + SET + END] {
            [
                (&$run.key.tenant).into(),
                (&$run.key.run).into(),
                $run.expected.into(),
                $($(Value::from($change),)?)*
                $($(Value::from($last),)?)*
            ]
        }

        /// The run that a row of `select_runs!` shows.
        pub(crate) fn read(row: Row<'_>) -> Result<RunView> {
            let mut columns = row.columns();
            $(let $name = columns.take()?;)*
            let text_of_blob = columns.take()?;
            let read = $read;
            read(text_of_blob)
        }
    };
}

columns! {
    row(view, blob) change(run, patch)
    columns {
        tenant: &view.tenant;
        run: &view.run;
        session: &view.session;
        agent_id: &view.agent_id;
        agent: &view.agent;
        definition: &view.definition;
        user_id: &view.user;
        provider: &view.provider
            => set "coalesce($provider, provider)": patch.model.as_ref().map(|name| &name.provider);
        model: &view.model => set "coalesce($model, model)": patch.model.as_ref().map(|name| &name.model);
        parent_run: view.parent.as_ref().map(|parent| &parent.run);
        parent_agent_id: view.parent.as_ref().map(|parent| &parent.agent_id);
        parent_call: view.parent.as_ref().map(|parent| parent.call);
        parent_index: view.parent.as_ref().map(|parent| parent.index);
        root: &view.root;
        depth: view.depth;
        batch: view.batch.as_ref().map(|place| &place.batch);
        batch_index: view.batch.map(|place| place.index);
        parent_context: view.parent_context.as_ref().map(Json);
        status: view.status => set "coalesce($status, status)": patch.status;
        seq: view.seq => set "$seq": patch.seq;
        accepted_at: view.accepted_at;
        started_at: view.started_at => set "coalesce(started_at, $started_at)": patch.started_at;
        ended_at: view.ended_at => end "$ended_at": patch.ended_at;
        deadline: view.deadline => set "coalesce($deadline, deadline)": patch.deadline;
        queue_timeout_ms: view.queue_timeout_ms;
        stop_reason: view.stop_reason => end "$stop_reason": patch.stop_reason;
        error: view.error.as_ref().map(Json) => end "$error": patch.error.as_ref().map(Json);
        input_tokens: view.usage.input_tokens
            => set "input_tokens + min($input_tokens, 9223372036854775807 - input_tokens)": patch.usage.input_tokens;
        output_tokens: view.usage.output_tokens
            => set "output_tokens + min($output_tokens, 9223372036854775807 - output_tokens)":
                patch.usage.output_tokens;
        cache_creation_input_tokens: view.usage.cache_creation_input_tokens
            => set "cache_creation_input_tokens + min($cache_creation_input_tokens, \
                9223372036854775807 - cache_creation_input_tokens)": patch.usage.cache_creation_input_tokens;
        cache_read_input_tokens: view.usage.cache_read_input_tokens
            => set "cache_read_input_tokens + min($cache_read_input_tokens, \
                9223372036854775807 - cache_read_input_tokens)": patch.usage.cache_read_input_tokens;
        warnings: Some(&view.warnings).filter(|warnings| !warnings.is_empty()).map(Json)
            => end "$warnings": patch.warnings.as_ref().filter(|warnings| !warnings.is_empty()).map(Json);
        strikes: view.strikes => set "coalesce($strikes, strikes)": patch.strikes;
        cost: view.cost
            => set "CASE WHEN $cost IS NULL THEN cost \
                ELSE coalesce(cost, 0) + min($cost, 9223372036854775807 - coalesce(cost, 0)) END": patch.cost;
    }
    // One of the two holds the text; a new text replaces both.
    texts {
        final_text: view.final_text.as_ref()
            => set "CASE WHEN $final_text IS NULL AND $final_blob IS NULL THEN final_text ELSE $final_text END":
                patch.final_text.as_ref();
        final_blob: blob
            => set "CASE WHEN $final_text IS NULL AND $final_blob IS NULL THEN final_blob ELSE $final_blob END":
                run.final_blob.as_ref();
    }
    read {
        |text_of_blob: Option<String>| {
            Ok(RunView {
                tenant,
                run,
                session,
                agent_id,
                agent,
                definition,
                user: user_id,
                provider,
                model,
                parent: parent(parent_run, parent_agent_id, parent_call, parent_index)?,
                root,
                depth,
                batch: place(batch, batch_index)?,
                parent_context: json(parent_context),
                status,
                seq,
                accepted_at,
                started_at,
                ended_at,
                deadline,
                queue_timeout_ms,
                stop_reason,
                final_text: text(final_text, final_blob, text_of_blob)?,
                error: json(error),
                usage: Usage { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens },
                cost,
                warnings: json(warnings).unwrap_or_default(),
                strikes,
            })
        }
    }
}

/// `SELECT` of a run's row, then what follows `FROM runs`.
macro_rules! select_runs {
    ($rest:expr) => {
        concat!(
            "SELECT ",
            names!(),
            "final_text, final_blob, ",
            $crate::tables::blobs::final_text!(),
            " FROM runs ",
            $rest
        )
    };
}
pub(super) use select_runs;

/// The same without the text, which may be long.
macro_rules! select_runs_without_texts {
    ($($rest:expr),+) => {
        concat!("SELECT ", names!(), "NULL, NULL, NULL FROM runs ", $($rest),+)
    };
}
pub(super) use select_runs_without_texts;

pub(super) fn insert() -> String {
    let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    let places: Vec<_> = (1..=COLUMNS.len()).map(|number| format!("${number}")).collect();
    format!("INSERT INTO runs ({}) VALUES ({})", names.join(", "), places.join(", "))
}

/// The update of a run that goes on, which is also the check of its sequence.
pub(super) fn advance() -> String {
    update(COLUMNS.iter().filter_map(|column| Some((column.name, column.set?))))
}

/// The update of a run that ends. It is apart from [`advance`], so that only the end of a run touches the indexes of
/// unfinished runs.
pub(super) fn finish() -> String {
    let set = COLUMNS.iter().filter_map(|column| Some((column.name, column.set?)));
    update(set.chain(COLUMNS.iter().filter_map(|column| Some((column.name, column.end?)))))
}

/// `$1` to `$3` say which run and where it must be; the changes follow.
fn update<'a>(changes: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let changes: Vec<_> = changes.collect();
    let number = |name: &str| {
        let place = changes.iter().position(|(column, _)| *column == name).expect("a column that changes");
        format!("${}", place + 4)
    };
    let mut set = Vec::new();
    for (column, how) in &changes {
        let mut pieces = how.split('$');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece.find(|next: char| !next.is_ascii_lowercase() && next != '_').unwrap_or(piece.len());
            text += &number(&piece[..end]);
            text += &piece[end..];
        }
        set.push(format!("{column} = {text}"));
    }
    format!("UPDATE runs SET {} WHERE tenant = $1 AND run = $2 AND seq = $3 AND ended_at IS NULL", set.join(", "))
}

fn parent(
    run: Option<RunId>,
    agent_id: Option<AgentId>,
    call: Option<Seq>,
    index: Option<u32>,
) -> Result<Option<Parent>> {
    match (run, agent_id, call, index) {
        (Some(run), Some(agent_id), Some(call), Some(index)) => Ok(Some(Parent { run, agent_id, call, index })),
        (None, None, None, None) => Ok(None),
        _ => Err(Error::Value("a run has half a parent".into())),
    }
}

fn place(batch: Option<BatchId>, index: Option<u32>) -> Result<Option<BatchPlace>> {
    match (batch, index) {
        (Some(batch), Some(index)) => Ok(Some(BatchPlace { batch, index })),
        (None, None) => Ok(None),
        _ => Err(Error::Value("a run has half a place in a batch".into())),
    }
}

fn text(inline: Option<String>, blob: Option<Digest>, text_of_blob: Option<String>) -> Result<Option<String>> {
    match (blob, text_of_blob) {
        (None, _) => Ok(inline),
        (Some(_), Some(text)) => Ok(Some(text)),
        (Some(digest), None) => Err(Error::Value(format!("blob {digest} is missing"))),
    }
}

fn json<T>(value: Option<Json<T>>) -> Option<T> {
    value.map(|Json(value)| value)
}
