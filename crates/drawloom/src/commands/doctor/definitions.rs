//! What was defined at runtime, with today's config.

use std::{path::Path, sync::Arc};

use drawloom_contract::{definition::DefinitionKind, redact::Redactor};
use drawloom_store::{Found, Store};
use drawloom_substrate::{
    Weight,
    definitions::{RuntimeDefinitions, RuntimeParts},
};

use super::{Report, Verdict};
use crate::{clock::SystemClock, definitions::SourceValidator, exit::CommandError, resolve::Resolved};

/// Loads what was defined. The store is only read, also beside a server.
pub(super) async fn load(resolved: &Resolved, data: &Path) -> Result<(), CommandError> {
    if !data.join("drawloom.db").exists() {
        return Ok(());
    }
    let store = match Store::read(data).map_err(|error| CommandError::of(&error))? {
        Found::Store(store) => store,
        Found::Nothing | Found::Older => return Ok(()),
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
    definitions.load().await.map_err(|error| CommandError::of(&error))
}

/// Says what cannot be used as it was defined, and what lint warns of.
pub(super) fn check(report: &mut Report, resolved: &Resolved) {
    for (tenant, kind, name, remark) in resolved.layers.remarks() {
        let message = format!("{} {name} of tenant {tenant}: {remark}", kind.as_str());
        let of_kind = if kind == DefinitionKind::Agent { String::new() } else { format!(" --kind {}", kind.as_str()) };
        let hint =
            format!("change the config, or define {name} anew; `drawloom defs verify {name}{of_kind}` says more");
        report.add(Verdict::Warn, "definitions", message, Some(hint));
    }
    let findings = resolved.layers.findings().into_iter();
    for (tenant, name, finding) in findings.filter(|(_, _, finding)| finding.weight == Weight::Warning) {
        let message = format!("agent {name} of tenant {tenant}: {}", finding.message);
        let hint =
            format!("define {name} anew, for example with `drawloom defs fork {name} --set KEY=VALUE --promote`");
        report.add(Verdict::Warn, "definitions", message, Some(hint));
    }
}
