//! What a session's client answers to a question: a JSON-RPC response in a message of its own.

use rmcp::model::ElicitResult;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::elicitation;

/// An answer to the question `id`.
pub(crate) struct Reply {
    pub id: Uuid,
    pub accepts: bool,
}

#[derive(Deserialize)]
struct Response {
    id: Value,
    result: Option<Value>,
}

impl Reply {
    /// `None` for whatever is no response to a question of ours. An error, or a result that is none, accepts nothing.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let response: Response = serde_json::from_slice(bytes).ok()?;
        let id = elicitation::question_id(response.id.as_str()?)?;
        let result = response.result.and_then(|result| serde_json::from_value::<ElicitResult>(result).ok());
        Some(Self { id, accepts: result.is_some_and(|result| elicitation::accepts(&result)) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_plain_acceptance_accepts() {
        let id = "confirmation-0190f7a2-1111-7222-8333-444455556666";
        let read = |result: Value| {
            let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
            Reply::read(response.to_string().as_bytes()).unwrap().accepts
        };
        assert!(read(json!({"action": "accept", "content": {"confirm": true}})));
        assert!(read(json!({"action": "accept"})) && read(json!({"action": "accept", "content": {}})));
        for refused in [
            json!({"action": "accept", "content": {"confirm": false}}),
            json!({"action": "accept", "content": {"confirm": "yes"}}),
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "approve"}),
            json!({}),
            json!(true),
        ] {
            assert!(!read(refused.clone()), "{refused}");
        }
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
        assert!(!Reply::read(error.to_string().as_bytes()).unwrap().accepts);
        for other in [json!(7), json!("7"), json!("confirmation-7"), json!(null)] {
            let response = json!({"jsonrpc": "2.0", "id": other, "result": {"action": "accept"}});
            assert!(Reply::read(response.to_string().as_bytes()).is_none(), "{other}");
        }
    }
}
