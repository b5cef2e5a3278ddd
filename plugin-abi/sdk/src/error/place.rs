//! Where in the plugin's code an error was made, for the log.

use std::{future::Future, panic::Location};

use futures_util::TryFutureExt as _;

use super::Error;
use crate::Result;

pub(super) type Place = &'static Location<'static>;

/// The caller's place. None when that is a line of this crate or of the standard library, as behind
/// `map_err(Error::internal)`: it says nothing to an author.
#[track_caller]
pub(super) fn caller() -> Option<Place> {
    let place = Location::caller();
    is_authors(place.file()).then_some(place)
}

fn is_authors(file: &str) -> bool {
    const OWN: &str = match file!().split_at_checked(file!().len() - "error/place.rs".len()) {
        Some((folder, _)) => folder,
        None => file!(),
    };
    !file.starts_with(OWN) && !file.starts_with("/rustc/") && !file.contains("/lib/rustlib/src/rust/")
}

/// The same work; its error has the caller's place.
#[track_caller]
pub(crate) fn asked<T>(work: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
    let place = caller();
    work.map_err(move |error| error.at(place)) // `Unpin` where `work` is
}

impl Error {
    /// With this place, unless it has one of the author's already.
    pub(super) fn at(self, place: Option<Place>) -> Self {
        Self { place: self.place.or(place), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_this_crate_and_of_the_standard_library_are_no_places() {
        assert_eq!(caller(), None);
        for file in [file!(), "/rustc/0123/library/core/src/result.rs"] {
            assert!(!is_authors(file), "{file}");
        }
        for file in ["src/routes.rs", "/home/ada/notes/src/service.rs", "notes/tests/all.rs"] {
            assert!(is_authors(file), "{file}");
        }
    }
}
