use serde::{Deserialize, Serialize};

use super::reader::{Reader, number};

const DEFAULT_CARD_RETENTION_DAYS: u32 = 30;
const DEFAULT_AUDIT_RETENTION_DAYS: u32 = 365;
const MAX_RETENTION_DAYS: u32 = 36_500;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cards {
    pub retention_days: u32,
    pub audit_retention_days: u32,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Retention")]
#[group(skip)]
pub(super) struct Args {
    /// Days after which a deleted card is removed for good, e.g. 90 [default: 30]
    #[arg(long, env, value_name = "DAYS")]
    card_retention_days: Option<String>,
    /// Days that the audit log is kept, e.g. 730 [default: 365]
    #[arg(long, env, value_name = "DAYS")]
    audit_retention_days: Option<String>,
}

impl Cards {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Cards {
        Cards {
            retention_days: reader.value(
                "CARD_RETENTION_DAYS",
                &args.card_retention_days,
                DEFAULT_CARD_RETENTION_DAYS,
                number(0..=MAX_RETENTION_DAYS),
            ),
            audit_retention_days: reader.value(
                "AUDIT_RETENTION_DAYS",
                &args.audit_retention_days,
                DEFAULT_AUDIT_RETENTION_DAYS,
                number(1..=MAX_RETENTION_DAYS),
            ),
        }
    }
}
