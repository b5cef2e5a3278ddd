//! An error and what led to it.

use std::{error::Error, iter};

/// The error itself first, then each cause of the one before.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error| (*error).source())
}

/// The error with its causes, as one line. A cause is left out where the text ends with it already: many errors print
/// their cause themselves.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        #[source]
        cause: Option<Box<Step>>,
    }

    fn chain(texts: &[&'static str]) -> Step {
        let cause = (texts.len() > 1).then(|| Box::new(chain(&texts[1..])));
        Step { text: texts[0], cause }
    }

    #[test]
    fn causes_follow_their_error_and_none_is_said_twice() {
        for (texts, line) in [
            (&["connecting failed"][..], "connecting failed"),
            (&["connecting failed", "no route", "unreachable"], "connecting failed: no route: unreachable"),
            (&["connecting failed: no route", "no route", "unreachable"], "connecting failed: no route: unreachable"),
        ] {
            let error = chain(texts);
            assert_eq!(with_causes(&error), line);
            assert_eq!(causes(&error).count(), texts.len());
        }
    }
}
