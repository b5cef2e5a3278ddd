//! A decision about a call as the audit log shows it.

use serde_json::{Value, json};

use super::binding;
use crate::audit::AuditAction;
use cardinal_store::approvals::{Approval, Decision};

pub(crate) const fn act(decision: Decision<'_>) -> AuditAction {
    match decision {
        Decision::Approve => AuditAction::Approve,
        Decision::Deny(_) => AuditAction::Deny,
    }
}

/// An approval as the audit log shows it: of the arguments, what they can be compared by.
pub(crate) fn audited(approval: &Approval) -> Value {
    let mut detail = json!({
        "tool": approval.tool, "plugin": approval.plugin, "caller": approval.caller,
        "arguments_sha256": binding::sha256(approval.arguments.get()), "decided_by": approval.decided_by,
    });
    if let Some(reason) = &approval.reason {
        detail["reason"] = reason.as_str().into();
    }
    detail
}
