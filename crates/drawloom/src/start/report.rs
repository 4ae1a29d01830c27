//! What a start logs about the config and about what was defined at runtime.

use drawloom_substrate::{Finding, Weight};

use crate::{config::Loaded, resolve::Resolved};

/// Says what the reader of the config should know.
pub(super) fn findings<'a>(loaded: &Loaded, findings: impl IntoIterator<Item = &'a Finding>) {
    for finding in findings {
        let place = loaded.position(&finding.at);
        match finding.weight {
            Weight::Warning => tracing::warn!(%place, "{}", finding.message),
            Weight::Note => tracing::info!(%place, "{}", finding.message),
        }
    }
}

/// Says what was defined at runtime and cannot be used as it was defined.
pub(super) fn definitions(resolved: &Resolved) {
    for (tenant, kind, name, remark) in resolved.layers.remarks() {
        tracing::warn!(%tenant, kind = kind.as_str(), name, remark, "a definition made at runtime does not fit the config");
    }
}

/// Says what lint warns of in agents made at runtime. Notes are shown where an agent is made or verified.
pub(super) fn runtime_findings(resolved: &Resolved) {
    for (tenant, name, finding) in resolved.layers.findings() {
        match finding.weight {
            Weight::Warning => tracing::warn!(%tenant, name, "{}", finding.message),
            Weight::Note => tracing::debug!(%tenant, name, "{}", finding.message),
        }
    }
}
