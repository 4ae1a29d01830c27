//! One JSON object a line: time, level, the event's fields, its target, and the fields of the spans around it.
//!
//! Written by hand, because a run logs two lines, and the general layer takes more time for them than is worth it.

use std::{
    borrow::Cow,
    cell::RefCell,
    fmt::{self, Write as _},
    io::Write,
    sync::Arc,
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    fmt::{
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    layer::Context,
    registry::LookupSpan,
};

use super::lines::Lines;
use crate::output::safe_json;

/// The layer.
pub(super) struct Json<W>(pub(super) Arc<Lines<W>>);

/// A span's fields as members of a JSON object, each with a comma after it.
struct Members(String);

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A buffer that grew beyond this for one event is not kept.
const MOST_KEPT: usize = 16 * 1024;

impl<S, W> Layer<S> for Json<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(Members(fields.members));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(Members(members)) = span.extensions_mut().get_mut::<Members>()
        {
            let mut fields = Fields { members: std::mem::take(members), target: None };
            values.record(&mut fields);
            *members = fields.members;
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // A field whose text is made by code that logs would come back in here: it gets a buffer of its own.
        let mut line = LINE.try_with(RefCell::take).unwrap_or_default();
        line.clear();
        line.push_str("{\"timestamp\":\"");
        _ = SystemTime.format_time(&mut Writer::new(&mut line));
        line.push_str("\",\"level\":\"");
        line.push_str(event.metadata().level().as_str());
        line.push_str("\",");
        let mut fields = Fields { members: line, target: None };
        event.record(&mut fields);
        let Fields { members: mut line, target } = fields;
        line.push_str("\"target\":\"");
        escape(&mut line, target.as_deref().unwrap_or(event.metadata().target()));
        line.push('"');
        if let Some(scope) = context.event_scope(event) {
            let mut spans = scope.from_root().peekable();
            let mut all = String::new();
            while let Some(span) = spans.next() {
                let start = all.len();
                all.push('{');
                if let Some(Members(members)) = span.extensions().get::<Members>() {
                    all.push_str(members);
                }
                all.push_str("\"name\":\"");
                escape(&mut all, span.name());
                all.push_str("\"}");
                if spans.peek().is_some() {
                    all.push(',');
                } else {
                    line.push_str(",\"span\":");
                    line.push_str(&all[start..]);
                }
            }
            line.push_str(",\"spans\":[");
            line.push_str(&all);
            line.push(']');
        }
        line.push_str("}\n");
        self.0.add(*event.metadata().level(), &line);
        if line.capacity() <= MOST_KEPT {
            drop(LINE.try_with(|kept| kept.replace(line)));
        }
    }
}

/// Collects fields as members of a JSON object.
#[derive(Default)]
struct Fields {
    members: String,
    /// The target of an event that came from the crate `log`.
    target: Option<String>,
}

impl Fields {
    fn name(&mut self, field: &Field) -> bool {
        let name = field.name();
        if name.starts_with("log.") {
            return false;
        }
        self.members.push('"');
        self.members.push_str(name.strip_prefix("r#").unwrap_or(name));
        self.members.push_str("\":");
        true
    }

    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        if self.name(field) {
            _ = write!(self.members, "{value},");
        }
    }

    fn text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.name(field) {
            self.members.push('"');
            _ = Escaped(&mut self.members).write_fmt(value);
            self.members.push_str("\",");
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.plain(field, value),
            false => self.plain(field, "null"),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.target = Some(value.to_owned());
        }
        if self.name(field) {
            self.members.push('"');
            escape(&mut self.members, value);
            self.members.push_str("\",");
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format_args!("{value:?}"));
    }
}

/// Writes text as the inside of a JSON string.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(self.0, text);
        Ok(())
    }
}

fn escape(to: &mut String, text: &str) {
    let start = to.len();
    let mut done = 0;
    for (place, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        to.push_str(&text[done..place]);
        done = place + 1;
        match byte {
            b'"' => to.push_str("\\\""),
            b'\\' => to.push_str("\\\\"),
            b'\n' => to.push_str("\\n"),
            b'\r' => to.push_str("\\r"),
            b'\t' => to.push_str("\\t"),
            _ => _ = write!(to, "\\u{byte:04x}"),
        }
    }
    to.push_str(&text[done..]);
    if text.bytes().any(|byte| byte >= 0x7f)
        && let Cow::Owned(safe) = safe_json(&to[start..])
    {
        to.truncate(start);
        to.push_str(&safe);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(piece);
            Ok(piece.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> Vec<Value> {
        let kept = Kept::default();
        let layers = tracing_subscriber::registry().with(Json(Lines::new(kept.clone())));
        tracing::subscriber::with_default(layers, log);
        let text = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        assert!(!text.chars().any(crate::output::is_unsafe), "{text:?}");
        let read = |line: &str| {
            let mut value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let time = value.as_object_mut().and_then(|line| line.remove("timestamp")).expect("a time");
            assert!(time.as_str().is_some_and(|time| time.ends_with('Z')), "{time}");
            value
        };
        text.lines().map(read).collect()
    }

    #[test]
    fn every_kind_of_field_is_json() {
        let nothing: Option<u64> = None;
        let lines = logged(|| {
            let odd = "a \"quote\", a \\, a\nbreak, a\ttab, \u{1}, \u{9b}, \u{202e} and \u{e9}";
            tracing::info!(text = odd, shown = %odd, debugged = ?odd, up = u64::MAX, down = -3, half = 0.5, nan = f64::NAN, yes = true, nothing, r#type = 1, "said {}", odd);
        });
        let odd = "a \"quote\", a \\, a\nbreak, a\ttab, \u{1}, \u{9b}, \u{202e} and \u{e9}";
        let target = "drawloom::logging::json::tests";
        assert_eq!(
            lines,
            [json!({
                "level": "INFO", "message": format!("said {odd}"), "text": odd, "shown": odd, "debugged": format!("{odd:?}"),
                "up": u64::MAX, "down": -3, "half": 0.5, "nan": null, "yes": true, "type": 1, "target": target,
            })]
        );
    }

    #[test]
    fn an_event_has_the_fields_of_its_spans() {
        let lines = logged(|| {
            let outer = tracing::info_span!("outer", run = "r_1", later = tracing::field::Empty);
            let _outer = outer.clone().entered();
            outer.record("later", 7);
            let _inner = tracing::info_span!("inner", call = 3).entered();
            tracing::warn!("deep");
        });
        let (outer, inner) =
            (json!({ "run": "r_1", "later": 7, "name": "outer" }), json!({ "call": 3, "name": "inner" }));
        let target = "drawloom::logging::json::tests";
        assert_eq!(
            lines,
            [json!({ "level": "WARN", "message": "deep", "target": target, "span": inner, "spans": [outer, inner] })]
        );
    }

    #[test]
    fn a_field_whose_text_logs_does_not_spoil_its_line() {
        struct Loud;
        impl fmt::Display for Loud {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                tracing::info!("from inside");
                f.write_str("loud")
            }
        }
        let lines = logged(|| tracing::info!(value = %Loud, "outside"));
        let messages: Vec<&Value> = lines.iter().map(|line| &line["message"]).collect();
        assert!(messages.contains(&&json!("outside")), "{messages:?}");
    }
}
