use serde::{Deserialize, Serialize};

use super::reader::Reader;

/// Who confirms a tool call that needs confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// The client's user where the client can ask, else a person in the Admin UI.
    Auto,
    /// Always a person in the Admin UI.
    Admin,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mcp {
    pub confirm: Confirm,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "MCP")]
#[group(skip)]
pub(super) struct Args {
    /// Who confirms tool calls: auto (the client's user where it can ask) or admin, e.g. admin [default: auto]
    #[arg(long, env, value_name = "WHO")]
    mcp_confirm: Option<String>,
}

impl Mcp {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Mcp {
        let confirm = |text: &str| match text {
            "auto" => Ok(Confirm::Auto),
            "admin" => Ok(Confirm::Admin),
            _ => Err(format!("{text:?} is neither auto nor admin")),
        };
        Mcp { confirm: reader.value("MCP_CONFIRM", &args.mcp_confirm, Confirm::Auto, confirm) }
    }
}
