//! Every route of the plugin answers: it is there, takes its method, and does not break without a body.

use http::StatusCode;

use super::{
    Outcome,
    requests::{Answer, Subject, Target},
    some,
};

pub(super) async fn check(subject: &Subject) -> anyhow::Result<Outcome> {
    let targets = subject.targets();
    if targets.is_empty() {
        return Ok(Outcome::Skipped("the plugin has no routes".to_owned()));
    }
    let mut bad = Vec::new();
    for target in &targets {
        match subject.ask(target).await {
            Ok(answer) => {
                if let Some(fault) = fault(target, &answer) {
                    let reason = subject.find_reason(&answer.request_id).await;
                    bad.push([Some(fault), reason].into_iter().flatten().collect::<Vec<_>>().join(": "));
                }
            }
            Err(error) => bad.push(format!("{}: {error:#}", target.name)),
        }
    }
    Ok(match bad.is_empty() {
        true => Outcome::Good(format!("{} of {} answer", targets.len(), targets.len())),
        false => Outcome::Bad(some(&bad)),
    })
}

/// What is wrong with an answer. An id that was made up may well be unknown to the plugin.
fn fault(target: &Target, answer: &Answer) -> Option<String> {
    let Answer { status, code, .. } = answer;
    let is_missing = *status == StatusCode::NOT_FOUND && !target.is_made_up;
    let is_bad = is_missing || *status == StatusCode::METHOD_NOT_ALLOWED || status.is_server_error();
    is_bad.then(|| format!("{}: {status} {code}", target.name))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn an_answer_is_good_unless_the_route_is_missing_or_breaks() {
        let target = |is_made_up| Target { method: Method::GET, path: "/".into(), name: "GET /".into(), is_made_up };
        let answer = |status| Answer {
            status: StatusCode::from_u16(status).unwrap(),
            code: String::new(),
            request_id: String::new(),
        };
        let is_bad = |status: u16, made_up| fault(&target(made_up), &answer(status)).is_some();
        for good in [200, 201, 204, 303, 400, 409, 415, 422] {
            assert!(!is_bad(good, false), "{good}");
        }
        for bad in [404, 405, 500, 502, 503, 504] {
            assert!(is_bad(bad, false), "{bad}");
        }
        assert!(!is_bad(404, true) && is_bad(405, true));
    }
}
