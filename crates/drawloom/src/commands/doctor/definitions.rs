//! What was defined at runtime, with today's config.

use std::{path::Path, sync::Arc};

use drawloom_contract::{definition::DefinitionKind, redact::Redactor};
use drawloom_store::{Found, Store};
use drawloom_substrate::definitions::{RuntimeDefinitions, RuntimeParts};

use super::{Report, Verdict};
use crate::{clock::SystemClock, definitions::SourceValidator, exit::CommandError, resolve::Resolved};

/// Says what cannot be used as it was defined. The store is only read, also beside a server.
pub(super) async fn check(report: &mut Report, resolved: &Resolved, data: &Path) {
    if !data.join("drawloom.db").exists() {
        return;
    }
    let store = match Store::read(data) {
        Ok(Found::Store(store)) => store,
        Ok(Found::Nothing | Found::Older) => return,
        Err(error) => return report.fail("definitions", &CommandError::of(&error)),
    };
    if let Ok(data) = data.canonicalize() {
        resolved.layers.keep_apart(data);
    }
    let definitions = RuntimeDefinitions::new(RuntimeParts {
        layers: resolved.layers.clone(),
        values: store,
        check: Arc::new(SourceValidator::default()),
        channels: None,
        clock: Arc::new(SystemClock),
        redactor: Arc::new(Redactor::new([""; 0])),
    });
    if let Err(error) = definitions.load().await {
        return report.fail("definitions", &CommandError::of(&error));
    }
    for (tenant, kind, name, remark) in resolved.layers.remarks() {
        let message = format!("{} {name} of tenant {tenant}: {remark}", kind.as_str());
        let of_kind = if kind == DefinitionKind::Agent { String::new() } else { format!(" --kind {}", kind.as_str()) };
        let hint =
            format!("change the config, or define {name} anew; `drawloom defs verify {name}{of_kind}` says more");
        report.add(Verdict::Warn, "definitions", message, Some(hint));
    }
}
