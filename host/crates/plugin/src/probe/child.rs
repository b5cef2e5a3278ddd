//! The process in which a library is tried: what it does, and what it says of it.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
};

use serde::{Deserialize, Serialize};

use super::{failure::probe_failed, unanswered};
use crate::library::{self, SealedLibrary, raw_instance, trial};
use cardinal_package::refusal::Refusal;

/// What the answer's line begins with. A library may write to the same output.
pub(super) const ANSWER: &str = "cardinal-probe:";

/// The longest answer that lists no handlers: what of a plugin's error is kept, with room for how it is written.
const SAID_LIMIT: usize = 2 * raw_instance::DETAILS_LIMIT;

/// What it says, a line each. The library could write such a line as well.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Opened,
    Refused(Refusal),
    /// The instance was made; the list of its handlers.
    Made(String),
    /// `routes` ended without a router, perhaps because of these settings: a JSON pointer and what is wrong with it.
    NotMade(Refusal, Vec<(String, String)>),
}

impl Answer {
    /// `None` is what no probe writes.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let is_list = line.starts_with(br#"{"Made":"#);
        if line.len() > SAID_LIMIT && !is_list {
            return None;
        }
        let mut answer = serde_json::from_slice(line).ok()?;
        if let Self::NotMade(_, fields) = &mut answer {
            fields.truncate(raw_instance::MAX_FIELDS);
        }
        Some(answer)
    }
}

/// Opens the library, makes an instance of it, and says on standard output how that went.
///
/// # Errors
/// An answer cannot be written.
pub fn run(library: Result<SealedLibrary, Refusal>, settings: String) -> io::Result<()> {
    let library = match library.and_then(library::open) {
        Ok(library) => library,
        Err(refusal) => return write_answer(&Answer::Refused(refusal)),
    };
    write_answer(&Answer::Opened)?;
    write_answer(&match trial::exports(&library, unanswered::host_api(settings)) {
        Ok(list) => Answer::Made(String::from_utf8_lossy(list.get()).into_owned()),
        Err(mut error) => {
            let fields = error.take_fields();
            Answer::NotMade(error.into(), fields)
        }
    })
}

fn write_answer(answer: &Answer) -> io::Result<()> {
    let text = serde_json::to_string(answer)?;
    let mut output = io::stdout().lock();
    // The library may have left a line open.
    writeln!(output, "\n{ANSWER}{text}")?;
    output.flush()
}

/// The library on standard input, as it is opened.
///
/// # Errors
/// It cannot be read.
pub fn receive() -> Result<SealedLibrary, Refusal> {
    copy_input().map_err(|error| probe_failed("The library could not be read.").found(error.to_string()))
}

fn copy_input() -> io::Result<SealedLibrary> {
    SealedLibrary::seal(&read_whole(&File::from(io::stdin().as_fd().try_clone_to_owned()?))?)
}

/// Read from its beginning, wherever whoever wrote it has left the offset.
pub(super) fn read_whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cardinal_package::refusal::Code;

    #[test]
    fn an_answer_is_bounded_where_it_is_read() {
        let refusal = || Refusal::new(Code::CreateFailed, "It failed.");
        let said = |fields: usize, detail: &str| {
            let fields = vec![("/a".to_owned(), detail.to_owned()); fields];
            Answer::read(&serde_json::to_vec(&Answer::NotMade(refusal(), fields)).unwrap())
        };
        let Some(Answer::NotMade(_, fields)) = said(5_000, "") else { panic!("it is short enough") };
        assert_eq!(fields.len(), raw_instance::MAX_FIELDS);
        // The most that an honest one says.
        let most = "x".repeat(raw_instance::DETAILS_LIMIT);
        assert!(matches!(said(1, &most), Some(Answer::NotMade(_, fields)) if fields[0].1 == most));
        for (fields, detail) in [(280_000, String::new()), (1, most.repeat(2))] {
            assert!(said(fields, &detail).is_none(), "{fields}");
        }
        let long = Refusal { found: Some(most.repeat(2)), ..refusal() };
        assert!(Answer::read(&serde_json::to_vec(&Answer::Refused(long)).unwrap()).is_none());
        let list = serde_json::to_vec(&Answer::Made("x".repeat(1 << 20))).unwrap();
        assert!(matches!(Answer::read(&list), Some(Answer::Made(_))));
    }
}
