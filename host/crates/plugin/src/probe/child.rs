//! The process in which a library is tried: what it does, and what it says of it.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
};

use serde::{Deserialize, Serialize};

use super::{failed, unanswered};
use crate::library::{self, SealedLibrary, trial};
use cardinal_package::state::Refusal;

/// What the answer's line begins with. A library may write to the same output.
pub(super) const ANSWER: &str = "cardinal-probe:";

/// What it says, a line each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Opened,
    Refused(Refusal),
    /// The instance was made; the list of its handlers.
    Made(String),
    /// `routes` ended without a router, perhaps because of these settings: a JSON pointer and what is wrong with it.
    NotMade(Refusal, Vec<(String, String)>),
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
    copy_input().map_err(|error| failed("The library could not be read.").found(error.to_string()))
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
