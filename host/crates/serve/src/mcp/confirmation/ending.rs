//! What a call is answered whose question is over.

use crate::mcp::core_tools::OUTDATED;
use cardinal_store::approvals::Approval;

/// The answer to a call whose plugin is not the one that was asked about.
pub(crate) const VOID: &str =
    "confirmation_void: the plugin was replaced after the question. Make the call again to ask once more.";
pub(super) const USED: &str = "confirmation_used: this confirmation was good for one call, which has run.";
pub(super) const UNCONFIRMED: &str = "confirmation_required: this call is not confirmed.";

/// Why a call does not run that is not what was shown by now.
pub(super) const fn void(is_core: bool) -> &'static str {
    if is_core { OUTDATED } else { VOID }
}

/// Why a call does not run whose question is over; a displaced one is forgotten.
pub(super) fn describe(approval: Option<&Approval>) -> String {
    let Some(approval) = approval else {
        return "confirmation_displaced: newer calls of the same caller have taken its place. \
                Make it again to ask once more."
            .to_owned();
    };
    match (approval.state.as_str(), &approval.reason) {
        ("denied", None) => {
            "confirmation_denied: a person has refused this call. Do not repeat it unless they ask you to.".to_owned()
        }
        ("denied", Some(reason)) => format!(
            "confirmation_denied: a person has refused this call, and says why: {reason}\n\
             Do not repeat it as it was unless they ask you to."
        ),
        ("expired", _) => {
            "confirmation_expired: nobody has confirmed this call in time. Make it again to ask once more.".to_owned()
        }
        ("void", _) => void(approval.plugin.is_none()).to_owned(),
        ("used", _) => USED.to_owned(),
        _ => UNCONFIRMED.to_owned(),
    }
}
