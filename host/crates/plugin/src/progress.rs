//! The progress that a plugin reports of a call, on its way to the one that waits for the call.
//!
//! Only the latest report is kept, so a plugin that reports without end takes no memory and holds up no call.

use tokio::sync::watch;

/// Bytes of a report's text.
const TEXT_LIMIT: usize = 1 << 10;

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// A number, never less than 0.
    pub done: f64,
    /// Above 0; none when it is not known.
    pub total: Option<f64>,
    pub text: Option<String>,
}

/// The plugin's end.
#[derive(Clone, Debug)]
pub struct ProgressSender(watch::Sender<Option<Progress>>);

/// The waiting side of a call. It sees the latest report.
pub type ProgressReceiver = watch::Receiver<Option<Progress>>;

/// Both ends.
pub fn channel() -> (ProgressSender, ProgressReceiver) {
    let (sender, receiver) = watch::channel(None);
    (ProgressSender(sender), receiver)
}

impl ProgressSender {
    /// Takes a report as a plugin made it; one without a number is none.
    pub fn report(&self, done: f64, total: f64, text: &[u8]) {
        if !done.is_finite() {
            return;
        }
        let total = Some(total).filter(|total| total.is_finite() && *total > 0.0);
        self.0.send_replace(Some(Progress { done: done.max(0.0), total, text: readable(text) }));
    }
}

/// The text without control characters, cut between two characters; none when nothing is left.
pub(crate) fn readable(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&text[..text.len().min(TEXT_LIMIT)]);
    let cut = text.trim_end_matches('\u{fffd}');
    let readable: String = cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let readable = readable.trim();
    (!readable.is_empty()).then(|| readable.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_report_counts_and_is_readable() {
        let (sender, mut receiver) = channel();
        sender.report(1.0, 3.0, b"one");
        sender.report(2.0, 3.0, "z\u{1b}[2K\nwei".as_bytes());
        let latest = receiver.borrow_and_update().clone().unwrap();
        assert_eq!(latest, Progress { done: 2.0, total: Some(3.0), text: Some("z [2K wei".to_owned()) });
        sender.report(-1.0, f64::NAN, b" \n");
        let latest = receiver.borrow_and_update().clone().unwrap();
        assert_eq!(latest, Progress { done: 0.0, total: None, text: None });
        sender.report(f64::INFINITY, 3.0, b"no number");
        assert!(!receiver.has_changed().unwrap());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let (sender, receiver) = channel();
        sender.report(1.0, 0.0, "ä".repeat(TEXT_LIMIT).as_bytes());
        let text = receiver.borrow().clone().unwrap().text.unwrap();
        assert_eq!(text, "ä".repeat(TEXT_LIMIT / 2));
        sender.report(1.0, 0.0, format!("a{}", "ä".repeat(TEXT_LIMIT)).as_bytes());
        let text = receiver.borrow().clone().unwrap().text.unwrap();
        assert!(text.len() < TEXT_LIMIT && text.ends_with('ä'), "{text}");
    }
}
